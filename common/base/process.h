// Child processes, started from an argv list (never through a shell) and waited for with a bound.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval {

using Environment = std::map<std::string, std::string>;

/// This process's environment.
Environment CurrentEnvironment();

/// The environment that a submitted job may start from: without what an enclosing allocation, MPI
/// launcher or training run left behind (SLURM_*, SBATCH_*, SRUN_*, PMI*, OMPI_*, RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_*, WANDB_*, MLFLOW_*, COEVAL_*), but with SLURM_CONF and with caches such as
/// HF_HOME kept. Field case E8.
Environment ScrubbedEnvironment(const Environment& from);

struct ProcessSpec {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH when it has no slash.
  Environment environment;        // The whole environment, nothing is inherited.
  std::string working_directory;  // Empty: the caller's.
  std::string stdout_path;        // Empty: captured by RunProcess, inherited by StartProcess.
  std::string stderr_path;        // As stdout_path; may name the same file.
  std::string stdin_text;         // Fed to RunProcess's child.
  int passed_fd = -1;             // A descriptor that the child keeps under the same number.
};

struct ProcessExit {
  int code = 0;            // Exit status, or 128 + signal as a shell counts.
  int signal = 0;          // The signal that ended it, or 0.
  bool timed_out = false;  // We ended it (SIGTERM, then SIGKILL to its process group).
  std::string out;         // Captured, at most 1 MiB each; the rest is read and dropped.
  std::string err;
};

/// Runs a process in its own process group to its end. Blocks; keep it off the event loop.
/// Errors: the program cannot be started. A non-zero exit is not an error.
Result<ProcessExit> RunProcess(const ProcessSpec& spec, Milliseconds timeout);

/// Starts a process in its own process group and returns its pid; the caller waits for it.
Result<pid_t> StartProcess(const ProcessSpec& spec);

}  // namespace coeval
