// Decide(snapshot, policy, now) -> Plan: what to change, and why. Pure.
//
// Only pending jobs that the policy classifies are steered, and only through SiteFactor, which adds
// to the multifactor priority and leaves age, fair share and QOS in force. A plan that is applied
// and decided again is empty: values move in steps, so that ageing causes no stream of updates.
#pragma once

#include <string>
#include <vector>

#include "common/cluster/snapshot.h"
#include "scheduler/policy/classify.h"
#include "scheduler/policy/policy.h"

namespace coeval::scheduler {

struct FactorPart {
  std::string name;  // `role`, `deadline`, `ageing`, `quota`
  std::int32_t value = 0;
  std::string why;
};

/// What the policy makes of one classified job.
struct JobView {
  cluster::JobId id;
  Classification classification;
  std::int32_t site_factor = 0;  // What it should be; meaningful while pending.
  std::vector<FactorPart> parts;
  std::string waits_for;  // In plain words; empty unless pending.
};

struct SetSiteFactor {
  cluster::JobId id;
  std::int32_t from = 0, to = 0;
  std::string reason;
};

struct Plan {
  std::vector<SetSiteFactor> actions;  // Largest change first, at most updates_per_cycle_max.
  std::vector<JobView> jobs;           // All classified jobs that are not finished, by id.
  std::uint32_t eval_gpus_used = 0;    // By running evaluation.
};

Plan Decide(const cluster::Snapshot& snapshot, const Policy& policy, TimePoint now);

}  // namespace coeval::scheduler
