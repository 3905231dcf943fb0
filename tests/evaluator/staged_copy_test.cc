#include "evaluator/staging/staged_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;

class StagedCopyTest : public ::testing::Test {
 protected:
  StagedCopyTest() {
    std::string pattern = ::testing::TempDir() + "staging.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    fs::create_directories(folder_ / "ckpt/sub");
    std::ofstream(folder_ / "ckpt/model.bin") << std::string(5u << 20, 'm');
    std::ofstream(folder_ / "ckpt/sub/config.json") << "{}";
    request_ = {folder_ / "ckpt", folder_ / "root", "f1", "17", Bytes{0}, std::nullopt};
  }
  ~StagedCopyTest() override { fs::remove_all(folder_); }

  Result<StagedCopy> Make() {
    return StagedCopy::Make(request_, [](Bytes, Bytes) { return true; });
  }
  std::size_t Leftovers() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "root")) {
      count += entry.path().filename().string().starts_with(".partial") ? 1 : 0;
    }
    return count;
  }
  fs::path folder_;
  StageRequest request_;
};

TEST_F(StagedCopyTest, CopiesWholeFoldersAndRemovesThem) {
  auto copy = Make();
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(FindStagedCopy(request_.root, "f1"), request_.root / "f1");
  EXPECT_EQ(fs::file_size(request_.root / "f1/model.bin"), 5u << 20);
  EXPECT_TRUE(fs::exists(request_.root / "f1/sub/config.json"));
  copy->Remove();
  EXPECT_FALSE(FindStagedCopy(request_.root, "f1"));
  EXPECT_TRUE(fs::is_empty(request_.root));
}

TEST_F(StagedCopyTest, ALiveHolderKeepsItsCopy) {
  auto copy = Make();
  ASSERT_TRUE(copy);
  EXPECT_EQ(Make().error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(StagedCopyTest, TakesOverADeadHoldersCopyAndClearsItsPartialOnes) {
  { ASSERT_TRUE(Make()); }  // Gone without Remove, as after kill -9.
  fs::create_directories(request_.root / ".partial-f1-16");
  fs::create_directories(request_.root / ".partial-other-16");
  bool copied = false;
  auto copy = StagedCopy::Make(request_, [&](Bytes, Bytes) { return copied = true; });
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copied) << "nothing is read again";
  EXPECT_EQ(Leftovers(), 1u) << "another checkpoint's are not ours to touch";
}

TEST_F(StagedCopyTest, ADamagedCopyDoesNotCount) {
  { ASSERT_TRUE(Make()); }
  fs::resize_file(request_.root / "f1/model.bin", 100);
  EXPECT_FALSE(FindStagedCopy(request_.root, "f1"));
  ASSERT_TRUE(Make());
  EXPECT_TRUE(FindStagedCopy(request_.root, "f1")) << "made anew";
}

TEST_F(StagedCopyTest, ChecksRoomBeforeAByteIsWritten) {
  request_.reserve = Mebibytes(1ull << 40);
  const auto copy = Make();
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(copy.error().message.find("must stay free"), std::string::npos);
  EXPECT_FALSE(fs::exists(request_.root / "f1"));
  EXPECT_EQ(Leftovers(), 0u);
}

TEST_F(StagedCopyTest, AFullDiskLeavesNothingHalfCopied) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1u << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto copy = Make();
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(copy);
  EXPECT_NE(copy.error().message.find("model.bin"), std::string::npos);
  EXPECT_FALSE(FindStagedCopy(request_.root, "f1"));
  EXPECT_EQ(Leftovers(), 0u);
}

TEST_F(StagedCopyTest, StopsWhenToldTo) {
  const auto copy = StagedCopy::Make(request_, [](Bytes, Bytes) { return false; });
  EXPECT_FALSE(copy);
  EXPECT_EQ(Leftovers(), 0u);
}

}  // namespace
}  // namespace coeval::evaluator
