#include "evaluator/service/gather.h"

namespace coeval::evaluator {
namespace {

constexpr Milliseconds kCoevaldTime{3000};

}  // namespace

Gatherer::Gatherer(const EvaluatorConfig& config, slurm::Gateway& gateway, const Clock& clock,
                   std::uint32_t uid)
    : config_(config),
      gateway_(gateway),
      clock_(clock),
      uid_(uid),
      coevald_({config.coevald, config.munge_socket, kCoevaldTime}) {}

Gathered Gatherer::Gather(const GatherRequest& request) {
  Gathered gathered;
  gathered.time = clock_.Now();
  auto jobs = gateway_.LoadJobs();
  if (jobs) {
    gathered.jobs = std::move(*jobs);
  } else {
    gathered.slurm_fault = jobs.error().message;
  }
  AskCoevald(&gathered);
  ScanRuns(&gathered);
  ScanCampaigns(request, &gathered);
  for (const std::string& path : request.outstanding_paths) {
    std::error_code error;
    const bool there = std::filesystem::exists(path, error);
    if (!there && !error) gathered.gone_paths.insert(path);
  }
  return gathered;
}

void Gatherer::AskCoevald(Gathered* gathered) {
  const auto ask = [&]() -> Result<> {
    const auto runs_text = coevald_.CallForBody("GET", "/v1/runs");
    if (!runs_text) return Fail(runs_text.error());
    auto runs = ReadRuns(*runs_text);
    if (!runs) return Fail(runs.error());
    const auto capacity_text = coevald_.CallForBody("GET", "/v1/capacity");
    if (!capacity_text) return Fail(capacity_text.error());
    auto capacity = ReadCapacity(*capacity_text);
    if (!capacity) return Fail(capacity.error());
    gathered->runs = std::move(*runs);
    gathered->capacity = std::move(*capacity);
    return {};
  };
  if (auto asked = ask(); !asked) {
    gathered->coevald_fault = asked.error().message;
    if (gathered->jobs) gathered->runs = RunsOfJobs(*gathered->jobs, uid_);
    if (!gathered->jobs) gathered->runs = last_runs_;
    gathered->capacity.gpus = config_.fallback_gpus;
    gathered->capacity.reason = "coevald is away; fallback_gpus applies";
  }
  if (!config_.follow_runs) gathered->runs.clear();
  last_runs_ = gathered->runs;
}

SeenCheckpoint Gatherer::See(FoundCheckpoint found) {
  SeenCheckpoint seen;
  if (found.complete) {
    Known& known = fingerprints_[found.path.string()];
    const bool same =
        known.changed == found.changed && known.size == found.size && !known.fingerprint.empty();
    if (!same) {
      const auto fingerprint = Fingerprint(found.path);
      known = Known{found.changed, found.size, fingerprint.value_or("")};
      if (!fingerprint) {
        found.complete = false;
        found.waiting_for = fingerprint.error().message;
      }
    }
    seen.fingerprint = known.fingerprint;
  }
  seen.found = std::move(found);
  return seen;
}

void Gatherer::ScanRuns(Gathered* gathered) {
  for (const FollowedRun& run : gathered->runs) {
    if (run.checkpoints.empty()) continue;
    auto& list = gathered->run_checkpoints[run.run];
    for (FoundCheckpoint& found : ScanRun(run.checkpoints)) list.push_back(See(std::move(found)));
  }
}

void Gatherer::ScanCampaigns(const GatherRequest& request, Gathered* gathered) {
  for (const std::string& path : request.campaign_paths) {
    auto found = InspectCheckpoint(path);
    if (found) {
      gathered->campaign_checkpoints[path] = See(std::move(*found));
    } else {
      gathered->campaign_faults[path] = found.error().message;
    }
  }
}

}  // namespace coeval::evaluator
