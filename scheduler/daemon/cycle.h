// coevald's state and its cycle without the event loop: load, decide, apply, journal.
//
// The daemon splits a cycle over threads: Load and Apply block and run in a pool; Decide and what
// follows run on the event loop, which owns everything here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/slurm/gateway.h"
#include "scheduler/capacity/capacity.h"
#include "scheduler/daemon/journal.h"
#include "scheduler/policy/decide.h"
#include "scheduler/policy/runs.h"

namespace coeval::scheduler {

struct Applied {
  SetSiteFactor action;
  Result<> result;
};

struct Counters {
  std::uint64_t cycles = 0, loads_failed = 0, updates = 0, updates_refused = 0, policy_reloads = 0,
                policy_refused = 0;
};

/// What the last cycle saw and made of it.
struct State {
  cluster::Snapshot snapshot;
  Plan plan;
  Offer offer;
  std::vector<Run> runs;
  std::uint64_t offers = 0;
};

class Cycle {
 public:
  Cycle(Policy policy, std::string policy_file, Journal journal, TimePoint now)
      : policy_(std::move(policy)),
        policy_file_(std::move(policy_file)),
        policy_loaded_at_(now),
        journal_(std::move(journal)) {}

  /// Takes what Load gave and returns what is to be applied. While Slurm is away nothing is: the
  /// last snapshot is too old to act on.
  std::vector<SetSiteFactor> OnLoaded(Result<cluster::Snapshot> loaded, TimePoint now);
  void OnApplied(const std::vector<Applied>& applied, TimePoint now);

  /// Reads the policy file again; a bad one is refused and the running policy stays.
  Result<> ReloadPolicy(TimePoint now);

  /// How long until the next cycle: the policy's interval, longer while Slurm is away.
  Seconds NextIn() const;
  bool SlurmUp() const { return slurm_fault_.empty(); }
  const std::string& SlurmFault() const { return slurm_fault_; }
  /// False until the first snapshot.
  bool HasSnapshot() const { return has_snapshot_; }

  const Policy& CurrentPolicy() const { return policy_; }
  const std::string& PolicyFile() const { return policy_file_; }
  TimePoint PolicyLoadedAt() const { return policy_loaded_at_; }
  const State& Current() const { return state_; }
  const Counters& Counts() const { return counters_; }

 private:
  Policy policy_;
  std::string policy_file_;
  TimePoint policy_loaded_at_;
  Journal journal_;
  State state_;
  Counters counters_;
  std::string slurm_fault_;
  int failures_ = 0;
  bool has_snapshot_ = false, journal_failed_ = false;
};

}  // namespace coeval::scheduler
