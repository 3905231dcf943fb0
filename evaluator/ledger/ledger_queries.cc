// The ledger's jobs, campaigns and questions: one statement each.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluator/ledger/ledger.h"
#include "evaluator/ledger/sqlite.h"

namespace coeval::evaluator {
namespace {

double Epoch(TimePoint time) { return ToEpochSeconds(time); }

std::string ToJson(const std::vector<std::string>& texts) {
  return nlohmann::json(texts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> FromJson(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, false);
  return list.is_array() ? list.get<std::vector<std::string>>() : std::vector<std::string>{};
}

std::optional<TimePoint> OptionalTime(const Statement& row, int column) {
  if (row.IsNull(column)) return std::nullopt;
  return FromEpochSeconds(row.Double(column));
}

constexpr char kSelectCheckpoint[] =
    "SELECT fingerprint, path, step, layout, bytes, complete_at FROM checkpoints WHERE ";

Result<std::optional<CheckpointRow>> ReadCheckpoint(Statement* row) {
  if (!row->Step()) {
    if (auto sound = row->Status(); !sound) return Fail(sound.error());
    return std::optional<CheckpointRow>{};
  }
  return std::optional<CheckpointRow>{CheckpointRow{
      row->Text(0), row->Text(1), row->OptionalInt(2), row->Text(3),
      Bytes{static_cast<std::uint64_t>(row->Int(4))}, FromEpochSeconds(row->Double(5))}};
}

// Collects every row that `read` makes of a statement.
template <class Row, class Read>
Result<std::vector<Row>> Collect(Statement* statement, Read read) {
  std::vector<Row> rows;
  while (statement->Step()) rows.push_back(read(*statement));
  if (auto sound = statement->Status(); !sound) return Fail(sound.error());
  return rows;
}

Result<std::int64_t> One(Statement* statement) {
  const bool row = statement->Step();
  if (auto sound = statement->Status(); !sound) return Fail(sound.error());
  return row ? statement->Int(0) : 0;
}

}  // namespace

Result<std::optional<CheckpointRow>> Ledger::FindCheckpoint(const std::string& fingerprint) {
  Statement row(db_, std::string(kSelectCheckpoint) + "fingerprint = ?", fingerprint);
  return ReadCheckpoint(&row);
}

Result<std::optional<CheckpointRow>> Ledger::FindCheckpointByPath(const std::string& path) {
  Statement row(db_, std::string(kSelectCheckpoint) + "path = ? ORDER BY entered_at DESC LIMIT 1",
                path);
  return ReadCheckpoint(&row);
}

// --- jobs ---

Result<> Ledger::InsertJob(const JobRow& row) {
  return Statement(
             db_,
             "INSERT INTO jobs (key, kind, fingerprint, node, state, gpus, created_at) VALUES "
             "(?, ?, ?, ?, 'intent', ?, ?)",
             row.key, std::string(JobKindName(row.kind)), row.fingerprint, row.node, row.gpus,
             Epoch(row.created_at))
      .Run();
}

Result<> Ledger::SetJobSubmitted(const std::string& key, const std::string& job_id) {
  return Statement(
             db_,
             "UPDATE jobs SET state = 'submitted', job_id = ? WHERE key = ? AND state = 'intent'",
             job_id, key)
      .Run();
}

Result<> Ledger::SetJobStarted(const std::string& key, const std::string& node, TimePoint start) {
  return Statement(db_, "UPDATE jobs SET node = ?, start_at = ? WHERE key = ?", node, Epoch(start),
                   key)
      .Run();
}

Result<> Ledger::SetJobEnded(const std::string& key, const std::string& outcome, TimePoint end) {
  return Statement(db_,
                   "UPDATE jobs SET state = 'ended', outcome = ?, end_at = ? WHERE key = ? AND "
                   "state != 'ended'",
                   outcome, Epoch(end), key)
      .Run();
}

Result<> Ledger::ForgetJob(const std::string& key) {
  return Statement(db_, "DELETE FROM jobs WHERE key = ? AND state = 'intent'", key).Run();
}

Result<std::vector<JobRow>> Ledger::Jobs(bool all) {
  Statement rows(
      db_,
      "SELECT key, kind, fingerprint, node, job_id, state, outcome, gpus, created_at, start_at, "
      "end_at, (SELECT count(*) FROM attempts a WHERE a.job_id = jobs.job_id AND jobs.job_id != '' "
      "AND a.outcome = 'done') FROM jobs WHERE ? OR state != 'ended' ORDER BY created_at DESC, key "
      "DESC LIMIT 10000",
      all ? 1 : 0);
  auto jobs = Collect<JobRow>(&rows, [](const Statement& row) {
    JobRow job;
    job.key = row.Text(0);
    const std::string kind = row.Text(1);
    job.kind = kind == "trial"    ? JobKind::kTrial
               : kind == "metric" ? JobKind::kMetric
                                  : JobKind::kPrecursor;
    job.fingerprint = row.Text(2);
    job.node = row.Text(3);
    job.job_id = row.Text(4);
    job.state = row.Text(5);
    job.outcome = row.Text(6);
    job.gpus = static_cast<std::uint32_t>(row.Int(7));
    job.created_at = FromEpochSeconds(row.Double(8));
    job.start_at = OptionalTime(row, 9);
    job.end_at = OptionalTime(row, 10);
    job.items_done = row.Int(11);
    return job;
  });
  if (jobs) std::reverse(jobs->begin(), jobs->end());
  return jobs;
}

// --- campaigns ---

Result<std::int64_t> Ledger::InsertCampaign(const CampaignRow& row) {
  Statement insert(db_,
                   "INSERT INTO campaigns (name, created_at, suites, paths) VALUES (?, ?, ?, ?)",
                   row.name, Epoch(row.created_at), ToJson(row.suites), ToJson(row.paths));
  if (auto done = insert.Run(); !done) return Fail(done.error());
  return std::int64_t{sqlite3_last_insert_rowid(db_)};
}

Result<std::vector<CampaignRow>> Ledger::Campaigns() {
  Statement rows(
      db_, "SELECT id, name, created_at, suites, paths, cancelled FROM campaigns ORDER BY id");
  return Collect<CampaignRow>(&rows, [](const Statement& row) {
    return CampaignRow{row.Int(0),
                       row.Text(1),
                       FromEpochSeconds(row.Double(2)),
                       FromJson(row.Text(3)),
                       FromJson(row.Text(4)),
                       row.Int(5) != 0};
  });
}

Result<> Ledger::CancelCampaign(std::int64_t id) {
  return Statement(db_, "UPDATE campaigns SET cancelled = 1 WHERE id = ?", id).Run();
}

Result<> Ledger::CancelRun(const std::string& run, TimePoint now) {
  return Statement(db_, "INSERT INTO cancelled_runs VALUES (?, ?) ON CONFLICT DO NOTHING", run,
                   Epoch(now))
      .Run();
}

Result<bool> Ledger::IsRunCancelled(const std::string& run) {
  Statement find(db_, "SELECT count(*) FROM cancelled_runs WHERE run = ?", run);
  const auto count = One(&find);
  if (!count) return Fail(count.error());
  return *count > 0;
}

// --- asking ---

Result<std::vector<Progress>> Ledger::ProgressOfAll() {
  Statement rows(db_, R"sql(
    SELECT o.owner, e.fingerprint, e.suite, count(*), sum(e.state = 'done'),
      sum(e.state = 'failed'), sum(e.state = 'cancelled'), max(r.feedback_delay_s),
      sum(EXISTS (SELECT 1 FROM work w WHERE w.evaluation = e.id AND w.state = 'leased')),
      sum((SELECT coalesce(sum(cost_s), 0) FROM work w WHERE w.evaluation = e.id AND
           w.stage = 'inference' AND w.state IN ('pending', 'leased'))),
      sum((SELECT coalesce(sum(cost_s), 0) FROM work w WHERE w.evaluation = e.id AND
           w.stage = 'metric' AND w.state IN ('pending', 'leased', 'blocked')))
    FROM owners o JOIN evaluations e ON e.id = o.evaluation
      LEFT JOIN results r ON r.evaluation = e.id
    GROUP BY o.owner, e.fingerprint, e.suite ORDER BY o.owner, e.fingerprint, e.suite)sql");
  return Collect<Progress>(&rows, [](const Statement& row) {
    Progress progress;
    progress.owner = row.Text(0);
    progress.fingerprint = row.Text(1);
    progress.suite = row.Text(2);
    progress.total = row.Int(3);
    progress.done = row.Int(4);
    progress.failed = row.Int(5);
    progress.cancelled = row.Int(6);
    progress.feedback_delay_s = row.OptionalDouble(7);
    progress.running = row.Int(8);
    progress.remaining_inference_s = row.Double(9);
    progress.remaining_metric_s = row.Double(10);
    return progress;
  });
}

Result<std::vector<Outstanding>> Ledger::OutstandingInference(TimePoint now) {
  Statement rows(db_, R"sql(
    SELECT e.fingerprint, sum(w.state = 'pending' AND w.not_before <= ?), sum(w.state = 'leased'),
      sum(CASE WHEN w.state = 'pending' THEN w.cost_s ELSE 0 END),
      max(json_extract(e.spec, '$.inference.gpus')), max(json_extract(e.spec, '$.inference.cpus')),
      max(json_extract(e.spec, '$.inference.mem_mb')), c.complete_at
    FROM work w JOIN evaluations e ON e.id = w.evaluation
    JOIN checkpoints c ON c.fingerprint = e.fingerprint
    WHERE w.stage = 'inference' AND w.state IN ('pending', 'leased')
    GROUP BY e.fingerprint ORDER BY c.complete_at DESC, e.fingerprint)sql",
                 Epoch(now));
  return Collect<Outstanding>(&rows, [](const Statement& row) {
    Outstanding one;
    one.fingerprint = row.Text(0);
    one.pending = row.Int(1);
    one.leased = row.Int(2);
    one.pending_s = row.Double(3);
    one.gpus = static_cast<std::uint32_t>(row.Int(4));
    one.cpus = static_cast<std::uint32_t>(row.Int(5));
    one.mem_mb = static_cast<std::uint64_t>(row.Int(6));
    one.complete_at = FromEpochSeconds(row.Double(7));
    return one;
  });
}

Result<MetricDemand> Ledger::PendingMetrics(TimePoint now) {
  Statement row(db_, R"sql(
    SELECT count(*), coalesce(max(json_extract(e.spec, '$.metric.cpus')), 1),
      coalesce(max(json_extract(e.spec, '$.metric.mem_mb')), 0)
    FROM work w JOIN evaluations e ON e.id = w.evaluation
    WHERE w.stage = 'metric' AND w.state = 'pending' AND w.not_before <= ?)sql",
                Epoch(now));
  row.Step();
  if (auto sound = row.Status(); !sound) return Fail(sound.error());
  return MetricDemand{row.Int(0), static_cast<std::uint32_t>(row.Int(1)),
                      static_cast<std::uint64_t>(row.Int(2))};
}

Result<std::vector<ResultRow>> Ledger::Results(const std::string& owner, const std::string& suite) {
  Statement rows(db_, R"sql(
    SELECT e.fingerprint, c.path, c.step, e.run, e.suite, e.dataset, e.version, e.settings,
      r.primary_metric, r.metrics, r.value, r.feedback_delay_s, r.items, r.known_at,
      i.job_id, i.node,
      (SELECT sum(seconds) FROM work WHERE evaluation = e.id AND stage = 'inference'),
      m.job_id, m.node, m.seconds
    FROM results r JOIN evaluations e ON e.id = r.evaluation
      JOIN checkpoints c ON c.fingerprint = e.fingerprint
    LEFT JOIN work i ON i.evaluation = e.id AND i.stage = 'inference' AND i.shard = i.shards - 1
    LEFT JOIN work m ON m.evaluation = e.id AND m.stage = 'metric'
    WHERE (?1 = '' OR EXISTS (SELECT 1 FROM owners o WHERE o.evaluation = e.id AND o.owner = ?1))
      AND (?2 = '' OR e.suite = ?2)
    ORDER BY c.step, c.path, e.suite, e.dataset LIMIT 200000)sql",
                 owner, suite);
  return Collect<ResultRow>(&rows, [](const Statement& row) {
    ResultRow result;
    result.fingerprint = row.Text(0);
    result.checkpoint = row.Text(1);
    result.step = row.OptionalInt(2);
    result.run = row.Text(3);
    result.suite = row.Text(4);
    result.dataset = row.Text(5);
    result.version = row.Text(6);
    result.settings = row.Text(7);
    result.primary = row.Text(8);
    result.metrics_json = row.Text(9);
    result.value = row.Double(10);
    result.feedback_delay_s = row.Double(11);
    result.items = row.Int(12);
    result.known_at = FromEpochSeconds(row.Double(13));
    if (!row.IsNull(14)) result.inference = {row.Text(14), row.Text(15), row.Double(16)};
    if (!row.IsNull(17)) result.metric = {row.Text(17), row.Text(18), row.Double(19)};
    return result;
  });
}

Result<std::vector<FailureRow>> Ledger::Failures(const std::string& owner,
                                                 const std::string& suite) {
  Statement rows(db_, R"sql(
    SELECT e.fingerprint, c.path, c.step, e.suite, e.dataset, w.stage, w.error, w.log_tail,
      w.attempts + w.lost,
      CASE WHEN w.stage = 'metric' THEN (SELECT out FROM work p WHERE p.evaluation = e.id AND
        p.stage = 'inference' ORDER BY p.shard LIMIT 1) ELSE '' END
    FROM work w JOIN evaluations e ON e.id = w.evaluation
      JOIN checkpoints c ON c.fingerprint = e.fingerprint
    WHERE w.state = 'failed'
      AND (?1 = '' OR EXISTS (SELECT 1 FROM owners o WHERE o.evaluation = e.id AND o.owner = ?1))
      AND (?2 = '' OR e.suite = ?2)
    ORDER BY c.step, c.path, e.suite, e.dataset, w.shard LIMIT 10000)sql",
                 owner, suite);
  return Collect<FailureRow>(&rows, [](const Statement& row) {
    FailureRow failure;
    failure.fingerprint = row.Text(0);
    failure.checkpoint = row.Text(1);
    failure.step = row.OptionalInt(2);
    failure.suite = row.Text(3);
    failure.dataset = row.Text(4);
    failure.stage = row.Text(5);
    failure.error = row.Text(6);
    failure.log_tail = row.Text(7);
    failure.attempts = row.Int(8);
    failure.predictions = row.Text(9);
    return failure;
  });
}

Result<std::optional<double>> Ledger::LearnedCost(const std::string& dataset,
                                                  const std::string& settings, WorkStage stage) {
  Statement rows(db_, R"sql(
    SELECT sum(w.seconds) FROM evaluations e JOIN work w ON w.evaluation = e.id
    WHERE e.dataset = ? AND e.settings = ? AND w.stage = ?
    GROUP BY e.id HAVING count(*) = sum(w.state = 'done') ORDER BY e.id DESC LIMIT 9)sql",
                 dataset, settings, std::string(WorkStageName(stage)));
  auto costs = Collect<double>(&rows, [](const Statement& row) { return row.Double(0); });
  if (!costs) return Fail(costs.error());
  if (costs->empty()) return std::optional<double>{};
  const auto middle = costs->begin() + static_cast<std::ptrdiff_t>(costs->size() / 2);
  std::nth_element(costs->begin(), middle, costs->end());
  return std::optional<double>{*middle};
}

Result<std::vector<double>> Ledger::RecentFeedbackDelays(int most) {
  Statement rows(db_,
                 "SELECT d FROM (SELECT feedback_delay_s AS d FROM results ORDER BY known_at DESC "
                 "LIMIT ?) ORDER BY d",
                 most);
  return Collect<double>(&rows, [](const Statement& row) { return row.Double(0); });
}

Result<std::int64_t> Ledger::CountResults() {
  Statement count(db_, "SELECT count(*) FROM results");
  return One(&count);
}

}  // namespace coeval::evaluator
