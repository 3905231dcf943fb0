#include "evaluator/service/reconcile.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "common/base/log.h"
#include "evaluator/jobs/job_script.h"
#include "evaluator/planner/planner.h"
#include "evaluator/service/evaluation_spec.h"

namespace coeval::evaluator {
namespace {

using cluster::Job;
using cluster::JobState;

// How long after its entry a job that Slurm does not list may still appear: longer than a
// submission can take (a killed evaluator's sbatch may still be under way).
constexpr Seconds kSubmissionTime{90};
constexpr Seconds kSubmitBackOff{15};

// Reasons for which a job will never start (field case G38).
bool CanNeverStart(const Job& job) {
  for (const char* reason :
       {"DependencyNeverSatisfied", "BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit",
        "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed"}) {
    if (job.state_reason == reason) return true;
  }
  return false;
}

const Job* FindByKey(const std::vector<Job>& jobs, const JobRow& row) {
  // The newest attempt speaks: an id is never used again, so the last match is it (field case E20).
  const Job* found = nullptr;
  for (const Job& job : jobs) {
    if (slurm::KeyOf(job) == row.key) found = &job;
  }
  return found;
}

std::string OutcomeOf(const Job& job) {
  std::string outcome(cluster::JobStateName(job.state));
  if (job.exit_code != 0) outcome += " exit " + std::to_string(WEXITSTATUS(job.exit_code));
  return outcome;
}

std::string PlaceKey(const std::string& node, const std::string& fingerprint) {
  return node + " " + fingerprint;
}

}  // namespace

Reconciler::Reconciler(const EvaluatorConfig& config, Ledger& ledger, SuiteFolder& suites,
                       std::string address_file, std::string worker, Environment environment)
    : config_(config),
      ledger_(ledger),
      suites_(suites),
      address_file_(std::move(address_file)),
      worker_(std::move(worker)),
      environment_(std::move(environment)) {}

Result<GatherRequest> Reconciler::Request() {
  GatherRequest request;
  const auto campaigns = ledger_.Campaigns();
  if (!campaigns) return Fail(campaigns.error());
  for (const CampaignRow& campaign : *campaigns) {
    if (campaign.cancelled) continue;
    const std::string owner = "campaign:" + std::to_string(campaign.id);
    for (const std::string& path : campaign.paths) {
      // What is entered needs no more looking at.
      if (!entered_.contains(owner + "\n" + path)) request.campaign_paths.push_back(path);
    }
  }
  for (const std::string& fingerprint : needed_) {
    const auto row = ledger_.FindCheckpoint(fingerprint);
    if (!row) return Fail(row.error());
    if (*row) request.outstanding_paths.push_back((*row)->path);
  }
  return request;
}

Result<std::vector<Action>> Reconciler::Reconcile(Gathered gathered, TimePoint now) {
  picture_.held.clear();
  if (auto done = ledger_.ExpireLeases(config_.retries, now); !done) return Fail(done.error());
  if (auto done = FollowJobs(gathered, now); !done) return Fail(done.error());
  if (auto done = EnterWork(gathered, now); !done) return Fail(done.error());
  picture_.gathered = std::move(gathered);
  picture_.fresh = true;

  std::vector<Action> actions;
  auto jobs = ledger_.Jobs(false);
  if (!jobs) return Fail(jobs.error());
  jobs_ = std::move(*jobs);
  if (auto done = PlanCancels(now, &actions); !done) return Fail(done.error());
  // Without Slurm nothing can be submitted, and what it last said may be wrong.
  if (!picture_.gathered.jobs) return actions;
  if (auto done = PlanTrials(now, &actions); !done) return Fail(done.error());
  if (auto done = PlanMetrics(now, &actions); !done) return Fail(done.error());
  return actions;
}

// --- jobs ---

Result<> Reconciler::FollowJobs(const Gathered& gathered, TimePoint now) {
  if (!gathered.jobs) return {};
  const auto rows = ledger_.Jobs(false);
  if (!rows) return Fail(rows.error());
  for (const JobRow& row : *rows) {
    if (auto done = FollowJob(row, gathered, now); !done) return done;
  }
  return {};
}

Result<> Reconciler::FollowJob(const JobRow& row, const Gathered& gathered, TimePoint now) {
  const Job* job = FindByKey(*gathered.jobs, row);
  if (job == nullptr) {
    const auto submitted = submitted_at_.find(row.key);
    const bool list_is_older =
        submitted != submitted_at_.end() && submitted->second >= gathered.time;
    if (list_is_older) return {};
    if (row.state == "intent") {
      return now - row.created_at > kSubmissionTime ? ledger_.ForgetJob(row.key) : Result<>{};
    }
    if (auto released = ledger_.ReleaseJob(row.job_id, config_.retries, now); !released)
      return Fail(released.error());
    return ledger_.SetJobEnded(row.key, "no longer known to Slurm", now);
  }
  if (row.state == "intent") {
    if (auto done = ledger_.SetJobSubmitted(row.key, std::to_string(job->id.value)); !done)
      return done;
  }
  if (job->start_time && !row.start_at && !job->nodes.empty()) {
    if (auto done = ledger_.SetJobStarted(row.key, job->nodes.front(), *job->start_time); !done)
      return done;
  }
  if (!cluster::IsFinished(job->state)) return {};
  log::Info("job ended", {{"job_id", std::to_string(job->id.value)},
                          {"kind", std::string(JobKindName(row.kind))},
                          {"outcome", OutcomeOf(*job)}});
  auto released = ledger_.ReleaseJob(std::to_string(job->id.value), config_.retries, now);
  if (!released) return Fail(released.error());
  if (row.kind == JobKind::kPrecursor) staging_.erase(PlaceKey(row.node, row.fingerprint));
  submitted_at_.erase(row.key);
  return ledger_.SetJobEnded(row.key, OutcomeOf(*job), job->end_time.value_or(now));
}

// --- work ---

Result<int> Reconciler::EnterCheckpoint(const std::string& owner,
                                        const std::vector<std::string>& suites,
                                        const std::string& run, const SeenCheckpoint& seen,
                                        bool retry_failed, TimePoint earliest, TimePoint now) {
  int fresh = 0;
  for (const std::string& name : suites) {
    const Suite* suite = suites_.Find(name);
    if (suite == nullptr) {
      picture_.held.push_back({1, suites_.Unknown(name).message + ", wanted by " + owner});
      continue;
    }
    const std::string mark = owner + "\n" + seen.fingerprint + "\n" + name + "\n" +
                             std::to_string(std::hash<std::string>{}(SuiteStamp(*suite)));
    if (entered_.contains(mark)) continue;
    CheckpointRow row;
    row.fingerprint = seen.fingerprint;
    row.path = seen.found.path.string();
    row.step = seen.found.step;
    row.layout = seen.found.layout;
    row.size = seen.found.size;
    row.complete_at = std::min(std::max(seen.found.changed, earliest), now);
    if (auto done = ledger_.EnterCheckpoint(row, now); !done) return Fail(done.error());
    const std::uint32_t gpus = std::max(suite->inference.gpus, 1u);
    const std::uint32_t slots =
        std::min(config_.trials_max, std::max(picture_.gathered.capacity.gpus / gpus, 1u));
    const auto learned = [&](const std::string& dataset, const std::string& settings,
                             WorkStage stage) {
      auto cost = ledger_.LearnedCost(dataset, settings, stage);
      return cost ? *cost : std::nullopt;
    };
    const auto added = ledger_.EnsureEvaluations(
        owner, seen.fingerprint, name, PlanSuite(*suite, run, slots, config_.load_s, learned),
        retry_failed, now);
    if (!added) return Fail(added.error());
    if (*added > 0) {
      log::Info("work entered", {{"owner", owner},
                                 {"checkpoint", row.path},
                                 {"suite", name},
                                 {"evaluations", std::to_string(*added)}});
    }
    fresh += *added;
    entered_.insert(mark);
  }
  return fresh;
}

Result<int> Reconciler::EnterCampaign(const CampaignRow& campaign, const SeenCheckpoint& seen,
                                      bool retry_failed, TimePoint now) {
  const std::string owner = "campaign:" + std::to_string(campaign.id);
  auto fresh = EnterCheckpoint(owner, campaign.suites, campaign.name, seen, retry_failed,
                               campaign.created_at, now);
  if (fresh) entered_.insert(owner + "\n" + seen.found.path.string());
  return fresh;
}

Result<> Reconciler::EnterWork(const Gathered& gathered, TimePoint now) {
  for (const FollowedRun& run : gathered.runs) {
    const auto cancelled = ledger_.IsRunCancelled(run.run);
    if (!cancelled) return Fail(cancelled.error());
    const auto seen = gathered.run_checkpoints.find(run.run);
    if (*cancelled || seen == gathered.run_checkpoints.end()) continue;
    for (const SeenCheckpoint& checkpoint : seen->second) {
      if (!checkpoint.found.complete) continue;
      auto entered = EnterCheckpoint("run:" + run.run, run.suites, run.run, checkpoint, false,
                                     TimePoint{}, now);
      if (!entered) return Fail(entered.error());
    }
  }
  const auto campaigns = ledger_.Campaigns();
  if (!campaigns) return Fail(campaigns.error());
  for (const CampaignRow& campaign : *campaigns) {
    if (campaign.cancelled) continue;
    for (const std::string& path : campaign.paths) {
      const auto seen = gathered.campaign_checkpoints.find(path);
      if (seen == gathered.campaign_checkpoints.end() || !seen->second.found.complete) continue;
      if (auto entered = EnterCampaign(campaign, seen->second, false, now); !entered)
        return Fail(entered.error());
    }
  }
  for (const std::string& path : gathered.gone_paths) {
    const auto row = ledger_.FindCheckpointByPath(path);
    if (!row) return Fail(row.error());
    if (!*row || gathered.time < (*row)->complete_at) continue;
    const auto failed = ledger_.FailCheckpoint(
        (*row)->fingerprint, "the checkpoint " + path + " was deleted before it was evaluated");
    if (!failed) return Fail(failed.error());
    if (*failed > 0)
      log::Warn("checkpoint vanished", {{"path", path}, {"work_items", std::to_string(*failed)}});
  }
  return {};
}

// --- submissions ---

slurm::BatchJob Reconciler::NewJob(JobKind kind, const JobDirectives& directives) const {
  slurm::BatchJob job;
  job.partition = directives.partition;
  job.qos = directives.qos;
  job.account = directives.account;
  job.reservation = directives.reservation;
  job.time_limit = directives.time_limit;
  job.extra_args = directives.extra_args;
  job.environment = environment_;
  job.working_directory = config_.work_dir.string();
  job.output_path =
      (config_.work_dir / "logs" / (std::string(JobKindName(kind)) + "-%j.log")).string();
  job.signal_before_end = Seconds{60};
  job.use_llm_options = config_.llm_options;
  job.tag.role = kind == JobKind::kTrial    ? cluster::Role::kEval
                 : kind == JobKind::kMetric ? cluster::Role::kMetric
                                            : cluster::Role::kPrecursor;
  return job;
}

std::vector<std::string> Reconciler::WorkerArguments(const std::string& stage) const {
  std::vector<std::string> arguments = {"--stage", stage, "--evaluator-file", address_file_};
  if (!config_.munge_socket.empty()) {
    arguments.insert(arguments.end(), {"--munge-socket", config_.munge_socket});
  }
  if (config_.staging && stage != "metric") {
    arguments.insert(arguments.end(), {"--staging-root", config_.staging_root.string()});
  }
  return arguments;
}

std::string Reconciler::WhyNoJob(const std::string& kind) const {
  if (jobs_.size() < config_.jobs_max) return "";
  return kind + " wait: job limit " + std::to_string(config_.jobs_max) + ", " +
         std::to_string(jobs_.size()) + " used (caps.jobs_max)";
}

Result<> Reconciler::AddSubmission(JobKind kind, const std::string& fingerprint, const Place& place,
                                   slurm::BatchJob job, TimePoint now,
                                   std::vector<Action>* actions) {
  JobRow row;
  // Unique across restarts: the time in milliseconds and this process.
  row.key = std::string(JobKindName(kind)) + "-" + std::to_string(now.time_since_epoch().count()) +
            "-" + std::to_string(::getpid()) + "-" + std::to_string(actions->size());
  row.kind = kind;
  row.fingerprint = fingerprint;
  row.node = place.node;
  row.gpus = job.gpus;
  row.state = "intent";
  row.created_at = now;
  if (auto inserted = ledger_.InsertJob(row); !inserted) return inserted;
  job.key = row.key;
  jobs_.push_back(row);
  submitted_at_[row.key] = now;
  Action action;
  action.kind = Action::Kind::kSubmit;
  action.key = row.key;
  action.job = std::move(job);
  actions->push_back(std::move(action));
  return {};
}

bool Reconciler::IsStaged(const std::string& node, const std::string& fingerprint) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const JobRow& job) {
    return job.kind == JobKind::kPrecursor && job.node == node && job.fingerprint == fingerprint;
  });
}

Result<> Reconciler::AddPrecursor(const CheckpointRow& checkpoint, const Place& place,
                                  TimePoint now, std::vector<Action>* actions) {
  const bool wanted = config_.staging && !place.node.empty() &&
                      !IsStaged(place.node, checkpoint.fingerprint) &&
                      !failed_staging_.contains(PlaceKey(place.node, checkpoint.fingerprint));
  if (!wanted || !WhyNoJob("precursors").empty()) return {};
  slurm::BatchJob job = NewJob(JobKind::kPrecursor, config_.precursor);
  job.name = "coeval-precursor";
  job.req_nodes = {place.node};
  if (job.partition.empty()) job.partition = place.partition;
  // The copy's own memory is this job's: tmpfs pages are charged to who wrote them.
  job.mem_mb = ToMebibytes(checkpoint.size) + ToMebibytes(config_.staging_mem_extra);
  job.tag.checkpoint = checkpoint.path;
  JobScriptSpec script{worker_, WorkerArguments("precursor"), {}};
  script.arguments.insert(script.arguments.end(),
                          {"--checkpoint", checkpoint.path, "--fingerprint", checkpoint.fingerprint,
                           "--reserve-mb", std::to_string(ToMebibytes(config_.staging_reserve))});
  job.script = JobScript(script);
  return AddSubmission(JobKind::kPrecursor, checkpoint.fingerprint, place, std::move(job), now,
                       actions);
}

// What may still be given out in this cycle.
Reconciler::Room Reconciler::CurrentRoom() const {
  const Capacity& capacity = picture_.gathered.capacity;
  Room room;
  std::uint32_t waiting_gpus = 0;
  for (const JobRow& job : jobs_) {
    if (job.kind != JobKind::kTrial) continue;
    ++room.trials;
    // coevald's offer counts running trials already, but not those that wait for their start.
    if (!job.start_at || !capacity.from_coevald) waiting_gpus += job.gpus;
  }
  room.gpus = capacity.gpus - std::min(waiting_gpus, capacity.gpus);
  room.places = capacity.places;
  std::erase_if(room.places, [](const Place& place) { return place.gpus == 0; });
  return room;
}

// Why no further trial may be submitted now; empty when one may.
std::string Reconciler::WhyNoTrial(const Outstanding& work, const Room& room, TimePoint now) const {
  if (now < no_submissions_before_) return submit_fault_;
  if (room.gpus < std::max(work.gpus, 1u)) {
    return "no GPUs for evaluation now: " + picture_.gathered.capacity.reason;
  }
  if (room.trials >= config_.trials_max) {
    return "trial limit " + std::to_string(config_.trials_max) + ", " +
           std::to_string(room.trials) + " used (caps.trials_max)";
  }
  return WhyNoJob("trials");
}

// A place for a trial: a node that has the copy already, else the first with room, else nullopt.
// Without coevald Slurm chooses, and the place is nameless.
std::optional<Place> Reconciler::TakePlace(const Outstanding& work, Room* room) const {
  const std::uint32_t gpus = std::max(work.gpus, 1u);
  if (!picture_.gathered.capacity.from_coevald) return Place{};
  const auto fits = [&](const Place& p) { return p.gpus >= gpus && p.cpus >= work.cpus; };
  auto& places = room->places;
  auto at = std::find_if(places.begin(), places.end(), [&](const Place& p) {
    return fits(p) && IsStaged(p.node, work.fingerprint);
  });
  if (at == places.end()) at = std::find_if(places.begin(), places.end(), fits);
  if (at == places.end()) return std::nullopt;
  at->gpus -= gpus;
  at->cpus -= work.cpus;
  return *at;
}

Result<> Reconciler::AddTrial(const Outstanding& work, const CheckpointRow& checkpoint,
                              const Place& place, TimePoint now, std::vector<Action>* actions) {
  if (auto done = AddPrecursor(checkpoint, place, now, actions); !done) return done;
  slurm::BatchJob job = NewJob(JobKind::kTrial, config_.trial);
  job.name = "coeval-trial";
  job.gpus = work.gpus;
  job.cpus_per_task = work.cpus;
  job.mem_mb = work.mem_mb;
  if (!place.node.empty()) job.req_nodes = {place.node};
  if (job.partition.empty()) job.partition = place.partition;
  job.tag.checkpoint = checkpoint.path;
  JobScriptSpec script{worker_, WorkerArguments("inference"), {}};
  script.arguments.insert(script.arguments.end(), {"--fingerprint", work.fingerprint});
  script.environment = {
      {"HF_HUB_OFFLINE", "1"}, {"HF_DATASETS_OFFLINE", "1"}, {"TRANSFORMERS_OFFLINE", "1"}};
  job.script = JobScript(script);
  return AddSubmission(JobKind::kTrial, work.fingerprint, place, std::move(job), now, actions);
}

Result<> Reconciler::PlanTrials(TimePoint now, std::vector<Action>* actions) {
  const auto outstanding = ledger_.OutstandingInference(now);
  if (!outstanding) return Fail(outstanding.error());
  NoteNeeded(*outstanding);
  Room room = CurrentRoom();
  for (const Outstanding& work : *outstanding) {
    const auto active = static_cast<std::uint32_t>(
        std::count_if(jobs_.begin(), jobs_.end(), [&](const JobRow& job) {
          return job.kind == JobKind::kTrial && job.fingerprint == work.fingerprint;
        }));
    const auto wanted = FurtherTrials({work.pending, work.pending_s, active, config_.load_s});
    if (wanted == 0) continue;
    const auto checkpoint = ledger_.FindCheckpoint(work.fingerprint);
    if (!checkpoint) return Fail(checkpoint.error());
    for (std::uint32_t i = 0; i < wanted; ++i) {
      std::string why = WhyNoTrial(work, room, now);
      const auto place = why.empty() ? TakePlace(work, &room) : std::nullopt;
      if (why.empty() && !place) {
        why = "no node offers " + std::to_string(std::max(work.gpus, 1u)) + " GPUs and " +
              std::to_string(work.cpus) + " CPUs together";
      }
      if (!why.empty()) {
        picture_.held.push_back({work.pending, std::move(why)});
        break;
      }
      if (auto done = AddTrial(work, **checkpoint, *place, now, actions); !done) return done;
      room.gpus -= std::max(work.gpus, 1u);
      ++room.trials;
    }
  }
  return {};
}

// Which checkpoints' copies are of use.
void Reconciler::NoteNeeded(const std::vector<Outstanding>& outstanding) {
  needed_.clear();
  for (const Outstanding& work : outstanding) needed_.insert(work.fingerprint);
  // A failed copy is tried again for the next checkpoint, not for this one.
  std::erase_if(failed_staging_, [&](const auto& failed) {
    return !needed_.contains(failed.first.substr(failed.first.find(' ') + 1));
  });
}

Result<> Reconciler::PlanMetrics(TimePoint now, std::vector<Action>* actions) {
  const auto demand = ledger_.PendingMetrics(now);
  if (!demand) return Fail(demand.error());
  auto active = static_cast<std::int64_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const JobRow& job) { return job.kind == JobKind::kMetric; }));
  // A metric job pulls until nothing is left, so a few serve many; one for every four waiting.
  const std::int64_t wanted =
      std::min<std::int64_t>((demand->pending + 3) / 4, config_.metric_jobs_max);
  std::vector<Place> places = picture_.gathered.capacity.places;
  for (; active < wanted; ++active) {
    const std::string why = now < no_submissions_before_ ? submit_fault_ : WhyNoJob("metrics");
    if (!why.empty()) {
      picture_.held.push_back({demand->pending, why});
      return {};
    }
    slurm::BatchJob job = NewJob(JobKind::kMetric, config_.metric);
    job.name = "coeval-metric";
    job.cpus_per_task = demand->cpus;
    job.mem_mb = demand->mem_mb;
    // Lent CPUs first: they cost nobody anything.
    const auto at = std::find_if(places.begin(), places.end(), [&](const Place& p) {
      return p.source == "lent" && p.cpus >= demand->cpus && p.mem_mb >= demand->mem_mb &&
             !p.partition.empty();
    });
    Place place;
    if (at != places.end()) {
      at->cpus -= demand->cpus;
      at->mem_mb -= demand->mem_mb;
      place = *at;
      job.partition = place.partition;
      job.req_nodes = {place.node};
    }
    JobScriptSpec script{worker_, WorkerArguments("metric"), {}};
    script.arguments.insert(script.arguments.end(), {"--idle-s", "20"});
    job.script = JobScript(script);
    if (auto done = AddSubmission(JobKind::kMetric, "", place, std::move(job), now, actions); !done)
      return done;
  }
  return {};
}

Result<> Reconciler::PlanCancels(TimePoint now, std::vector<Action>* actions) {
  if (!picture_.gathered.jobs) return {};
  const auto outstanding = ledger_.OutstandingInference(now);
  if (!outstanding) return Fail(outstanding.error());
  std::set<std::string> wanted;
  for (const Outstanding& one : *outstanding) wanted.insert(one.fingerprint);
  for (const JobRow& row : jobs_) {
    const Job* job = FindByKey(*picture_.gathered.jobs, row);
    if (job == nullptr) continue;
    Action action;
    action.id = job->id;
    action.key = row.key;
    action.kind = Action::Kind::kCancel;
    const bool pending = job->state == JobState::kPending;
    const auto waited = now - row.created_at;
    if (cancel_requested_.erase(std::to_string(job->id.value)) > 0) {
      action.reason = "asked for";
    } else if (pending && CanNeverStart(*job)) {
      action.reason = "can never start: " + job->state_reason;
      if (row.kind == JobKind::kPrecursor)
        failed_staging_[PlaceKey(row.node, row.fingerprint)] = action.reason;
      picture_.held.push_back({1, "job " + std::to_string(job->id.value) + " " + action.reason});
    } else if (pending && row.kind == JobKind::kTrial && !wanted.contains(row.fingerprint)) {
      action.reason = "nothing is left for it to do";
    } else if (pending && row.kind == JobKind::kPrecursor &&
               (!wanted.contains(row.fingerprint) || waited > config_.placement_patience)) {
      action.reason = "its copy is not needed or comes too late";
    } else if (pending && row.kind != JobKind::kPrecursor && !job->req_nodes.empty() &&
               waited > config_.placement_patience) {
      action.kind = Action::Kind::kLiftNodelist;
      action.reason = "waited too long for " + job->req_nodes.front();
    } else {
      continue;
    }
    actions->push_back(std::move(action));
  }
  return {};
}

Result<> Reconciler::Record(const ActionOutcome& outcome, TimePoint now) {
  const Action& action = outcome.action;
  if (action.kind != Action::Kind::kSubmit) {
    const std::string what =
        action.kind == Action::Kind::kCancel ? "job cancelled" : "node list lifted";
    log::Info(what, {{"job_id", std::to_string(action.id.value)},
                     {"reason", action.reason},
                     {"slurm", outcome.result ? "ok" : outcome.result.error().message}});
    return {};
  }
  if (outcome.result) {
    submitted_at_[action.key] = now;
    const std::string id = std::to_string(outcome.result->value);
    log::Info("job submitted",
              {{"job_id", id},
               {"name", action.job.name},
               {"key", action.key},
               {"nodes", action.job.req_nodes.empty() ? "any" : action.job.req_nodes.front()}});
    return ledger_.SetJobSubmitted(action.key, id);
  }
  const Error& error = outcome.result.error();
  log::Warn("submission failed", {{"key", action.key},
                                  {"error", error.message},
                                  {"code", std::string(ErrorCodeName(error.code))}});
  // An unknown outcome keeps its row: the job is looked for by its key before another is submitted.
  if (error.code == ErrorCode::kUnknownOutcome) return {};
  no_submissions_before_ = now + kSubmitBackOff;
  submit_fault_ = "Slurm refuses jobs: " + error.message;
  submitted_at_.erase(action.key);
  return ledger_.ForgetJob(action.key);
}

bool Reconciler::NoteStaging(const std::string& node, const std::string& fingerprint,
                             const std::string& state) {
  const std::string key = PlaceKey(node, fingerprint);
  if (state == "failed") failed_staging_[key] = state;
  if (state == "gone" || state == "failed") {
    staging_.erase(key);
    return false;
  }
  if (staging_[key] != state)
    log::Info("staging", {{"node", node}, {"fingerprint", fingerprint}, {"state", state}});
  staging_[key] = state;
  // Before the first cycle after a start nothing is known to be unneeded.
  return !picture_.fresh || needed_.contains(fingerprint);
}

}  // namespace coeval::evaluator
