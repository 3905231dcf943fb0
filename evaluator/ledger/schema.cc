#include "evaluator/ledger/schema.h"

namespace coeval::evaluator {
namespace {

constexpr int kVersion = 1;

// Times are seconds since the epoch. An evaluation is one (checkpoint, dataset, settings); its
// pieces of work are the shards of its inference and its one metric.
constexpr char kTables[] = R"sql(
CREATE TABLE checkpoints (
  fingerprint TEXT PRIMARY KEY,
  path TEXT NOT NULL,
  step INTEGER,
  layout TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  complete_at REAL NOT NULL,
  entered_at REAL NOT NULL
) STRICT;

CREATE TABLE evaluations (
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL REFERENCES checkpoints,
  suite TEXT NOT NULL,
  dataset TEXT NOT NULL,
  version TEXT NOT NULL,
  settings TEXT NOT NULL,
  items INTEGER NOT NULL,
  run TEXT NOT NULL,
  spec TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed', 'cancelled')),
  created_at REAL NOT NULL,
  UNIQUE (fingerprint, dataset, version, settings)
) STRICT;

-- Who wants an evaluation: `run:<name>` or `campaign:<id>`.
CREATE TABLE owners (
  owner TEXT NOT NULL,
  evaluation INTEGER NOT NULL REFERENCES evaluations,
  PRIMARY KEY (owner, evaluation)
) STRICT, WITHOUT ROWID;
CREATE INDEX owners_by_evaluation ON owners (evaluation);

CREATE TABLE work (
  id INTEGER PRIMARY KEY,
  evaluation INTEGER NOT NULL REFERENCES evaluations,
  stage TEXT NOT NULL CHECK (stage IN ('inference', 'metric')),
  shard INTEGER NOT NULL,
  shards INTEGER NOT NULL,
  first_item INTEGER NOT NULL,
  last_item INTEGER NOT NULL,
  cost_s REAL NOT NULL,
  place INTEGER NOT NULL,          -- The planner's order; smaller first.
  state TEXT NOT NULL CHECK (state IN ('blocked', 'pending', 'leased', 'done', 'failed',
                                       'cancelled')),
  token INTEGER NOT NULL DEFAULT 0,  -- The fencing token of the lease that counts.
  lease_expires REAL,
  job_id TEXT NOT NULL DEFAULT '',
  node TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0,  -- That failed by themselves.
  lost INTEGER NOT NULL DEFAULT 0,      -- Whose worker vanished or asked for another place.
  not_before REAL NOT NULL DEFAULT 0,
  out TEXT NOT NULL DEFAULT '',
  seconds REAL,
  error TEXT NOT NULL DEFAULT '',
  log_tail TEXT NOT NULL DEFAULT '',
  UNIQUE (evaluation, stage, shard)
) STRICT;
CREATE INDEX work_by_state ON work (state, stage, place);

CREATE TABLE attempts (
  token INTEGER PRIMARY KEY AUTOINCREMENT,
  work INTEGER NOT NULL REFERENCES work,
  job_id TEXT NOT NULL,
  node TEXT NOT NULL,
  worker TEXT NOT NULL,
  started_at REAL NOT NULL,
  ended_at REAL,
  outcome TEXT                      -- NULL while it runs.
) STRICT;

CREATE TABLE results (
  evaluation INTEGER PRIMARY KEY REFERENCES evaluations,
  primary_metric TEXT NOT NULL,
  value REAL NOT NULL,
  metrics TEXT NOT NULL,
  items INTEGER NOT NULL,
  known_at REAL NOT NULL,
  feedback_delay_s REAL NOT NULL
) STRICT;

CREATE TABLE campaigns (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  created_at REAL NOT NULL,
  suites TEXT NOT NULL,             -- JSON array
  paths TEXT NOT NULL,              -- JSON array
  cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Runs whose checkpoints are no longer wanted: someone cancelled them.
CREATE TABLE cancelled_runs (run TEXT PRIMARY KEY, at REAL NOT NULL) STRICT, WITHOUT ROWID;

-- Jobs we submit. The row is written before the submission, so that it can be found again.
CREATE TABLE jobs (
  key TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('trial', 'metric', 'precursor')),
  fingerprint TEXT NOT NULL,
  node TEXT NOT NULL,
  job_id TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL CHECK (state IN ('intent', 'submitted', 'ended')),
  gpus INTEGER NOT NULL,
  created_at REAL NOT NULL,
  start_at REAL,
  end_at REAL,
  outcome TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_state ON jobs (state);
)sql";

}  // namespace

Result<> PrepareSchema(sqlite3* db) {
  std::int64_t version = 0;
  {
    Statement read(db, "PRAGMA user_version");
    if (read.Step()) version = read.Int(0);
    if (auto sound = read.Status(); !sound) return sound;
  }
  if (version == kVersion) return {};
  if (version > kVersion) {
    return Fail(ErrorCode::kFailedPrecondition, "it was written by a newer coeval (schema " +
                                                    std::to_string(version) + ", this one knows " +
                                                    std::to_string(kVersion) + "); use that one");
  }
  Transaction transaction(db);
  if (auto begun = transaction.Status(); !begun) return begun;
  const std::string sql =
      std::string(kTables) + "PRAGMA user_version = " + std::to_string(kVersion) + ";";
  if (const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
      code != SQLITE_OK) {
    return Fail(SqliteError(db, code, "cannot make the tables"));
  }
  return transaction.Commit();
}

}  // namespace coeval::evaluator
