#include "scheduler/policy/decide.h"

#include <algorithm>
#include <cstdlib>

namespace coeval::scheduler {
namespace {

using cluster::Job;
using cluster::JobState;

// SiteFactor moves in steps of this size where it grows with time.
constexpr std::int32_t kStep = 10;

std::int32_t Stepped(double value) { return static_cast<std::int32_t>(value / kStep) * kStep; }

std::string Plural(std::uint32_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void AddPart(JobView* view, std::string name, std::int32_t value, std::string why) {
  if (value == 0) return;
  view->site_factor += value;
  view->parts.push_back({std::move(name), value, std::move(why)});
}

void AddRole(const Policy& policy, JobView* view) {
  const auto role = policy.roles.find(view->classification.role);
  if (role == policy.roles.end()) return;
  AddPart(view, "role", role->second.weight,
          "weight of role " + std::string(cluster::RoleName(view->classification.role)) +
              " in policy " + policy.name);
}

void AddDeadline(const Policy& policy, const Job& job, TimePoint now, JobView* view) {
  const auto role = policy.roles.find(view->classification.role);
  auto deadline = view->classification.tag.deadline;
  if (!deadline && role != policy.roles.end()) deadline = role->second.deadline;
  if (!deadline || !job.submit_time || deadline->count() <= 0) return;
  const double waited = std::chrono::duration<double>(now - *job.submit_time).count();
  const double used = std::clamp(waited / static_cast<double>(deadline->count()), 0.0, 1.0);
  const std::int32_t urgency = Stepped(policy.urgency_weight * std::max(0.0, 2 * used - 1));
  AddPart(view, "deadline", urgency,
          std::to_string(static_cast<int>(used * 100)) + "% of its deadline of " +
              FormatSlurmDuration(*deadline) + " is gone");
}

void AddAgeing(const Policy& policy, const Job& job, TimePoint now, JobView* view) {
  if (policy.ageing_per_hour == 0 || !job.eligible_time || *job.eligible_time > now) return;
  const double hours = std::chrono::duration<double>(now - *job.eligible_time).count() / 3600;
  // Bounded before it becomes a whole number, which it might not fit.
  const double most = policy.ageing_max;
  const std::int32_t gained = Stepped(std::min(hours * policy.ageing_per_hour, most));
  AddPart(
      view, "ageing", gained,
      "it has been eligible for " +
          FormatShortDuration(std::chrono::duration_cast<Milliseconds>(now - *job.eligible_time)));
}

// Slurm's reason in words a user need not look up.
std::string InWords(const Job& job) {
  const std::string& reason = job.state_reason;
  if (job.priority == 0) return "it is held (" + reason + "); release it with scontrol release";
  if (reason == "Resources") return "resources: it is next in line and its nodes are busy";
  if (reason == "Priority") return "jobs of higher priority in its partition";
  if (reason == "Dependency") return "another job, as its --dependency says: " + job.dependency;
  if (reason == "DependencyNeverSatisfied")
    return "a dependency that can never be satisfied; cancel it";
  if (reason == "BeginTime") return "its begin time (Slurm also sets one when it requeues a job)";
  if (reason == "Reservation") return "its reservation " + job.reservation;
  if (reason.find("QOS") == 0) return "a limit of its QOS " + job.qos + " (" + reason + ")";
  if (reason.find("Assoc") == 0) return "a limit of account " + job.account + " (" + reason + ")";
  if (reason == "None" || reason.empty()) return "the next scheduling pass of slurmctld";
  return "Slurm's reason " + reason;
}

struct Classified {
  const Job* job;
  JobView view;
};

std::vector<Classified> ClassifyAll(const cluster::Snapshot& snapshot, const Policy& policy) {
  std::vector<Classified> all;
  for (const Job& job : snapshot.jobs) {
    if (cluster::IsFinished(job.state)) continue;
    auto classification = Classify(job, policy);
    if (!classification) continue;
    JobView view;
    view.id = job.id;
    view.classification = std::move(*classification);
    all.push_back({&job, std::move(view)});
  }
  return all;
}

std::uint32_t RunningEvalGpus(const std::vector<Classified>& all) {
  std::uint32_t used = 0;
  for (const Classified& one : all) {
    const bool runs =
        one.job->state == JobState::kRunning || one.job->state == JobState::kSuspended;
    if (runs && IsEvaluation(one.view.classification.role)) used += one.job->gpus;
  }
  return used;
}

// Pending evaluation in the order of submission takes what the quota leaves; the rest is demoted.
void ApplyQuota(const Policy& policy, std::uint32_t used, std::vector<Classified>* all) {
  if (!policy.eval_gpu_quota) return;
  const std::uint32_t quota = *policy.eval_gpu_quota;
  std::uint32_t taken = used;
  for (Classified& one : *all) {  // By id, which is the order of submission.
    const bool counts = one.job->state == JobState::kPending && one.job->gpus > 0 &&
                        IsEvaluation(one.view.classification.role);
    if (!counts) continue;
    if (taken + one.job->gpus <= quota) {
      taken += one.job->gpus;
      continue;
    }
    AddPart(&one.view, "quota", policy.over_quota_weight,
            "evaluation has " + Plural(used, "GPU") + " of its quota of " + std::to_string(quota) +
                " and earlier jobs wait for the rest");
    one.view.waits_for = "the evaluation quota of " + Plural(quota, "GPU") + "; then ";
  }
}

}  // namespace

Plan Decide(const cluster::Snapshot& snapshot, const Policy& policy, TimePoint now) {
  std::vector<Classified> all = ClassifyAll(snapshot, policy);
  Plan plan;
  plan.eval_gpus_used = RunningEvalGpus(all);
  for (Classified& one : all) {
    AddRole(policy, &one.view);
    AddDeadline(policy, *one.job, now, &one.view);
    AddAgeing(policy, *one.job, now, &one.view);
  }
  ApplyQuota(policy, plan.eval_gpus_used, &all);
  for (Classified& one : all) {
    if (one.job->state == JobState::kPending) {
      one.view.waits_for += InWords(*one.job);
      if (one.view.site_factor != one.job->site_factor) {
        SetSiteFactor action{one.job->id, one.job->site_factor, one.view.site_factor, ""};
        for (const FactorPart& part : one.view.parts)
          action.reason += (action.reason.empty() ? "" : "; ") + part.why;
        plan.actions.push_back(std::move(action));
      }
    }
    plan.jobs.push_back(std::move(one.view));
  }
  std::stable_sort(
      plan.actions.begin(), plan.actions.end(), [](const SetSiteFactor& a, const SetSiteFactor& b) {
        return std::abs(std::int64_t{a.to} - a.from) > std::abs(std::int64_t{b.to} - b.from);
      });
  if (plan.actions.size() > policy.updates_per_cycle_max)
    plan.actions.resize(policy.updates_per_cycle_max);
  return plan;
}

}  // namespace coeval::scheduler
