// A policy as values: what coevald is to do, as its YAML says (coeval-policy(5)).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/cluster/tag.h"

namespace coeval::scheduler {

/// Classifies jobs that carry no tag. Every given pattern must match; a rule without any matches
/// all. Patterns are globs: `*`, `?`.
struct MatchRule {
  std::string name, partition, qos, account, user;  // Empty: anything.
  cluster::Role role = cluster::Role::kOther;
  std::string where;  // `policy.yaml:14`, for explanations.
};

struct RolePolicy {
  std::int32_t weight = 0;          // Added to SiteFactor.
  std::optional<Seconds> deadline;  // Wanted feedback delay, where the job names none.
};

struct Policy {
  std::string name = "default";
  Seconds cycle_interval{5};
  std::vector<MatchRule> match;
  std::map<cluster::Role, RolePolicy> roles;

  /// What a job gains as its deadline comes near: nothing before half of it, all at its end.
  std::int32_t urgency_weight = 0;
  /// What a classified job gains for each hour that it waits, at most `ageing_max`: the bound on
  /// how long others can stay ahead of it.
  std::int32_t ageing_per_hour = 0, ageing_max = 0;

  std::optional<std::uint32_t> eval_gpu_quota;  // nullopt: no limit.
  std::int32_t over_quota_weight = 0;  // Added to evaluation beyond the quota; usually negative.

  bool lend_enabled = true;
  std::string lend_partition = "lend";

  Seconds offer_lifetime{30};
  Seconds ended_run_keep{3600};
  std::uint32_t updates_per_cycle_max = 100;
  std::vector<std::string> operators;  // Users who see all and may reload.
};

}  // namespace coeval::scheduler
