#include "scheduler/config/policy_file.h"

#include "common/base/files.h"
#include "common/yaml/reader.h"

namespace coeval::scheduler {
namespace {

// SiteFactor is a 32-bit offset around NICE_OFFSET; the sum of all terms must fit it.
constexpr std::int64_t kMaxWeight = 100'000'000;
constexpr Seconds kMaxTime{365 * 86400};

const std::vector<std::string>& RoleNames() {
  static const std::vector<std::string> kNames = {"pretrain", "sft",       "mllm",  "eval",
                                                  "metric",   "precursor", "debug", "other"};
  return kNames;
}

MatchRule ReadRule(const yaml::Value& value) {
  yaml::Map map = value.AsMap();
  MatchRule rule;
  rule.name = map.String("name", "");
  rule.partition = map.String("partition", "");
  rule.qos = map.String("qos", "");
  rule.account = map.String("account", "");
  rule.user = map.String("user", "");
  map.Require("role");
  rule.role =
      cluster::ParseRole(map.Choice("role", RoleNames(), "other")).value_or(cluster::Role::kOther);
  rule.where = value.Where();
  if (rule.name.empty() && rule.partition.empty() && rule.qos.empty() && rule.account.empty() &&
      rule.user.empty()) {
    value.Refuse(
        "the rule matches every job; give at least one of name, partition, qos, account, user");
  }
  map.Finish();
  return rule;
}

void ReadRoles(yaml::Map* top, Policy* policy) {
  const auto value = top->Find("roles");
  if (!value) return;
  yaml::Map map = value->AsMap();
  for (const std::string& name : RoleNames()) {
    const auto entry = map.Find(name);
    if (!entry) continue;
    yaml::Map role = entry->AsMap();
    RolePolicy& read = policy->roles[*cluster::ParseRole(name)];
    read.weight = static_cast<std::int32_t>(role.Int("weight", -kMaxWeight, kMaxWeight, 0));
    if (role.Has("deadline"))
      read.deadline = role.Duration("deadline", Seconds{1}, kMaxTime, Seconds{600});
    role.Finish();
  }
  map.Finish();
}

void ReadWeights(yaml::Map* top, Policy* policy) {
  policy->urgency_weight = static_cast<std::int32_t>(top->Int("urgency_weight", 0, kMaxWeight, 0));
  if (const auto value = top->Find("ageing")) {
    yaml::Map map = value->AsMap();
    policy->ageing_per_hour = static_cast<std::int32_t>(map.Int("per_hour", 0, kMaxWeight, 0));
    policy->ageing_max = static_cast<std::int32_t>(map.Int("max", 0, kMaxWeight, 0));
    if (policy->ageing_per_hour > 0 && policy->ageing_max == 0)
      map.Refuse("ageing needs a 'max', the bound on what a job can gain");
    map.Finish();
  }
  if (const auto value = top->Find("eval")) {
    yaml::Map map = value->AsMap();
    if (map.Has("gpu_quota"))
      policy->eval_gpu_quota = static_cast<std::uint32_t>(map.Int("gpu_quota", 0, 1'000'000, 0));
    policy->over_quota_weight =
        static_cast<std::int32_t>(map.Int("over_quota_weight", -kMaxWeight, 0, 0));
    map.Finish();
  }
}

void ReadLend(yaml::Map* top, Policy* policy) {
  const auto value = top->Find("lend");
  if (!value) return;
  yaml::Map map = value->AsMap();
  policy->lend_enabled = map.Bool("enabled", true);
  policy->lend_partition = map.String("partition", policy->lend_partition);
  map.Finish();
}

Policy ReadPolicy(yaml::Map* top) {
  Policy policy;
  policy.name = top->RequireString("policy");
  policy.cycle_interval =
      top->Duration("cycle_interval_s", Seconds{1}, Seconds{3600}, policy.cycle_interval);
  for (const yaml::Value& rule : top->List("match")) policy.match.push_back(ReadRule(rule));
  ReadRoles(top, &policy);
  ReadWeights(top, &policy);
  ReadLend(top, &policy);
  policy.offer_lifetime =
      top->Duration("offer_lifetime_s", Seconds{1}, Seconds{3600}, policy.offer_lifetime);
  policy.ended_run_keep =
      top->Duration("ended_run_keep_s", Seconds{0}, kMaxTime, policy.ended_run_keep);
  policy.updates_per_cycle_max = static_cast<std::uint32_t>(
      top->Int("updates_per_cycle_max", 1, 100000, policy.updates_per_cycle_max));
  policy.operators = top->Strings("operators");
  top->Finish();
  return policy;
}

}  // namespace

Result<Policy> ParsePolicy(const std::string& text, const std::string& file) {
  auto document = yaml::Document::FromText(text, file);
  if (!document) return Fail(document.error());
  yaml::Map top = document->Root().AsMap();
  Policy policy = ReadPolicy(&top);
  if (auto sound = document->Check(); !sound) return Fail(sound.error());
  return policy;
}

Result<Policy> LoadPolicy(const std::filesystem::path& file) {
  auto text = ReadFile(file, Mebibytes(4));
  if (!text) return Fail(text.error());
  return ParsePolicy(*text, file.string());
}

}  // namespace coeval::scheduler
