// The evaluator's configuration (coeval-evaluator(8), configs/evaluator.yaml).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "evaluator/ledger/ledger.h"

namespace coeval::evaluator {

/// How one kind of job is submitted; empty fields are Slurm's defaults.
struct JobDirectives {
  std::string partition, qos, account, reservation;
  Seconds time_limit{3600};
  std::vector<std::string> extra_args;  // sbatch's own words.
};

struct EvaluatorConfig {
  std::filesystem::path work_dir;  // On a file system that compute nodes share.
  std::filesystem::path ledger;    // Default: work_dir/ledger.db
  std::filesystem::path suites;
  std::string socket;                  // Default: work_dir/evaluator.sock
  std::string listen = "127.0.0.1:0";  // Where workers reach us.
  std::string advertise;  // What they are told; default: http:// and the bound address.
  std::string coevald = "unix:/run/coeval/coevald.sock";
  std::string munge_socket;
  std::string worker;  // Default: coeval-worker beside our own program.
  bool follow_runs = true;

  bool staging = true;
  std::filesystem::path staging_root = "/dev/shm/coeval";  // `%n` is the node's name.
  Bytes staging_reserve = Mebibytes(1024), staging_mem_extra = Mebibytes(256);

  JobDirectives trial, metric, precursor;
  bool llm_options = true;
  std::uint32_t jobs_max = 64, trials_max = 16, metric_jobs_max = 4, fallback_gpus = 4;
  Milliseconds poll_interval{1000};
  Seconds lease{30}, placement_patience{30};
  double load_s = 10;  // A trial's model load, until measured.
  RetryLimits retries;
  std::vector<std::string> viewers;  // Users who may read, besides the owner and root.
};

Result<EvaluatorConfig> LoadConfig(const std::filesystem::path& file);
Result<EvaluatorConfig> ParseConfig(const std::string& text, const std::string& file);

}  // namespace coeval::evaluator
