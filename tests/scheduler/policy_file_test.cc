#include "scheduler/config/policy_file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace coeval::scheduler {
namespace {

std::string FaultOf(const std::string& text) {
  const auto policy = ParsePolicy(text, "p.yaml");
  return policy ? "" : policy.error().message;
}

TEST(PolicyFile, EverySampleIsSound) {
  int samples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CONFIGS "/policies")) {
    const auto policy = LoadPolicy(entry.path());
    EXPECT_TRUE(policy) << policy.error().message;
    ++samples;
  }
  EXPECT_GE(samples, 1);
}

TEST(PolicyFile, NamesFileLineValueAndWhatIsAllowed) {
  EXPECT_EQ(FaultOf("cycle_interval_s: 2\n"), "p.yaml:1: 'policy' is missing");
  EXPECT_EQ(FaultOf("policy: p\ncycle_interval_s: 0\n"),
            "p.yaml:2: cycle_interval_s is 0; must be 1..3600");
  EXPECT_EQ(FaultOf("policy: p\ncycle_intervall_s: 1\n"),
            "p.yaml:2: unknown key 'cycle_intervall_s'; did you mean 'cycle_interval_s'?");
  EXPECT_EQ(FaultOf("policy: p\nroles: {evla: {weight: 1}}\n"),
            "p.yaml:2: unknown key 'evla'; did you mean 'eval'?");
  EXPECT_EQ(FaultOf("policy: p\nroles:\n  eval: {weight: high}\n"),
            "p.yaml:3: weight is high; must be -100000000..100000000");
  EXPECT_EQ(FaultOf("policy: p\nmatch: [{name: x, role: boss}]\n").substr(0, 42),
            "p.yaml:2: role is 'boss'; must be one of p");
  EXPECT_EQ(FaultOf("policy: p\nmatch: [{role: eval}]\n").substr(0, 39),
            "p.yaml:2: the rule matches every job; g");
  EXPECT_EQ(FaultOf("policy: p\nageing: {per_hour: 5}\n"),
            "p.yaml:2: ageing needs a 'max', the bound on what a job can gain");
  EXPECT_EQ(FaultOf("policy: p\neval: {over_quota_weight: 5}\n"),
            "p.yaml:2: over_quota_weight is 5; must be -100000000..0");
}

}  // namespace
}  // namespace coeval::scheduler
