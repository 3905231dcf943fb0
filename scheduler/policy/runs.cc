#include "scheduler/policy/runs.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "scheduler/policy/classify.h"

namespace coeval::scheduler {
namespace {

using cluster::Job;
using cluster::JobState;
using RunKey = std::pair<std::string, std::uint32_t>;

std::string StateOf(const Job& job) {
  if (job.state == JobState::kPending) return "pending";
  return cluster::IsFinished(job.state) ? "ended" : "running";
}

// A job that runs speaks for its run before one that waits, and that before an ended one.
int Weight(std::string_view state) { return state == "running" ? 2 : state == "pending" ? 1 : 0; }

// Jobs come in the order of their ids: of two alike the newer speaks.
void AddJob(const Job& job, const cluster::Tag& tag, TimePoint now, Run* run) {
  const std::string state = StateOf(job);
  if (state != "ended") run->seen = now;
  if (run->jobs.empty() || Weight(state) >= Weight(run->state)) {
    run->state = state;
    run->tag = tag;
    run->account = job.account;
  }
  run->jobs.push_back({cluster::DisplayId(job), std::string(cluster::JobStateName(job.state)),
                       *tag.role, job.nodes, job.start_time, job.restart_cnt});
}

}  // namespace

std::vector<Run> CollectRuns(const cluster::Snapshot& snapshot, const std::vector<Run>& before,
                             Seconds keep, TimePoint now) {
  std::map<RunKey, Run> runs;
  std::map<RunKey, TimePoint> last_seen;
  for (const Run& old : before) last_seen[{old.run, old.uid}] = old.seen;
  for (const Job& job : snapshot.jobs) {
    const auto tag = cluster::ParseTag(job.admin_comment);
    if (!tag || !*tag || (*tag)->run.empty() || !(*tag)->role || !IsTraining(*(*tag)->role))
      continue;
    const RunKey key{(*tag)->run, job.uid};
    Run& run = runs[key];
    run.run = (*tag)->run;
    run.user = job.user;
    run.uid = job.uid;
    if (run.jobs.empty()) {
      const auto seen = last_seen.find(key);
      run.seen = seen != last_seen.end() ? seen->second : job.end_time.value_or(now);
    }
    AddJob(job, **tag, now, &run);
  }
  for (const Run& old : before) {
    if (runs.contains({old.run, old.uid})) continue;
    Run ended = old;
    ended.state = "ended";
    for (RunJob& job : ended.jobs) {
      if (job.state == "RUNNING" || job.state == "PENDING") job.state = "UNKNOWN";
    }
    runs.emplace(RunKey{old.run, old.uid}, std::move(ended));
  }
  std::vector<Run> list;
  for (auto& [key, run] : runs) {
    if (run.state != "ended" || now - run.seen <= keep) list.push_back(std::move(run));
  }
  return list;
}

}  // namespace coeval::scheduler
