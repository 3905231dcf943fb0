// Pretraining runs, each one effort across restarts, as the jobs' tags name them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/cluster/snapshot.h"
#include "common/cluster/tag.h"

namespace coeval::scheduler {

struct RunJob {
  std::string display_id, state;
  cluster::Role role = cluster::Role::kOther;
  std::vector<std::string> nodes;
  std::optional<TimePoint> start_time;
  std::uint32_t restart_cnt = 0;
};

struct Run {
  std::string run, user, account, state;  // state: `running`, `pending` or `ended`
  std::uint32_t uid = 0;
  cluster::Tag tag;          // Of the running training job, else of the newest.
  std::vector<RunJob> jobs;  // Of this run, by id; finished ones while Slurm lists them.
  TimePoint seen;            // When Slurm last listed one of its jobs as not ended.
};

/// The runs that the snapshot's jobs name; those of `before` that Slurm has forgotten stay for
/// `keep` after they ended. By run name, then uid.
std::vector<Run> CollectRuns(const cluster::Snapshot& snapshot, const std::vector<Run>& before,
                             Seconds keep, TimePoint now);

}  // namespace coeval::scheduler
