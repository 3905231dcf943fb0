// A suite: a named set of datasets and how to run them, read from YAML (coeval-suite(5)).
//
// Plain values; parsing is at the edge, everything after it can rely on what is said here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval::evaluator {

/// How a stage runs: one process per piece of work, or one that is fed pieces of work.
enum class Adapter { kCommand, kSession };

/// May a dataset be cut, and how does the harness take a part?
enum class Split { kNone, kItems, kShards };

/// Expected cost on this suite's usual model. The evaluator learns better ones.
struct Priors {
  double preprocess_s = 0, inference_s = 0, metric_s = 0;
};

struct Stage {
  Adapter adapter = Adapter::kCommand;
  std::vector<std::string> argv;
  std::uint32_t gpus = 0, cpus = 1;
  std::uint64_t mem_mb = 1024;
  Seconds time_limit{3600};              // Of one work item.
  std::string result_reader = "coeval";  // Who reads the score file; metric stage only.
};

struct Dataset {
  std::string name, version;
  std::int64_t items = 0;  // 0: not known.
  Split split = Split::kNone;
  std::vector<std::string> args;  // Appended to both stages' argv.
  Priors priors;
};

struct Suite {
  std::string name, description, harness_name, harness_version;
  std::map<std::string, std::string> env;
  std::vector<std::string> prelude, secrets;
  std::int64_t seed = 0;
  Stage inference;
  std::optional<Stage> metric;  // Absent: inference writes the result itself.
  std::vector<Dataset> datasets;
};

/// Reads one suite. A fault names file and line.
Result<Suite> ParseSuite(const std::string& text, const std::string& file);
Result<Suite> LoadSuite(const std::filesystem::path& file);

/// The hash of everything that makes a score what it is, besides the weights: change one and it is
/// new work. 32 hexadecimal digits.
std::string SettingsHash(const Suite& suite, const Dataset& dataset);

bool IsName(const std::string& text);  // 1 to 64 of A-Za-z0-9._-

}  // namespace coeval::evaluator
