// The ledger: what is to be done, who is doing it, and every result exactly once.
//
// SQLite in WAL mode with synchronous=FULL: what a call has returned is on disk. Every change is
// one transaction, so that the process may be killed at any instruction. Work is leased with a
// fencing token: a worker whose lease was given on is refused whatever it brings. Not thread-safe;
// calls take microseconds to a few milliseconds.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

struct sqlite3;

namespace coeval::evaluator {

enum class WorkStage { kInference, kMetric };
std::string_view WorkStageName(WorkStage stage);  // `inference`, `metric`
std::optional<WorkStage> ParseWorkStage(std::string_view name);

struct CheckpointRow {
  std::string fingerprint, path;
  std::optional<std::int64_t> step;
  std::string layout;
  Bytes size;
  TimePoint complete_at;
};

/// One part of a dataset's inference. Items are counted from 0; both ends belong to it.
struct ShardPlan {
  std::int64_t first_item = 0, last_item = 0;
  double cost_s = 0;
};

/// An evaluation to be entered: one dataset on one checkpoint under one set of settings.
struct NewEvaluation {
  std::string dataset, version, settings;
  std::int64_t items = 0;
  std::string run;
  std::string spec;                     // JSON: all a worker needs; opaque to the ledger.
  std::vector<ShardPlan> shards;        // At least one.
  std::optional<double> metric_cost_s;  // nullopt: no metric stage, inference brings the result.
  std::int64_t place = 0;               // The planner's order; smaller first.
};

struct LeasedWork {
  std::int64_t work = 0, token = 0;
  WorkStage stage = WorkStage::kInference;
  TimePoint expires_at;
  std::string fingerprint, checkpoint, run, suite, dataset, version, settings, spec;
  std::optional<std::int64_t> step;
  std::int64_t shard = 0, shards = 1, first_item = 0, last_item = 0, items = 0;
  std::vector<std::string> predictions;  // Metric: folders of the accepted inference, by shard.
};

/// A score as a harness gave it, checked by its reader.
struct Score {
  std::string primary;
  double value = 0;
  std::string metrics_json;
  std::int64_t items = 0;
};

enum class WorkOutcome {
  kDone,
  kFailed,     // The harness's own failure; counts against the attempts.
  kElsewhere,  // EX_TEMPFAIL, or its worker vanished: not its fault, try another place.
  kReturned,   // The worker had to go and gives it back unharmed.
};
std::string_view WorkOutcomeName(WorkOutcome outcome);

struct FinishedWork {
  std::int64_t work = 0, token = 0;
  WorkOutcome outcome = WorkOutcome::kDone;
  double seconds = 0;
  std::string out, error, log_tail;
  std::optional<Score> score;  // Needed where the stage brings the result.
};

struct RetryLimits {
  int attempts_max = 3;  // Own failures of a piece of work.
  int lost_max = 20;     // Times its worker may vanish.
  Seconds back_off{5};   // Doubles with each failure, up to 16 times.
};

enum class JobKind { kTrial, kMetric, kPrecursor };
std::string_view JobKindName(JobKind kind);

struct JobRow {
  std::string key;
  JobKind kind = JobKind::kTrial;
  std::string fingerprint, node, job_id, state, outcome;
  std::uint32_t gpus = 0;
  TimePoint created_at;
  std::optional<TimePoint> start_at, end_at;
  std::int64_t items_done = 0;
};

struct CampaignRow {
  std::int64_t id = 0;
  std::string name;
  TimePoint created_at;
  std::vector<std::string> suites, paths;
  bool cancelled = false;
};

/// How far one owner's suite is on one checkpoint.
struct Progress {
  std::string owner, fingerprint, suite;
  std::int64_t total = 0, done = 0, failed = 0, running = 0, cancelled = 0;
  std::optional<double> feedback_delay_s;  // The longest of the known.
  double remaining_inference_s = 0, remaining_metric_s = 0;
};

/// Outstanding work of one checkpoint, for planning.
struct Outstanding {
  std::string fingerprint;
  std::int64_t pending = 0, leased = 0;
  double pending_s = 0;
  std::uint32_t gpus = 0, cpus = 1;  // The largest that a pending piece needs.
  std::uint64_t mem_mb = 0;
  TimePoint complete_at;
};

/// Metrics that could start now, and the largest resources that one of them needs.
struct MetricDemand {
  std::int64_t pending = 0;
  std::uint32_t cpus = 1;
  std::uint64_t mem_mb = 0;
};

struct ResultRow {
  std::string fingerprint, checkpoint, run, suite, dataset, version, settings, primary,
      metrics_json;
  std::optional<std::int64_t> step;
  double value = 0, feedback_delay_s = 0;
  std::int64_t items = 0;
  TimePoint known_at;
  struct StageRow {
    std::string job_id, node;
    double seconds = 0;
  };
  std::optional<StageRow> inference, metric;  // The last shard's place; seconds of all.
};

struct FailureRow {
  std::string fingerprint, checkpoint, suite, dataset, stage, error, log_tail, predictions;
  std::optional<std::int64_t> step;
  std::int64_t attempts = 0;
};

class Ledger {
 public:
  /// Opens or makes the file. kCorrupt, kPermissionDenied or kFailedPrecondition name the file and
  /// say what to do.
  static Result<std::unique_ptr<Ledger>> Open(const std::filesystem::path& file);
  ~Ledger();

  // --- entering ---
  /// Idempotent. The same weights under another path keep their first entry.
  Result<> EnterCheckpoint(const CheckpointRow& row, TimePoint now);
  Result<std::optional<CheckpointRow>> FindCheckpoint(const std::string& fingerprint);
  Result<std::optional<CheckpointRow>> FindCheckpointByPath(const std::string& path);
  /// Enters what the ledger lacks and notes that `owner` wants it; returns how many were new.
  /// With `retry_failed`, failed and cancelled evaluations are opened again.
  Result<int> EnsureEvaluations(const std::string& owner, const std::string& fingerprint,
                                const std::string& suite, const std::vector<NewEvaluation>& list,
                                bool retry_failed, TimePoint now);

  // --- working ---
  /// The next piece of a stage, or nothing. `fingerprint` empty: of any checkpoint.
  Result<std::optional<LeasedWork>> Lease(WorkStage stage, const std::string& fingerprint,
                                          const std::string& job_id, const std::string& node,
                                          const std::string& worker, Seconds lease, TimePoint now);
  /// kFailedPrecondition: the lease is lost, stop at once.
  Result<TimePoint> Renew(std::int64_t work, std::int64_t token, Seconds lease, TimePoint now);
  /// Takes an outcome. Delivering the same one twice is fine; a lost lease is kFailedPrecondition.
  Result<> Finish(const FinishedWork& finished, const RetryLimits& limits, TimePoint now);
  /// Gives on what overdue leases hold; returns how many.
  Result<int> ExpireLeases(const RetryLimits& limits, TimePoint now);
  /// Gives on what a job held that Slurm says is over.
  Result<int> ReleaseJob(const std::string& job_id, const RetryLimits& limits, TimePoint now);
  /// Cancels what only `owner` wants; returns how many pieces of work.
  Result<int> Cancel(const std::string& owner, TimePoint now);
  /// Gives up the open evaluations of a checkpoint that is gone.
  Result<int> FailCheckpoint(const std::string& fingerprint, const std::string& why);

  // --- jobs ---
  Result<> InsertJob(const JobRow& row);
  Result<> SetJobSubmitted(const std::string& key, const std::string& job_id);
  Result<> SetJobStarted(const std::string& key, const std::string& node, TimePoint start);
  Result<> SetJobEnded(const std::string& key, const std::string& outcome, TimePoint end);
  Result<> ForgetJob(const std::string& key);
  /// With `all` also those that ended; newest last, at most 10,000.
  Result<std::vector<JobRow>> Jobs(bool all);

  // --- campaigns ---
  Result<std::int64_t> InsertCampaign(const CampaignRow& row);
  Result<std::vector<CampaignRow>> Campaigns();
  Result<> CancelCampaign(std::int64_t id);
  Result<> CancelRun(const std::string& run, TimePoint now);
  Result<bool> IsRunCancelled(const std::string& run);

  // --- asking ---
  Result<std::vector<Progress>> ProgressOfAll();
  Result<std::vector<Outstanding>> OutstandingInference(TimePoint now);
  Result<MetricDemand> PendingMetrics(TimePoint now);
  Result<std::vector<ResultRow>> Results(const std::string& owner, const std::string& suite);
  Result<std::vector<FailureRow>> Failures(const std::string& owner, const std::string& suite);
  /// Seconds that a dataset's stage took under these settings on other checkpoints (median of the
  /// last 9, all shards together); nullopt when never run.
  Result<std::optional<double>> LearnedCost(const std::string& dataset, const std::string& settings,
                                            WorkStage stage);
  Result<std::int64_t> CountResults();
  /// Feedback delays in seconds of the last `most` results, shortest first.
  Result<std::vector<double>> RecentFeedbackDelays(int most);

 private:
  explicit Ledger(sqlite3* db) : db_(db) {}
  Result<bool> EnsureEvaluation(const std::string& owner, const std::string& fingerprint,
                                const std::string& suite, const NewEvaluation& one,
                                bool retry_failed, TimePoint now);
  Result<> InsertWork(std::int64_t evaluation, const NewEvaluation& one);
  Result<> Reopen(std::int64_t evaluation);
  Result<> SetLeaseOver(std::int64_t work, const FinishedWork& finished, const RetryLimits& limits,
                        TimePoint now);
  Result<> TakeDone(std::int64_t work, const FinishedWork& finished, TimePoint now);
  Result<> RecordResult(std::int64_t evaluation, const Score& score, TimePoint now);
  Result<> CloseEvaluation(std::int64_t evaluation, const std::string& state);
  Result<int> GiveOn(const std::string& condition, const std::string& argument,
                     const std::string& why, const RetryLimits& limits, TimePoint now);

  sqlite3* db_;
};

}  // namespace coeval::evaluator
