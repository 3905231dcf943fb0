#include "common/base/files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>

namespace coeval {
namespace {

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    std::string pattern = ::testing::TempDir() + "files.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(FilesTest, WritesWholeFilesAndLeavesNoTemporaryOnes) {
  ASSERT_TRUE(WriteFileAtomically(folder_ / "a", "one"));
  ASSERT_TRUE(WriteFileAtomically(folder_ / "a", "two"));
  EXPECT_EQ(ReadFile(folder_ / "a").value(), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FilesTest, NamesWhatCannotBeReadOrWritten) {
  const auto missing = ReadFile(folder_ / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("none"), std::string::npos);
  EXPECT_FALSE(WriteFileAtomically(folder_ / "no/such/folder", "x"));
}

TEST_F(FilesTest, RefusesFilesOverTheLimit) {
  ASSERT_TRUE(WriteFileAtomically(folder_ / "big", std::string(100, 'x')));
  EXPECT_EQ(ReadFile(folder_ / "big", Bytes{99}).error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(ReadFile(folder_ / "big", Bytes{100}));
}

TEST_F(FilesTest, KeepsTheOldContentsWhenTheNewDoNotFit) {
  ASSERT_TRUE(WriteFileAtomically(folder_ / "a", "old"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto written = WriteFileAtomically(folder_ / "a", std::string(100, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(written);
  EXPECT_EQ(ReadFile(folder_ / "a").value(), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FilesTest, TailStartsWithAWholeLine) {
  ASSERT_TRUE(WriteFileAtomically(folder_ / "log", "first\nsecond\nthird\n"));
  EXPECT_EQ(TailOfFile(folder_ / "log", 10), "third\n");
  EXPECT_EQ(TailOfFile(folder_ / "log", 1000), "first\nsecond\nthird\n");
  EXPECT_EQ(TailOfFile(folder_ / "none"), "");
}

TEST_F(FilesTest, LockIsHeldUntilItsOwnerGoes) {
  auto first = FileLock::TryAcquire(folder_ / "lock");
  ASSERT_TRUE(first);
  const auto second = FileLock::TryAcquire(folder_ / "lock");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
  { FileLock gone = std::move(*first); }
  EXPECT_TRUE(FileLock::TryAcquire(folder_ / "lock"));
}

}  // namespace
}  // namespace coeval
