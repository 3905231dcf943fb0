#include "scheduler/daemon/cycle.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "scheduler/config/policy_file.h"

namespace coeval::scheduler {
namespace {

constexpr Seconds kLongestBackOff{60};

}  // namespace

std::vector<SetSiteFactor> Cycle::OnLoaded(Result<cluster::Snapshot> loaded, TimePoint now) {
  ++counters_.cycles;
  if (!loaded) {
    ++counters_.loads_failed;
    ++failures_;
    if (slurm_fault_.empty())
      log::Warn("slurmctld is away; nothing is steered meanwhile",
                {{"error", loaded.error().message}});
    slurm_fault_ = loaded.error().message;
    return {};
  }
  if (!slurm_fault_.empty())
    log::Info("slurmctld is back", {{"failed_cycles", std::to_string(failures_)}});
  slurm_fault_.clear();
  failures_ = 0;
  has_snapshot_ = true;
  state_.snapshot = std::move(*loaded);
  state_.plan = Decide(state_.snapshot, policy_, now);
  state_.offer = FindCapacity(state_.snapshot, policy_, state_.plan, now);
  state_.runs = CollectRuns(state_.snapshot, state_.runs, policy_.ended_run_keep, now);
  ++state_.offers;
  return state_.plan.actions;
}

void Cycle::OnApplied(const std::vector<Applied>& applied, TimePoint now) {
  nlohmann::ordered_json actions = nlohmann::ordered_json::array();
  for (const Applied& one : applied) {
    ++(one.result ? counters_.updates : counters_.updates_refused);
    // A refusal is normal (the job started or ended meanwhile); the next cycle plans anew.
    log::Debug("site factor", {{"job_id", std::to_string(one.action.id.value)},
                               {"to", std::to_string(one.action.to)},
                               {"slurm", one.result ? "ok" : one.result.error().message}});
    actions.push_back({{"job_id", one.action.id.value},
                       {"site_factor", {one.action.from, one.action.to}},
                       {"reason", one.action.reason},
                       {"slurm", one.result ? "ok" : one.result.error().message}});
  }
  if (applied.empty()) return;
  const nlohmann::ordered_json line = {{"time", ToEpochSeconds(now)},
                                       {"policy", policy_.name},
                                       {"jobs", state_.snapshot.jobs.size()},
                                       {"nodes", state_.snapshot.nodes.size()},
                                       {"actions", actions}};
  const auto written =
      journal_.Append(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (!written && !journal_failed_)
    log::Warn("journal not written", {{"error", written.error().message}});
  journal_failed_ = !written;
}

Result<> Cycle::ReloadPolicy(TimePoint now) {
  auto policy = LoadPolicy(policy_file_);
  if (!policy) {
    ++counters_.policy_refused;
    log::Error("policy refused; the running one stays",
               {{"error", policy.error().message}, {"running", policy_.name}});
    return Fail(policy.error());
  }
  ++counters_.policy_reloads;
  policy_ = std::move(*policy);
  policy_loaded_at_ = now;
  log::Info("policy loaded", {{"policy", policy_.name}, {"file", policy_file_}});
  return {};
}

Seconds Cycle::NextIn() const {
  if (failures_ == 0) return policy_.cycle_interval;
  const auto doubled = policy_.cycle_interval * (1 << std::min(failures_, 6));
  return std::min<Seconds>(doubled, std::max(kLongestBackOff, policy_.cycle_interval));
}

}  // namespace coeval::scheduler
