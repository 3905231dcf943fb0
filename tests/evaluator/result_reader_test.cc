#include "evaluator/worker/result_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;

class ResultReaderTest : public ::testing::Test {
 protected:
  ResultReaderTest() {
    std::string pattern = ::testing::TempDir() + "result.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~ResultReaderTest() override { fs::remove_all(folder_); }
  std::string Fault(const std::string& text, std::int64_t items = 0) {
    std::ofstream(folder_ / "result.json") << text;
    const auto score = ReadScore("coeval", folder_, items, "d");
    return score ? "" : score.error().message;
  }
  fs::path folder_;
};

TEST_F(ResultReaderTest, TakesAGoodScore) {
  EXPECT_EQ(Fault(R"({"primary":"acc","metrics":{"acc":0.61,"acc_stderr":0.01},"items":500})", 500),
            "");
  EXPECT_EQ(
      *ReadScore("coeval", folder_, 500, "d"),
      R"({"primary":"acc","value":0.61,"metrics":{"acc":0.61,"acc_stderr":0.01},"items":500})");
}

TEST_F(ResultReaderTest, RefusesWhatIsNoScore) {
  EXPECT_NE(Fault(R"({"primary":"acc","metrics":{"acc":NaN},"items":5})").find("NaN"),
            std::string::npos);
  EXPECT_NE(Fault(R"({"primary":"acc","metrics":{"acc":1e999},"items":5})"), "");
  EXPECT_NE(Fault(R"({"metrics":{"acc":1},"items":5})").find("no primary"), std::string::npos);
  EXPECT_NE(Fault(R"({"primary":"f1","metrics":{"acc":1},"items":5})")
                .find("lacks its primary metric 'f1'"),
            std::string::npos);
  EXPECT_NE(Fault(R"({"primary":"acc","metrics":{"acc":"high"},"items":5})").find("no number"),
            std::string::npos);
  EXPECT_EQ(Fault(R"({"primary":"acc","metrics":{"acc":1},"items":499})", 500),
            "the result covers 499 of 500 items");
  EXPECT_NE(Fault(R"({"primary":"acc","metrics":{"acc":1}})").find("how many items"),
            std::string::npos);
  EXPECT_NE(Fault("[]"), "");
  EXPECT_NE(Fault(""), "");
  fs::remove(folder_ / "result.json");
  EXPECT_NE(ReadScore("coeval", folder_, 0, "d").error().message.find("wrote no result"),
            std::string::npos);
  EXPECT_FALSE(ReadScore("unknown", folder_, 0, "d"));
}

TEST_F(ResultReaderTest, ReadsWhatLmEvaluationHarnessLeaves) {
  fs::create_directories(folder_ / "model");
  std::ofstream(folder_ / "model/results_2026.json")
      << R"({"results":{"arc":{"alias":"arc","acc,none":0.4,"acc_stderr,none":0.1,
        "acc_norm,none":0.5}},
    "n-samples":{"arc":{"original":100,"effective":100}}})";
  EXPECT_EQ(
      *ReadScore("lm_eval", folder_, 100, "arc"),
      R"({"primary":"acc_norm","value":0.5,"metrics":{"acc":0.4,"acc_stderr":0.1,)"
      R"("acc_norm":0.5},"items":100})");
  EXPECT_FALSE(ReadScore("lm_eval", folder_, 101, "arc"));
}

}  // namespace
}  // namespace coeval::evaluator
