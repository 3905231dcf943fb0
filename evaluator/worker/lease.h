// What the evaluator hands a worker, and what the worker hands back. JSON as docs/api.md says.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval::evaluator {

struct Lease {
  std::int64_t item_id = 0, token = 0;
  std::string stage, checkpoint, fingerprint, dataset, version, run, suite, out, adapter;
  std::vector<std::string> argv;  // All placeholders filled but {staged}.
  std::map<std::string, std::string> env;
  std::vector<std::string> prelude, args, predictions;
  std::string result_reader;  // Empty: this stage brings no result.
  std::int64_t step = -1, shard = 0, shards = 1, first_item = 0, last_item = 0, items = 0, seed = 0;
  Seconds time_limit{3600}, lease_time{30};
};

/// A request for work that got none.
struct NoLease {
  bool done = false;  // Nothing is left to wait for.
  Milliseconds retry_after{1000};
};

struct LeaseAnswer {
  std::optional<Lease> lease;
  NoLease none;
};

Result<LeaseAnswer> ReadLeaseAnswer(const std::string& json);

/// How a piece of work went, as the worker reports it.
struct Report {
  std::int64_t item_id = 0, token = 0;
  std::string outcome;  // `done`, `failed` or `elsewhere`
  double seconds = 0;
  std::string out, error, log_tail;
  std::string result_json;  // The checked score, or empty.
};
std::string ReportJson(const Report& report);

}  // namespace coeval::evaluator
