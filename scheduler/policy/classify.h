// Which workload type a job is. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/cluster/snapshot.h"
#include "scheduler/policy/policy.h"

namespace coeval::scheduler {

struct Classification {
  cluster::Role role = cluster::Role::kOther;
  std::string by;    // `tag`, or `rule at policy.yaml:14`.
  cluster::Tag tag;  // Empty fields when the job has none.
};

/// By its tag, else by the first rule that matches; nullopt for a foreign job, which is never
/// touched.
std::optional<Classification> Classify(const cluster::Job& job, const Policy& policy);

/// Evaluation in the wide sense: what must not take anything from training.
bool IsEvaluation(cluster::Role role);
/// Training whose wait must be bounded and whose nodes may lend.
bool IsTraining(cluster::Role role);

}  // namespace coeval::scheduler
