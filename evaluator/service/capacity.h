// What coevald's API says, as values: runs to follow and capacity that may be used.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/snapshot.h"

namespace coeval::evaluator {

/// A pretraining run to follow.
struct FollowedRun {
  std::string run, user, state, checkpoints;  // state: `running`, `pending` or `ended`
  std::vector<std::string> suites;
  std::optional<Seconds> deadline;
};

struct Place {
  std::string node, partition, source;  // source: `idle` or `lent`
  std::uint32_t gpus = 0, cpus = 0;
  std::uint64_t mem_mb = 0;
};

/// How many GPUs trials may take in addition to those they have, and where.
struct Capacity {
  std::uint32_t gpus = 0, gpus_used = 0;
  std::vector<Place> places;  // Empty: Slurm chooses.
  bool from_coevald = false;
  std::string reason;
};

Result<std::vector<FollowedRun>> ReadRuns(const std::string& json);
Result<Capacity> ReadCapacity(const std::string& json);

/// Without coevald: the caller's own tagged jobs, as Slurm lists them.
std::vector<FollowedRun> RunsOfJobs(const std::vector<cluster::Job>& jobs, std::uint32_t uid);

}  // namespace coeval::evaluator
