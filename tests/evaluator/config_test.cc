#include "evaluator/service/config.h"

#include <gtest/gtest.h>

namespace coeval::evaluator {
namespace {

std::string FaultOf(const std::string& text) {
  const auto config = ParseConfig(text, "e.yaml");
  return config ? "" : config.error().message;
}

TEST(EvaluatorConfig, FillsInWhatIsNotSaid) {
  const auto config = ParseConfig("work_dir: /w\n", "e.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ledger, "/w/ledger.db");
  EXPECT_EQ(config->socket, "/w/evaluator.sock");
  EXPECT_TRUE(config->llm_options);
}

TEST(EvaluatorConfig, RefusesWithFileLineAndRemedy) {
  EXPECT_EQ(FaultOf("suites: /s\n"), "e.yaml:1: 'work_dir' is missing");
  EXPECT_EQ(FaultOf("work_dir: w\n"), "e.yaml:1: work_dir is 'w'; must be an absolute path");
  EXPECT_EQ(FaultOf("work_dir: /w\nlease_s: 1\n"), "e.yaml:2: lease_s is 1; must be 3..3600");
  EXPECT_EQ(FaultOf("work_dir: /w\ncaps: {trials_mx: 2}\n").substr(0, 37),
            "e.yaml:2: unknown key 'trials_mx'; di");
}

TEST(EvaluatorConfig, RefusesContradictoryDirectivesNamingBoth) {
  const std::string head = "work_dir: /w\nslurm:\n  trial:\n    qos: eval\n    extra_args:\n";
  EXPECT_EQ(FaultOf(head + "      - --mem=1G\n      - --mem-per-cpu=1G\n"),
            "e.yaml:7: --mem-per-cpu contradicts --mem (e.yaml:6); keep one");
  EXPECT_EQ(FaultOf(head + "      - --qos=other\n"),
            "e.yaml:6: --qos contradicts 'qos' (e.yaml:4); keep one");
  EXPECT_EQ(FaultOf(head + "      - --comment=x\n"),
            "e.yaml:6: --comment is coeval's own; leave it out");
  EXPECT_EQ(FaultOf(head + "      - -N1\n"),
            "e.yaml:6: '-N1' is no long option; write --name=value");
  EXPECT_EQ(FaultOf(head + "      - --gpus-per-node=1\n"), "");
}

}  // namespace
}  // namespace coeval::evaluator
