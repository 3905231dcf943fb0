#include "evaluator/ledger/ledger.h"

#include <algorithm>
#include <cmath>

#include "evaluator/ledger/schema.h"
#include "evaluator/ledger/sqlite.h"

namespace coeval::evaluator {
namespace {

constexpr int kBusyTimeout = 5000;  // Milliseconds.
constexpr int kMaxBackOffDoublings = 4;

Error LostLease(std::int64_t work) {
  return Error{ErrorCode::kFailedPrecondition,
               "work item " + std::to_string(work) + ": the lease is no longer yours; stop"};
}

double Epoch(TimePoint time) { return ToEpochSeconds(time); }

Result<sqlite3*> OpenDatabase(const std::filesystem::path& file) {
  sqlite3* db = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (code != SQLITE_OK) {
    Error error = SqliteError(db, code, "cannot open");
    sqlite3_close(db);
    return Fail(std::move(error));
  }
  sqlite3_busy_timeout(db, kBusyTimeout);
  return db;
}

Result<> Configure(sqlite3* db) {
  for (const char* pragma : {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
                             "PRAGMA foreign_keys = ON", "PRAGMA quick_check(1)"}) {
    Statement statement(db, pragma);
    const bool row = statement.Step();
    const bool check = std::string_view(pragma).starts_with("PRAGMA quick_check");
    if (row && check && statement.Text(0) != "ok") {
      return Fail(ErrorCode::kCorrupt, statement.Text(0));
    }
    if (auto ran = statement.Run(); !ran) return ran;
  }
  return PrepareSchema(db);
}

}  // namespace

std::string_view WorkStageName(WorkStage stage) {
  return stage == WorkStage::kInference ? "inference" : "metric";
}

std::optional<WorkStage> ParseWorkStage(std::string_view name) {
  if (name == "inference") return WorkStage::kInference;
  if (name == "metric") return WorkStage::kMetric;
  return std::nullopt;
}

std::string_view WorkOutcomeName(WorkOutcome outcome) {
  switch (outcome) {
    case WorkOutcome::kDone:
      return "done";
    case WorkOutcome::kFailed:
      return "failed";
    case WorkOutcome::kElsewhere:
      return "elsewhere";
    case WorkOutcome::kReturned:
      return "returned";
  }
  return "failed";
}

std::string_view JobKindName(JobKind kind) {
  switch (kind) {
    case JobKind::kTrial:
      return "trial";
    case JobKind::kMetric:
      return "metric";
    case JobKind::kPrecursor:
      return "precursor";
  }
  return "trial";
}

Result<std::unique_ptr<Ledger>> Ledger::Open(const std::filesystem::path& file) {
  const std::string what = "the ledger " + file.string();
  auto db = OpenDatabase(file);
  if (!db) return Fail(std::move(db.error()).Under(what));
  std::unique_ptr<Ledger> ledger(new Ledger(*db));
  if (auto ready = Configure(*db); !ready) {
    Error error = std::move(ready.error()).Under(what);
    if (error.code == ErrorCode::kCorrupt) {
      error.message += "; restore it from a copy, or move it away to start an empty one";
    }
    return Fail(std::move(error));
  }
  return ledger;
}

Ledger::~Ledger() { sqlite3_close(db_); }

// --- entering ---

Result<> Ledger::EnterCheckpoint(const CheckpointRow& row, TimePoint now) {
  return Statement(db_,
                   "INSERT INTO checkpoints (fingerprint, path, step, layout, bytes, complete_at, "
                   "entered_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                   row.fingerprint, row.path, row.step, row.layout,
                   static_cast<std::int64_t>(row.size.value), Epoch(row.complete_at), Epoch(now))
      .Run();
}

Result<int> Ledger::EnsureEvaluations(const std::string& owner, const std::string& fingerprint,
                                      const std::string& suite,
                                      const std::vector<NewEvaluation>& list, bool retry_failed,
                                      TimePoint now) {
  Transaction transaction(db_);
  if (auto begun = transaction.Status(); !begun) return Fail(begun.error());
  int fresh = 0;
  for (const NewEvaluation& one : list) {
    const auto opened = EnsureEvaluation(owner, fingerprint, suite, one, retry_failed, now);
    if (!opened) return Fail(opened.error());
    fresh += *opened ? 1 : 0;
  }
  if (auto done = transaction.Commit(); !done) return Fail(done.error());
  return fresh;
}

// True when the evaluation is new or open again.
Result<bool> Ledger::EnsureEvaluation(const std::string& owner, const std::string& fingerprint,
                                      const std::string& suite, const NewEvaluation& one,
                                      bool retry_failed, TimePoint now) {
  Statement insert(
      db_,
      "INSERT INTO evaluations (fingerprint, suite, dataset, version, settings, items, "
      "run, spec, state, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'open', ?) "
      "ON CONFLICT DO NOTHING",
      fingerprint, suite, one.dataset, one.version, one.settings, one.items, one.run, one.spec,
      Epoch(now));
  if (auto done = insert.Run(); !done) return Fail(done.error());
  const bool added = sqlite3_changes(db_) > 0;
  Statement find(db_,
                 "SELECT id, state FROM evaluations WHERE fingerprint = ? AND dataset = ? AND "
                 "version = ? AND settings = ?",
                 fingerprint, one.dataset, one.version, one.settings);
  if (!find.Step()) {
    if (auto sound = find.Status(); !sound) return Fail(sound.error());
    return Fail(ErrorCode::kInternal, "an evaluation just entered is not there");
  }
  const std::int64_t id = find.Int(0);
  const std::string state = find.Text(1);
  Statement want(db_, "INSERT INTO owners VALUES (?, ?) ON CONFLICT DO NOTHING", owner, id);
  if (auto done = want.Run(); !done) return Fail(done.error());
  if (added) {
    if (auto done = InsertWork(id, one); !done) return Fail(done.error());
    return true;
  }
  const bool again = state == "cancelled" || (retry_failed && state == "failed");
  if (again) {
    if (auto done = Reopen(id); !done) return Fail(done.error());
  }
  return again;
}

Result<> Ledger::InsertWork(std::int64_t evaluation, const NewEvaluation& one) {
  const auto shards = static_cast<std::int64_t>(one.shards.size());
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const ShardPlan& plan = one.shards[static_cast<std::size_t>(shard)];
    Statement work(db_,
                   "INSERT INTO work (evaluation, stage, shard, shards, first_item, last_item, "
                   "cost_s, place, state) VALUES (?, 'inference', ?, ?, ?, ?, ?, ?, 'pending')",
                   evaluation, shard, shards, plan.first_item, plan.last_item, plan.cost_s,
                   one.place);
    if (auto done = work.Run(); !done) return done;
  }
  if (!one.metric_cost_s) return {};
  return Statement(db_,
                   "INSERT INTO work (evaluation, stage, shard, shards, first_item, last_item, "
                   "cost_s, place, state) VALUES (?, 'metric', 0, 1, 0, ?, ?, ?, 'blocked')",
                   evaluation, std::max<std::int64_t>(one.items, 1) - 1, *one.metric_cost_s,
                   one.place)
      .Run();
}

// What failed or was cancelled may run again; what is inferred stays so.
Result<> Ledger::Reopen(std::int64_t evaluation) {
  const char* const statements[] = {
      "UPDATE evaluations SET state = 'open' WHERE id = ?",
      "UPDATE work SET state = 'pending', attempts = 0, lost = 0, not_before = 0, error = '', "
      "log_tail = '' WHERE evaluation = ? AND stage = 'inference' AND "
      "state IN ('failed', 'cancelled')",
      "UPDATE work SET state = CASE WHEN EXISTS (SELECT 1 FROM work AS w WHERE w.evaluation = "
      "work.evaluation AND w.stage = 'inference' AND w.state != 'done') THEN 'blocked' ELSE "
      "'pending' END, attempts = 0, lost = 0, not_before = 0, error = '', log_tail = '' "
      "WHERE evaluation = ? AND stage = 'metric' AND state IN ('failed', 'cancelled')"};
  for (const char* sql : statements) {
    if (auto done = Statement(db_, sql, evaluation).Run(); !done) return done;
  }
  return {};
}

// --- working ---

Result<std::optional<LeasedWork>> Ledger::Lease(WorkStage stage, const std::string& fingerprint,
                                                const std::string& job_id, const std::string& node,
                                                const std::string& worker, Seconds lease,
                                                TimePoint now) {
  Transaction transaction(db_);
  if (auto begun = transaction.Status(); !begun) return Fail(begun.error());
  // The newest checkpoint first: its scores are waited for most.
  Statement next(
      db_,
      "SELECT w.id, e.id, c.fingerprint, c.path, c.step, e.run, e.suite, e.dataset, "
      "e.version, e.settings, e.spec, w.shard, w.shards, w.first_item, w.last_item, e.items "
      "FROM work w JOIN evaluations e ON e.id = w.evaluation "
      "JOIN checkpoints c ON c.fingerprint = e.fingerprint "
      "WHERE w.state = 'pending' AND w.stage = ?1 AND w.not_before <= ?2 "
      "AND (?3 = '' OR e.fingerprint = ?3) "
      "ORDER BY c.complete_at DESC, w.place, w.id LIMIT 1",
      std::string(WorkStageName(stage)), Epoch(now), fingerprint);
  if (!next.Step()) {
    if (auto sound = next.Status(); !sound) return Fail(sound.error());
    return std::optional<LeasedWork>{};
  }
  LeasedWork leased;
  leased.stage = stage;
  leased.work = next.Int(0);
  const std::int64_t evaluation = next.Int(1);
  leased.fingerprint = next.Text(2);
  leased.checkpoint = next.Text(3);
  leased.step = next.OptionalInt(4);
  leased.run = next.Text(5);
  leased.suite = next.Text(6);
  leased.dataset = next.Text(7);
  leased.version = next.Text(8);
  leased.settings = next.Text(9);
  leased.spec = next.Text(10);
  leased.shard = next.Int(11);
  leased.shards = next.Int(12);
  leased.first_item = next.Int(13);
  leased.last_item = next.Int(14);
  leased.items = next.Int(15);
  leased.expires_at = now + lease;

  Statement attempt(
      db_, "INSERT INTO attempts (work, job_id, node, worker, started_at) VALUES (?, ?, ?, ?, ?)",
      leased.work, job_id, node, worker, Epoch(now));
  if (auto done = attempt.Run(); !done) return Fail(done.error());
  leased.token = sqlite3_last_insert_rowid(db_);
  Statement take(
      db_,
      "UPDATE work SET state = 'leased', token = ?, lease_expires = ?, job_id = ?, node = ? "
      "WHERE id = ?",
      leased.token, Epoch(leased.expires_at), job_id, node, leased.work);
  if (auto done = take.Run(); !done) return Fail(done.error());
  if (stage == WorkStage::kMetric) {
    Statement folders(
        db_, "SELECT out FROM work WHERE evaluation = ? AND stage = 'inference' ORDER BY shard",
        evaluation);
    while (folders.Step()) leased.predictions.push_back(folders.Text(0));
    if (auto sound = folders.Status(); !sound) return Fail(sound.error());
  }
  if (auto done = transaction.Commit(); !done) return Fail(done.error());
  return std::optional<LeasedWork>{std::move(leased)};
}

Result<TimePoint> Ledger::Renew(std::int64_t work, std::int64_t token, Seconds lease,
                                TimePoint now) {
  const TimePoint expires = now + lease;
  Statement renew(
      db_, "UPDATE work SET lease_expires = ? WHERE id = ? AND token = ? AND state = 'leased'",
      Epoch(expires), work, token);
  if (auto done = renew.Run(); !done) return Fail(done.error());
  if (sqlite3_changes(db_) == 0) return Fail(LostLease(work));
  return expires;
}

Result<> Ledger::Finish(const FinishedWork& finished, const RetryLimits& limits, TimePoint now) {
  Transaction transaction(db_);
  if (auto begun = transaction.Status(); !begun) return begun;
  Statement find(db_, "SELECT state, token FROM work WHERE id = ?", finished.work);
  const bool known = find.Step();
  if (auto sound = find.Status(); !sound) return sound;
  if (!known)
    return Fail(ErrorCode::kNotFound, "there is no work item " + std::to_string(finished.work));
  const bool holds = find.Text(0) == "leased" && find.Int(1) == finished.token;
  if (!holds) {
    // The answer to an earlier delivery may have been lost on its way.
    Statement earlier(db_, "SELECT outcome FROM attempts WHERE token = ? AND work = ?",
                      finished.token, finished.work);
    if (earlier.Step() && earlier.Text(0) == WorkOutcomeName(finished.outcome)) return {};
    return Fail(LostLease(finished.work));
  }
  Result<> taken = finished.outcome == WorkOutcome::kDone
                       ? TakeDone(finished.work, finished, now)
                       : SetLeaseOver(finished.work, finished, limits, now);
  if (!taken) return taken;
  Statement attempt(db_, "UPDATE attempts SET ended_at = ?, outcome = ? WHERE token = ?",
                    Epoch(now), std::string(WorkOutcomeName(finished.outcome)), finished.token);
  if (auto done = attempt.Run(); !done) return done;
  return transaction.Commit();
}

// Work that is done: its predictions count, and perhaps its metric can start or its result is
// known.
Result<> Ledger::TakeDone(std::int64_t work, const FinishedWork& finished, TimePoint now) {
  Statement update(
      db_,
      "UPDATE work SET state = 'done', out = ?, seconds = ?, error = '', log_tail = '', "
      "lease_expires = NULL WHERE id = ? RETURNING evaluation, stage",
      finished.out, finished.seconds, work);
  if (!update.Step()) return Fail(ErrorCode::kInternal, "lost work item");
  const std::int64_t evaluation = update.Int(0);
  const bool is_metric = update.Text(1) == "metric";
  if (auto done = update.Run(); !done) return done;
  if (is_metric) {
    if (!finished.score)
      return Fail(ErrorCode::kInvalidArgument, "a metric ended without a result");
    return RecordResult(evaluation, *finished.score, now);
  }
  Statement open(db_,
                 "SELECT count(*) FILTER (WHERE stage = 'inference' AND state != 'done'), "
                 "count(*) FILTER (WHERE stage = 'metric') FROM work WHERE evaluation = ?",
                 evaluation);
  open.Step();
  if (open.Int(0) > 0) return open.Status();
  if (open.Int(1) == 0) {
    if (!finished.score) {
      return Fail(ErrorCode::kInvalidArgument, "a stage without a metric ended without a result");
    }
    return RecordResult(evaluation, *finished.score, now);
  }
  return Statement(
             db_,
             "UPDATE work SET state = 'pending' WHERE evaluation = ? AND stage = 'metric' AND "
             "state = 'blocked'",
             evaluation)
      .Run();
}

Result<> Ledger::RecordResult(std::int64_t evaluation, const Score& score, TimePoint now) {
  Statement insert(
      db_,
      "INSERT INTO results SELECT ?1, ?2, ?3, ?4, ?5, ?6, max(0, ?6 - c.complete_at) "
      "FROM evaluations e JOIN checkpoints c ON c.fingerprint = e.fingerprint WHERE e.id = ?1",
      evaluation, score.primary, score.value, score.metrics_json, score.items, Epoch(now));
  if (auto done = insert.Run(); !done) return done;
  return CloseEvaluation(evaluation, "done");
}

Result<> Ledger::CloseEvaluation(std::int64_t evaluation, const std::string& state) {
  return Statement(db_, "UPDATE evaluations SET state = ? WHERE id = ?", state, evaluation).Run();
}

// A lease that ended without the work being done.
Result<> Ledger::SetLeaseOver(std::int64_t work, const FinishedWork& finished,
                              const RetryLimits& limits, TimePoint now) {
  const bool own = finished.outcome == WorkOutcome::kFailed;
  const bool elsewhere = finished.outcome == WorkOutcome::kElsewhere;
  Statement update(
      db_,
      "UPDATE work SET state = 'pending', lease_expires = NULL, attempts = attempts + ?, "
      "lost = lost + ?, error = ?, log_tail = ?, out = CASE WHEN stage = 'metric' THEN out "
      "ELSE ? END WHERE id = ? RETURNING attempts, lost, evaluation",
      own ? 1 : 0, elsewhere ? 1 : 0, finished.error, finished.log_tail, finished.out, work);
  if (!update.Step()) return Fail(ErrorCode::kInternal, "lost work item");
  const std::int64_t attempts = update.Int(0), lost = update.Int(1), evaluation = update.Int(2);
  if (auto done = update.Run(); !done) return done;
  if (attempts >= limits.attempts_max || lost >= limits.lost_max) {
    const char* const give_up[] = {
        "UPDATE work SET state = 'cancelled' WHERE evaluation = ? AND state IN ('pending', "
        "'blocked')"};
    if (auto done = Statement(db_, "UPDATE work SET state = 'failed' WHERE id = ?", work).Run();
        !done)
      return done;
    if (auto done = Statement(db_, give_up[0], evaluation).Run(); !done) return done;
    return CloseEvaluation(evaluation, "failed");
  }
  if (finished.outcome == WorkOutcome::kReturned) return {};
  const auto doublings = std::min<std::int64_t>(std::max(attempts, lost) - 1, kMaxBackOffDoublings);
  const double wait =
      static_cast<double>(limits.back_off.count()) * std::exp2(static_cast<double>(doublings));
  return Statement(db_, "UPDATE work SET not_before = ? WHERE id = ?", Epoch(now) + wait, work)
      .Run();
}

Result<int> Ledger::GiveOn(const std::string& condition, const std::string& argument,
                           const std::string& why, const RetryLimits& limits, TimePoint now) {
  std::vector<FinishedWork> over;
  {
    Statement find(db_, "SELECT id, token FROM work WHERE state = 'leased' AND " + condition,
                   argument);
    while (find.Step()) {
      FinishedWork one;
      one.work = find.Int(0);
      one.token = find.Int(1);
      one.outcome = WorkOutcome::kElsewhere;
      one.error = why;
      over.push_back(std::move(one));
    }
    if (auto sound = find.Status(); !sound) return Fail(sound.error());
  }
  for (const FinishedWork& one : over) {
    if (auto done = Finish(one, limits, now); !done) return Fail(done.error());
  }
  return static_cast<int>(over.size());
}

Result<int> Ledger::ExpireLeases(const RetryLimits& limits, TimePoint now) {
  return GiveOn("lease_expires <= CAST(? AS REAL)", std::to_string(Epoch(now)),
                "its worker went silent", limits, now);
}

Result<int> Ledger::ReleaseJob(const std::string& job_id, const RetryLimits& limits,
                               TimePoint now) {
  return GiveOn("job_id = ?", job_id, "its job " + job_id + " ended", limits, now);
}

Result<int> Ledger::Cancel(const std::string& owner, TimePoint now) {
  Transaction transaction(db_);
  if (auto begun = transaction.Status(); !begun) return Fail(begun.error());
  const std::string only =
      "(SELECT o.evaluation FROM owners o JOIN evaluations e ON e.id = o.evaluation WHERE o.owner "
      "= ? "
      "AND e.state = 'open' AND NOT EXISTS (SELECT 1 FROM owners x WHERE x.evaluation = "
      "o.evaluation "
      "AND x.owner != o.owner))";
  Statement work(
      db_,
      "UPDATE work SET state = 'cancelled', lease_expires = NULL WHERE state IN ('pending', "
      "'blocked', 'leased') AND evaluation IN " +
          only,
      owner);
  if (auto done = work.Run(); !done) return Fail(done.error());
  const int cancelled = sqlite3_changes(db_);
  Statement close(db_, "UPDATE evaluations SET state = 'cancelled' WHERE id IN " + only, owner);
  if (auto done = close.Run(); !done) return Fail(done.error());
  if (auto done = transaction.Commit(); !done) return Fail(done.error());
  static_cast<void>(now);
  return cancelled;
}

Result<int> Ledger::FailCheckpoint(const std::string& fingerprint, const std::string& why) {
  Transaction transaction(db_);
  if (auto begun = transaction.Status(); !begun) return Fail(begun.error());
  // What is inferred already can still be scored.
  const std::string open =
      "(SELECT e.id FROM evaluations e WHERE e.fingerprint = ? AND e.state = 'open' AND EXISTS "
      "(SELECT 1 FROM work w WHERE w.evaluation = e.id AND w.stage = 'inference' AND w.state != "
      "'done'))";
  Statement work(
      db_,
      "UPDATE work SET state = CASE WHEN stage = 'inference' THEN 'failed' ELSE 'cancelled' END, "
      "lease_expires = NULL, error = ? WHERE state IN ('pending', 'blocked', 'leased') AND "
      "evaluation IN " +
          open,
      why, fingerprint);
  if (auto done = work.Run(); !done) return Fail(done.error());
  const int failed = sqlite3_changes(db_);
  Statement close(db_,
                  "UPDATE evaluations SET state = 'failed' WHERE state = 'open' AND id IN (SELECT "
                  "evaluation FROM work WHERE state = 'failed') AND fingerprint = ?",
                  fingerprint);
  if (auto done = close.Run(); !done) return Fail(done.error());
  if (auto done = transaction.Commit(); !done) return Fail(done.error());
  return failed;
}

}  // namespace coeval::evaluator
