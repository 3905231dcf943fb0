// The cluster as one consistent value: what Slurm said at one moment, in Slurm's words.
//
// Plain data without behaviour. Filled by slurm::Gateway, read by the pure libraries. Fields that
// mirror Slurm keep Slurm's spelling (slurm.h, scontrol show …). Memory is in mebibytes as in
// Slurm.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/units.h"

namespace coeval::cluster {

/// Slurm's job_id: unique for each element of an array as well.
struct JobId {
  std::uint32_t value = 0;
  friend auto operator<=>(const JobId&, const JobId&) = default;
};

/// Slurm's base job states; one that we do not know is kUnknown: keep watching.
enum class JobState {
  kPending,
  kRunning,
  kSuspended,
  kCompleted,
  kCancelled,
  kFailed,
  kTimeout,
  kNodeFail,
  kPreempted,
  kBootFail,
  kDeadline,
  kOutOfMemory,
  kUnknown,
};
/// As Slurm prints it: `PENDING`, `NODE_FAIL`…
std::string_view JobStateName(JobState state);
/// The reverse, for files and accounting output; also reads forms such as `CANCELLED by 1000`.
JobState ParseJobState(std::string_view name);
/// Completed, cancelled, failed…: it will not run again under this attempt.
bool IsFinished(JobState state);

struct Job {
  JobId id;
  JobId array_job_id;  // 0 when the job is no array element.
  std::optional<std::uint32_t> array_task_id;
  std::string name, user, account, partition, qos, reservation;
  std::uint32_t uid = 0;
  JobState state = JobState::kUnknown;
  bool completing = false;       // JOB_COMPLETING: its nodes are not free yet.
  bool requeue = false;          // Slurm may requeue it.
  std::string state_reason;      // `Resources`, `Priority`, `QOSMaxJobsPerUserLimit`…
  std::uint32_t priority = 0;    // 0: held.
  std::int32_t site_factor = 0;  // Without NICE_OFFSET.
  std::uint32_t num_nodes = 0, num_cpus = 0;
  std::uint32_t gpus = 0;              // gres/gpu of the whole job, asked or allocated.
  std::uint64_t memory_mb = 0;         // Of the whole job, asked or allocated.
  std::vector<std::string> nodes;      // Allocated.
  std::vector<std::string> req_nodes;  // --nodelist
  std::optional<TimePoint> submit_time, eligible_time, start_time,
      end_time;                       // start: expected when pending
  std::optional<Seconds> time_limit;  // nullopt: UNLIMITED
  std::uint32_t restart_cnt = 0;
  std::uint32_t exit_code = 0;  // As wait(2) gives it.
  std::string comment, admin_comment, dependency, std_out;
};

/// `17` or `12_3`: the name users know a job by, and the only one requeue may use (field case G39).
std::string DisplayId(const Job& job);

struct Node {
  std::string name;
  std::string state;  // Slurm's base state: `IDLE`, `MIXED`, `ALLOCATED`, `DOWN`…
  bool drained = false, down = false, maint = false, completing = false, not_responding = false;
  std::string reason;
  std::uint32_t cpus = 0, cpus_alloc = 0, gpus = 0, gpus_alloc = 0;
  std::uint64_t real_memory_mb = 0, alloc_memory_mb = 0;
  std::optional<std::uint64_t> free_memory_mb;  // What the node's kernel says is free.
  std::optional<double> cpu_load;
  std::vector<std::string> partitions, features;
};
/// Can a new job start there (neither down, drained, in maintenance nor silent)?
bool IsUsable(const Node& node);

struct Partition {
  std::string name;
  bool up = true, is_default = false;
  std::vector<std::string> nodes, allow_qos, allow_accounts;  // Empty allow_*: everyone.
  std::optional<std::uint32_t> max_cpus_per_node;
  std::optional<std::uint64_t> max_mem_per_node_mb;
  std::optional<Seconds> max_time;
  std::uint16_t priority_tier = 1;
};

struct Reservation {
  std::string name;
  TimePoint start_time, end_time;
  std::vector<std::string> nodes, users, accounts;
  std::string flags;
};

struct Snapshot {
  TimePoint time;           // When Slurm answered.
  std::vector<Job> jobs;    // By id.
  std::vector<Node> nodes;  // In Slurm's order.
  std::vector<Partition> partitions;
  std::vector<Reservation> reservations;
};

/// nullptr when there is none.
const Job* FindJob(const Snapshot& snapshot, JobId id);
const Node* FindNode(const Snapshot& snapshot, std::string_view name);
const Partition* FindPartition(const Snapshot& snapshot, std::string_view name);

/// Expands a Slurm hostlist such as `n[1-3,7],gpu01`; at most 100,000 names.
std::vector<std::string> ExpandHostlist(std::string_view hostlist);

}  // namespace coeval::cluster
