// The one door to Slurm: a snapshot in, a few verbs out.
//
// Two implementations: LibslurmGateway speaks to the real slurmctld, TwinGateway keeps a tiny Slurm
// in memory and can refuse, delay, drop and lie on demand. Calls block and may be made from one
// thread at a time; daemons keep them off the event loop.
//
// Errors every call may return: kUnavailable (slurmctld is away, nothing was done),
// kUnknownOutcome (timed out after sending: look before repeating), kPermissionDenied,
// kNotFound (no such job), kResourceExhausted (a limit that passes with time: QOS or association
// submit limit), kFailedPrecondition (not in the
// job's present state), kInvalidArgument (a limit that never passes, a bad request).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/process.h"
#include "common/base/result.h"
#include "common/cluster/snapshot.h"
#include "common/cluster/tag.h"

namespace coeval::slurm {

/// A batch job to submit. Empty or zero fields are left to Slurm's defaults.
struct BatchJob {
  std::string key;  // Unique; goes to the job's comment as `coeval:<key>`. Field case G26.
  std::string name, partition, qos, account, reservation, dependency;
  std::string script;                          // Whole text, starting `#!`.
  Environment environment;                     // The job's environment, already scrubbed.
  std::string working_directory, output_path;  // Output is appended to: field case G40.
  std::uint32_t nodes = 1, cpus_per_task = 1, gpus = 0;
  std::uint64_t mem_mb = 0;
  std::optional<Seconds> time_limit, time_min;
  std::vector<std::string> req_nodes, exclude_nodes;
  bool requeue = false;
  std::optional<Seconds>
      signal_before_end;  // SIGTERM to the batch shell this long before the limit.
  cluster::Tag tag;       // Passed as --llm-* options where `use_llm_options`.
  bool use_llm_options = true;
  std::vector<std::string> extra_args;  // The site's own sbatch arguments. Field case P7.
};

/// What to change of a job; fields left out stay.
struct JobUpdate {
  std::optional<std::int32_t> site_factor =
      std::nullopt;  // Added to the multifactor priority; ±NICE_OFFSET range.
  std::optional<bool> hold = std::nullopt;  // true: priority 0; false: release.
  std::optional<std::vector<std::string>> req_nodes =
      std::nullopt;  // Empty list: lift the restriction.
  std::optional<Seconds> time_limit = std::nullopt;
};

class Gateway {
 public:
  virtual ~Gateway() = default;

  /// Jobs, nodes, partitions and reservations, each by one RPC (or none where Slurm says that
  /// nothing changed).
  virtual Result<cluster::Snapshot> Load() = 0;
  /// Only the jobs: what an evaluator without a scheduler needs.
  virtual Result<std::vector<cluster::Job>> LoadJobs() = 0;
  virtual Result<cluster::JobId> Submit(const BatchJob& job) = 0;
  virtual Result<> Update(cluster::JobId id, const JobUpdate& update) = 0;
  /// SIGTERM, then SIGKILL after Slurm's KillWait. Cancelling what has ended is kNotFound.
  virtual Result<> Cancel(cluster::JobId id) = 0;
  /// `display_id` as DisplayId() gives it: an array element, never the whole array.
  virtual Result<> Requeue(const std::string& display_id) = 0;
  /// Is slurmctld there? A short answer for health checks: its version, as `22.05.8`.
  virtual Result<std::string> Ping() = 0;
};

/// The comment by which a submission is recognised again.
std::string KeyComment(const std::string& key);
/// The key in a job's comment; empty when the job is not ours.
std::string KeyOf(const cluster::Job& job);

}  // namespace coeval::slurm
