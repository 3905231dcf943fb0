#include "evaluator/suite/suite.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "evaluator/suite/placeholders.h"
#include "evaluator/suite/suite_folder.h"

namespace coeval::evaluator {
namespace {

const char kGood[] = R"(suite: core
harness: {name: h, version: "1"}
seed: 7
stages:
  inference: {argv: [run, "{staged}", "{dataset}"], gpus: 2, mem: 4G}
  metric: {argv: [score, "{out}"]}
datasets:
  - {name: a, items: 100, split: items, priors: {inference_s: 4}}
  - {name: b, args: ["--x"]}
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string FaultOf(const std::string& text) {
  const auto suite = ParseSuite(text, "s.yaml");
  return suite ? "" : suite.error().message;
}

TEST(ParseSuite, ReadsAWholeSuite) {
  const auto suite = ParseSuite(kGood, "s.yaml");
  ASSERT_TRUE(suite) << suite.error().message;
  EXPECT_EQ(suite->name, "core");
  EXPECT_EQ(suite->inference.gpus, 2u);
  EXPECT_EQ(suite->inference.mem_mb, 4096u);
  ASSERT_TRUE(suite->metric);
  EXPECT_EQ(suite->datasets[0].split, Split::kItems);
  EXPECT_EQ(suite->datasets[1].args, (std::vector<std::string>{"--x"}));
}

TEST(ParseSuite, NamesFileLineAndRemedy) {
  EXPECT_EQ(FaultOf(Replaced(kGood, "{dataset}", "{datset}")).substr(0, 49),
            "s.yaml:5: unknown placeholder {datset}; known her");
  EXPECT_EQ(FaultOf(Replaced(kGood, "harness:", "harnes:")),
            "s.yaml:2: unknown key 'harnes'; did you mean 'harness'?");
  EXPECT_EQ(FaultOf(Replaced(kGood, "gpus: 2", "gpus: 65")), "s.yaml:5: gpus is 65; must be 0..64");
  EXPECT_EQ(FaultOf(Replaced(kGood, "name: b", "name: a")),
            "s.yaml:9: dataset 'a' is listed twice; keep one");
  EXPECT_NE(FaultOf(Replaced(kGood, "name: a", "name: a/b")).find("must be 1 to 64 of"),
            std::string::npos);
  EXPECT_NE(
      FaultOf(Replaced(kGood, "items: 100, ", "")).find("split is 'items' but items is not given"),
      std::string::npos);
  EXPECT_NE(FaultOf(Replaced(kGood, "{out}", "{out")).find("stray '{'"), std::string::npos);
}

TEST(ParseSuite, LetsASessionNameOnlyWhatItKnowsAtItsStart) {
  const std::string session = Replaced(kGood, "{argv: [run, \"{staged}\", \"{dataset}\"]",
                                       "{adapter: session, argv: [run, \"{staged}\"]");
  EXPECT_EQ(FaultOf(session), "");
  EXPECT_NE(FaultOf(Replaced(session, "\"{staged}\"", "\"{dataset}\""))
                .find("unknown placeholder {dataset}"),
            std::string::npos);
}

TEST(SettingsHash, ChangesWithEverythingThatChangesAScore) {
  const auto base = *ParseSuite(kGood, "s");
  const std::string hash = SettingsHash(base, base.datasets[0]);
  EXPECT_EQ(hash.size(), 32u);
  for (const auto& [from, to] : {std::pair{"version: \"1\"", "version: \"2\""},
                                 {"seed: 7", "seed: 8"},
                                 {"[run,", "[run2,"},
                                 {"[score,", "[score2,"},
                                 {"items: 100", "items: 99"}}) {
    const auto other = *ParseSuite(Replaced(kGood, from, to), "s");
    EXPECT_NE(SettingsHash(other, other.datasets[0]), hash) << to;
  }
  const auto same = *ParseSuite(Replaced(kGood, "inference_s: 4", "inference_s: 5"), "s");
  EXPECT_EQ(SettingsHash(same, same.datasets[0]), hash) << "a prior changes no score";
}

TEST(Expand, FillsPlaceholdersAndKeepsWhatIsUnknown) {
  const PlaceholderValues values = {{"out", "/o"}, {"shard", "3"}};
  EXPECT_EQ(Expand("{out}/p-{shard}.jsonl", values), "/o/p-3.jsonl");
  EXPECT_EQ(Expand("{{literal}} {staged}", values), "{literal} {staged}");
}

TEST(SuiteFolder, KeepsTheLastGoodReadingOfABadFile) {
  std::string pattern = ::testing::TempDir() + "suites.XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern.data());
  std::ofstream(folder / "core.yaml") << kGood;
  SuiteFolder suites(folder);
  ASSERT_TRUE(suites.Refresh()->empty());
  ASSERT_NE(suites.Find("core"), nullptr);
  std::ofstream(folder / "core.yaml") << "suite: core\nnonsense: 1\n";
  const auto faults = suites.Refresh();
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_NE(suites.Find("core"), nullptr);
  EXPECT_TRUE(suites.Refresh()->empty()) << "one report a change";
  EXPECT_NE(suites.Unknown("cor").message.find("known: core"), std::string::npos);
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(suites.Refresh());
}

}  // namespace
}  // namespace coeval::evaluator
