// The subcommands, a file each. They print and return the exit code of coeval(1).
#pragma once

#include <string>
#include <vector>

#include "cli/client.h"

namespace coeval::cli {

/// `only`: a run or campaign, or empty for all.
int Status(const Common& common, const std::string& only);

struct WatchOptions {
  std::string only;
  double interval_s = 1;
  bool until_done = false;
  double timeout_s = 0;  // 0: no limit.
};
int Watch(const Common& common, const WatchOptions& options);

struct ResultsOptions {
  std::string only, suite;
  bool csv = false;
};
int Results(const Common& common, const ResultsOptions& options);

struct EvalOptions {
  std::vector<std::string> suites, checkpoints;
  std::string name;
  bool wait = false;
};
int Eval(const Common& common, const EvalOptions& options);

/// A run, a campaign (`c-1`) or a job id.
int Cancel(const Common& common, const std::string& what);
int Jobs(const Common& common);
int Explain(const Common& common, const std::string& job_id);
int PolicyShow(const Common& common);
int PolicyReload(const Common& common);
int Doctor(const Common& common);
int Completion(const std::string& shell);

/// The text of `status` for one answer of the evaluator; shared with `watch`.
std::string StatusText(const Json& status, const std::string& only, bool noheader);
/// True when nothing of `only` (or of anything) is left to be done.
bool AllDone(const Json& status, const std::string& only);

}  // namespace coeval::cli
