// The blocking half of a cycle: what the world looks like now.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/http/client.h"
#include "common/slurm/gateway.h"
#include "evaluator/checkpoint/scan.h"
#include "evaluator/service/capacity.h"
#include "evaluator/service/config.h"

namespace coeval::evaluator {

/// What to look at, said by the event loop.
struct GatherRequest {
  std::vector<std::string> campaign_paths;     // Checkpoints that people submitted.
  std::vector<std::string> outstanding_paths;  // Checkpoints with work left: do they still exist?
};

struct SeenCheckpoint {
  FoundCheckpoint found;
  std::string fingerprint;  // Empty while it is not complete.
};

struct Gathered {
  TimePoint time;  // Before anything was asked.
  std::vector<FollowedRun> runs;
  std::map<std::string, std::vector<SeenCheckpoint>> run_checkpoints;  // By run.
  std::map<std::string, SeenCheckpoint> campaign_checkpoints;          // By path.
  std::map<std::string, std::string> campaign_faults;                  // By path: why it cannot be.
  std::set<std::string> gone_paths;                                    // Of the outstanding ones.
  Capacity capacity;
  std::optional<std::vector<cluster::Job>> jobs;  // nullopt: slurmctld is away.
  std::string coevald_fault, slurm_fault;         // Empty: fine.
};

/// Keeps what it has fingerprinted. One thread at a time, off the event loop.
class Gatherer {
 public:
  Gatherer(const EvaluatorConfig& config, slurm::Gateway& gateway, const Clock& clock,
           std::uint32_t uid);
  Gathered Gather(const GatherRequest& request);

 private:
  SeenCheckpoint See(FoundCheckpoint found);
  void AskCoevald(Gathered* gathered);
  void ScanRuns(Gathered* gathered);
  void ScanCampaigns(const GatherRequest& request, Gathered* gathered);

  const EvaluatorConfig& config_;
  slurm::Gateway& gateway_;
  const Clock& clock_;
  std::uint32_t uid_;
  http::Client coevald_;
  std::vector<FollowedRun> last_runs_;  // While coevald and Slurm are both away.
  struct Known {
    TimePoint changed;
    Bytes size;
    std::string fingerprint;
  };
  std::map<std::string, Known> fingerprints_;  // By path.
};

}  // namespace coeval::evaluator
