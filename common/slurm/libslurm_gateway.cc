#include "common/slurm/libslurm_gateway.h"

#include <pwd.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "common/base/log.h"
#include "common/slurm/sbatch.h"

// Exported by libslurm, but not declared in its public header.
extern "C" const char* slurm_job_reason_string(enum job_state_reason reason);

namespace coeval::slurm {
namespace {

using cluster::Job;
using cluster::JobId;
using cluster::JobState;
using cluster::Node;

constexpr Milliseconds kSubmitTime{60000};

std::string Text(const char* text) { return text != nullptr ? text : ""; }

std::vector<std::string> SplitComma(const char* text) {
  std::vector<std::string> parts;
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    if (comma != 0) parts.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return parts;
}

std::vector<std::string> Hosts(const char* hostlist) {
  const std::string text = Text(hostlist);
  return text == "(null)" ? std::vector<std::string>{} : cluster::ExpandHostlist(text);
}

std::optional<TimePoint> Time(time_t seconds) {
  if (seconds <= 0) return std::nullopt;
  return TimePoint{Seconds{seconds}};
}

// Minutes as Slurm keeps limits.
std::optional<Seconds> Limit(std::uint32_t minutes) {
  if (minutes == INFINITE || minutes == NO_VAL) return std::nullopt;
  return Seconds{std::int64_t{minutes} * 60};
}

// The value of `key` in a TRES string such as `cpu=4,mem=2G,node=1,gres/gpu=8`.
std::string_view TresValue(std::string_view tres, std::string_view key) {
  while (!tres.empty()) {
    const auto comma = tres.find(',');
    const std::string_view pair = tres.substr(0, comma);
    if (pair.size() > key.size() && pair.starts_with(key) && pair[key.size()] == '=') {
      return pair.substr(key.size() + 1);
    }
    if (comma == std::string_view::npos) break;
    tres.remove_prefix(comma + 1);
  }
  return {};
}

std::uint32_t Count(std::string_view text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// GPUs in a node's GRES string: `gpu:a100:8(S:0-1)`, `gpu:2(IDX:0-1)`, `nic:1,gpu:a100:4`.
std::uint32_t GpusOfGres(const char* gres) {
  std::uint32_t gpus = 0;
  std::string plain;
  int depth = 0;
  for (const char c : Text(gres)) {  // Commas inside parentheses separate indexes.
    if (c == '(') ++depth;
    if (depth == 0) plain += c;
    if (c == ')') --depth;
  }
  for (const std::string& one : SplitComma(plain.c_str())) {
    if (!one.starts_with("gpu")) continue;
    const auto colon = one.rfind(':');
    gpus += colon == std::string::npos ? 1 : Count(std::string_view(one).substr(colon + 1));
  }
  return gpus;
}

JobState StateOf(std::uint32_t job_state) {
  switch (job_state & JOB_STATE_BASE) {
    case JOB_PENDING:
      return JobState::kPending;
    case JOB_RUNNING:
      return JobState::kRunning;
    case JOB_SUSPENDED:
      return JobState::kSuspended;
    case JOB_COMPLETE:
      return JobState::kCompleted;
    case JOB_CANCELLED:
      return JobState::kCancelled;
    case JOB_FAILED:
      return JobState::kFailed;
    case JOB_TIMEOUT:
      return JobState::kTimeout;
    case JOB_NODE_FAIL:
      return JobState::kNodeFail;
    case JOB_PREEMPTED:
      return JobState::kPreempted;
    case JOB_BOOT_FAIL:
      return JobState::kBootFail;
    case JOB_DEADLINE:
      return JobState::kDeadline;
    case JOB_OOM:
      return JobState::kOutOfMemory;
    default:
      return JobState::kUnknown;
  }
}

// slurmctld leaves the name out; looking it up once per uid is what squeue does.
class UserNames {
 public:
  const std::string& Of(uid_t uid) {
    const auto [entry, added] = names_.try_emplace(uid);
    if (added) entry->second = LookUp(uid);
    return entry->second;
  }

 private:
  static std::string LookUp(uid_t uid) {
    char buffer[4096];
    passwd record{};
    passwd* found = nullptr;
    if (getpwuid_r(uid, &record, buffer, sizeof buffer, &found) == 0 && found != nullptr) {
      return found->pw_name;
    }
    return std::to_string(uid);
  }
  std::map<uid_t, std::string> names_;
};

Job ReadJob(const slurm_job_info_t& raw, UserNames* names) {
  Job job;
  job.id = JobId{raw.job_id};
  job.array_job_id = JobId{raw.array_job_id};
  if (raw.array_task_id != NO_VAL) job.array_task_id = raw.array_task_id;
  job.name = Text(raw.name);
  job.uid = raw.user_id;
  job.user = names->Of(raw.user_id);
  job.account = Text(raw.account);
  job.partition = Text(raw.partition);
  job.qos = Text(raw.qos);
  job.reservation = Text(raw.resv_name);
  job.state = StateOf(raw.job_state);
  job.completing = (raw.job_state & JOB_COMPLETING) != 0;
  job.requeue = raw.requeue != 0;
  job.state_reason = Text(slurm_job_reason_string(static_cast<job_state_reason>(raw.state_reason)));
  job.priority = raw.priority;
  job.site_factor =
      static_cast<std::int32_t>(std::int64_t{raw.site_factor} - std::int64_t{NICE_OFFSET});
  job.num_nodes = raw.num_nodes;
  job.num_cpus = raw.num_cpus;
  const char* allocated = Text(raw.tres_alloc_str).empty() ? raw.tres_req_str : raw.tres_alloc_str;
  const std::string tres = Text(allocated);
  job.gpus = Count(TresValue(tres, "gres/gpu"));
  // Without AccountingStorageTRES=gres/gpu only the allocated GRES say it.
  if (job.gpus == 0) job.gpus = GpusOfGres(raw.gres_total);
  if (const auto memory = ParseSlurmSize(TresValue(tres, "mem"))) {
    job.memory_mb = ToMebibytes(*memory);
  }
  const bool has_nodes = job.state != JobState::kPending;
  if (has_nodes) job.nodes = Hosts(raw.nodes);
  job.req_nodes = Hosts(raw.req_nodes);
  job.submit_time = Time(raw.submit_time);
  job.eligible_time = Time(raw.eligible_time);
  job.start_time = Time(raw.start_time);
  job.end_time = Time(raw.end_time);
  job.time_limit = Limit(raw.time_limit);
  job.restart_cnt = raw.restart_cnt;
  job.exit_code = raw.exit_code;
  job.comment = Text(raw.comment);
  job.admin_comment = Text(raw.admin_comment);
  job.dependency = Text(raw.dependency);
  job.std_out = Text(raw.std_out);
  return job;
}

std::string NodeStateName(std::uint32_t state) {
  switch (state & NODE_STATE_BASE) {
    case NODE_STATE_DOWN:
      return "DOWN";
    case NODE_STATE_IDLE:
      return "IDLE";
    case NODE_STATE_ALLOCATED:
      return "ALLOCATED";
    case NODE_STATE_MIXED:
      return "MIXED";
    case NODE_STATE_FUTURE:
      return "FUTURE";
    case NODE_STATE_ERROR:
      return "ERROR";
    default:
      return "UNKNOWN";
  }
}

Node ReadNode(const node_info_t& raw) {
  constexpr std::uint32_t kPower =
      NODE_STATE_POWERED_DOWN | NODE_STATE_POWERING_DOWN | NODE_STATE_POWER_DOWN;
  const std::uint32_t state = raw.node_state;
  const std::uint32_t base = state & NODE_STATE_BASE;
  Node node;
  node.name = Text(raw.name);
  node.state = NodeStateName(state);
  node.drained = (state & (NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_INVALID_REG)) != 0;
  node.down = base == NODE_STATE_DOWN || base == NODE_STATE_FUTURE || base == NODE_STATE_UNKNOWN ||
              base == NODE_STATE_ERROR || (state & kPower) != 0;
  node.maint = (state & NODE_STATE_MAINT) != 0;
  node.completing = (state & NODE_STATE_COMPLETING) != 0;
  node.not_responding = (state & NODE_STATE_NO_RESPOND) != 0;
  node.reason = Text(raw.reason);
  node.cpus = raw.cpus_efctv != 0 && raw.cpus_efctv != NO_VAL16 ? raw.cpus_efctv : raw.cpus;
  node.gpus = GpusOfGres(raw.gres);
  node.gpus_alloc = GpusOfGres(raw.gres_used);
  node.real_memory_mb = raw.real_memory;
  std::uint16_t cpus_alloc = 0;
  std::uint64_t memory_alloc = 0;
  slurm_get_select_nodeinfo(raw.select_nodeinfo, SELECT_NODEDATA_SUBCNT, NODE_STATE_ALLOCATED,
                            &cpus_alloc);
  slurm_get_select_nodeinfo(raw.select_nodeinfo, SELECT_NODEDATA_MEM_ALLOC, NODE_STATE_ALLOCATED,
                            &memory_alloc);
  node.cpus_alloc = cpus_alloc;
  node.alloc_memory_mb = memory_alloc;
  if (raw.free_mem != NO_VAL64) node.free_memory_mb = raw.free_mem;
  if (raw.cpu_load != NO_VAL) node.cpu_load = raw.cpu_load / 100.0;
  node.features = SplitComma(raw.features_act);
  return node;
}

cluster::Partition ReadPartition(const partition_info_t& raw) {
  cluster::Partition partition;
  partition.name = Text(raw.name);
  partition.up = raw.state_up == PARTITION_UP;
  partition.is_default = (raw.flags & PART_FLAG_DEFAULT) != 0;
  partition.nodes = Hosts(raw.nodes);
  partition.allow_qos = SplitComma(raw.allow_qos);
  partition.allow_accounts = SplitComma(raw.allow_accounts);
  if (raw.max_cpus_per_node != INFINITE && raw.max_cpus_per_node != NO_VAL) {
    partition.max_cpus_per_node = raw.max_cpus_per_node;
  }
  // A value with MEM_PER_CPU set limits memory per CPU, not per node.
  const std::uint64_t memory = raw.max_mem_per_cpu;
  if (memory != 0 && memory != NO_VAL64 && (memory & MEM_PER_CPU) == 0) {
    partition.max_mem_per_node_mb = memory;
  }
  partition.max_time = Limit(raw.max_time);
  partition.priority_tier = raw.priority_tier;
  return partition;
}

cluster::Reservation ReadReservation(const reserve_info_t& raw) {
  cluster::Reservation reservation;
  reservation.name = Text(raw.name);
  reservation.start_time = Time(raw.start_time).value_or(TimePoint{});
  reservation.end_time = Time(raw.end_time).value_or(TimePoint{});
  reservation.nodes = Hosts(raw.node_list);
  reservation.users = SplitComma(raw.users);
  reservation.accounts = SplitComma(raw.accounts);
  if ((raw.flags & RESERVE_FLAG_MAINT) != 0) reservation.flags = "MAINT";
  return reservation;
}

ErrorCode CodeOfErrno(int number) {
  switch (number) {
    case SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR:
    case SLURM_COMMUNICATIONS_CONNECTION_ERROR:
    case ECONNREFUSED:
    case ESLURM_IN_STANDBY_MODE:
      return ErrorCode::kUnavailable;
    case SLURMCTLD_COMMUNICATIONS_SEND_ERROR:
    case SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR:
    case SLURMCTLD_COMMUNICATIONS_SHUTDOWN_ERROR:
    case SLURM_COMMUNICATIONS_SEND_ERROR:
    case SLURM_COMMUNICATIONS_RECEIVE_ERROR:
    case SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT:
    case ETIMEDOUT:
      return ErrorCode::kUnknownOutcome;
    case ESLURM_ACCESS_DENIED:
    case ESLURM_USER_ID_MISSING:
      return ErrorCode::kPermissionDenied;
    case ESLURM_INVALID_JOB_ID:
    case ESLURM_ALREADY_DONE:
    case ESLURM_JOB_FINISHED:
      return ErrorCode::kNotFound;
    case ESLURM_ACCOUNTING_POLICY:
      return ErrorCode::kResourceExhausted;
    case EAGAIN:
    case SLURM_PROTOCOL_AUTHENTICATION_ERROR:
    case ESLURM_AUTH_CRED_INVALID:
      return ErrorCode::kUnavailable;
    case ESLURM_DISABLED:
    case ESLURM_JOB_PENDING:
    case ESLURM_JOB_NOT_PENDING:
    case ESLURM_JOB_NOT_RUNNING:
    case ESLURM_TRANSITION_STATE_NO_UPDATE:
      return ErrorCode::kFailedPrecondition;
    default:
      return ErrorCode::kInvalidArgument;
  }
}

Error LastSlurmError(const std::string& what) {
  const int number = errno;
  return Error{CodeOfErrno(number), what + ": " + Text(slurm_strerror(number))};
}

// slurmctld sends nodes without their partitions; those name their nodes.
void NamePartitionsOfNodes(cluster::Snapshot* snapshot) {
  std::map<std::string_view, Node*> by_name;
  for (Node& node : snapshot->nodes) by_name[node.name] = &node;
  for (const cluster::Partition& partition : snapshot->partitions) {
    for (const std::string& name : partition.nodes) {
      const auto node = by_name.find(name);
      if (node != by_name.end()) node->second->partitions.push_back(partition.name);
    }
  }
}

// What slurmctld answered last to one kind of load: with its time as `update_time` the next call
// costs nothing when nothing changed.
template <class Message, void (*Free)(Message*)>
class Loaded {
 public:
  Loaded() = default;
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { Reset(nullptr); }

  /// nullptr until the first.
  const Message* Last() const { return message_; }

  /// `load(update_time, &message)` as libslurm's functions are.
  template <class Load>
  Result<const Message*> Refresh(const std::string& what, Load load) {
    Message* fresh = nullptr;
    if (load(message_ != nullptr ? message_->last_update : time_t{0}, &fresh) == SLURM_SUCCESS) {
      Reset(fresh);
      return message_;
    }
    if (errno == SLURM_NO_CHANGE_IN_DATA && message_ != nullptr) return message_;
    Error error = LastSlurmError("cannot load " + what);
    // Reading changes nothing, so a lost answer is as good as none.
    if (error.code == ErrorCode::kUnknownOutcome) error.code = ErrorCode::kUnavailable;
    return Fail(std::move(error));
  }

 private:
  void Reset(Message* message) {
    if (message_ != nullptr) Free(message_);
    message_ = message;
  }
  Message* message_ = nullptr;
};

class LibslurmGateway final : public Gateway {
 public:
  Result<cluster::Snapshot> Load() override {
    auto jobs = LoadJobs();
    if (!jobs) return Fail(jobs.error());
    const auto nodes = nodes_.Refresh("nodes", [](time_t since, node_info_msg_t** message) {
      return slurm_load_node(since, message, SHOW_ALL | SHOW_DETAIL | SHOW_MIXED);
    });
    if (!nodes) return Fail(nodes.error());
    const auto partitions =
        partitions_.Refresh("partitions", [](time_t since, partition_info_msg_t** message) {
          return slurm_load_partitions(since, message, SHOW_ALL);
        });
    if (!partitions) return Fail(partitions.error());
    const auto reservations =
        reservations_.Refresh("reservations", [](time_t since, reserve_info_msg_t** message) {
          return slurm_load_reservations(since, message);
        });
    if (!reservations) return Fail(reservations.error());

    cluster::Snapshot snapshot;
    snapshot.time = SystemClock().Now();
    snapshot.jobs = std::move(*jobs);
    const node_info_msg_t& node_message = **nodes;
    for (std::uint32_t i = 0; i < node_message.record_count; ++i) {
      const node_info_t& raw = node_message.node_array[i];
      if (raw.name != nullptr) snapshot.nodes.push_back(ReadNode(raw));  // A deleted node has none.
    }
    const partition_info_msg_t& partition_message = **partitions;
    for (std::uint32_t i = 0; i < partition_message.record_count; ++i) {
      snapshot.partitions.push_back(ReadPartition(partition_message.partition_array[i]));
    }
    NamePartitionsOfNodes(&snapshot);
    const reserve_info_msg_t& reservation_message = **reservations;
    for (std::uint32_t i = 0; i < reservation_message.record_count; ++i) {
      snapshot.reservations.push_back(ReadReservation(reservation_message.reservation_array[i]));
    }
    return snapshot;
  }

  Result<std::vector<Job>> LoadJobs() override {
    const auto message = jobs_.Refresh("jobs", [](time_t since, job_info_msg_t** fresh) {
      return slurm_load_jobs(since, fresh, SHOW_ALL);
    });
    if (!message) return Fail(message.error());
    std::vector<Job> jobs;
    jobs.reserve((*message)->record_count);
    for (std::uint32_t i = 0; i < (*message)->record_count; ++i) {
      jobs.push_back(ReadJob((*message)->job_array[i], &names_));
    }
    std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.id < b.id; });
    return jobs;
  }

  Result<JobId> Submit(const BatchJob& job) override {
    ProcessSpec spec;
    spec.argv = SbatchArguments(job);
    spec.environment = job.environment;
    if (const char* conf = std::getenv("SLURM_CONF")) spec.environment["SLURM_CONF"] = conf;
    spec.stdin_text = job.script;
    const auto exit = RunProcess(spec, kSubmitTime);
    if (!exit) return Fail(exit.error());
    auto id = ReadSbatchAnswer(*exit);
    if (id && !exit->err.empty()) {
      log::Warn("sbatch submitted the job and complained",
                {{"job_id", std::to_string(id->value)}, {"stderr", exit->err}});
    }
    return id;
  }

  Result<> Update(JobId id, const JobUpdate& update) override {
    job_desc_msg_t request;
    slurm_init_job_desc_msg(&request);
    request.job_id = id.value;
    std::string nodes;
    if (update.site_factor) {
      request.site_factor =
          static_cast<std::uint32_t>(std::int64_t{NICE_OFFSET} + *update.site_factor);
    }
    if (update.hold) request.priority = *update.hold ? 0 : INFINITE;
    if (update.req_nodes) {
      for (const std::string& node : *update.req_nodes) nodes += (nodes.empty() ? "" : ",") + node;
      request.req_nodes = nodes.data();
    }
    if (update.time_limit) {
      request.time_limit = static_cast<std::uint32_t>((update.time_limit->count() + 59) / 60);
    }
    if (slurm_update_job(&request) == SLURM_SUCCESS) return {};
    return Fail(LastSlurmError("cannot update job " + std::to_string(id.value)));
  }

  Result<> Cancel(JobId id) override {
    const std::string text = NameOf(id);
    // As scancel does: slurmctld sends SIGTERM first and SIGKILL after KillWait.
    if (slurm_kill_job2(text.c_str(), SIGKILL, 0, nullptr) == SLURM_SUCCESS) return {};
    return Fail(LastSlurmError("cannot cancel job " + text));
  }

  Result<> Requeue(const std::string& display_id) override {
    std::string text = display_id;
    job_array_resp_msg_t* answers = nullptr;
    const int status = slurm_requeue2(text.data(), 0, &answers);
    int failed = status == SLURM_SUCCESS ? 0 : errno;
    for (std::uint32_t i = 0; answers != nullptr && i < answers->job_array_count; ++i) {
      if (answers->error_code[i] != 0) failed = static_cast<int>(answers->error_code[i]);
    }
    if (answers != nullptr) slurm_free_job_array_resp(answers);
    if (failed == 0) return {};
    errno = failed;
    return Fail(LastSlurmError("cannot requeue job " + display_id));
  }

  Result<std::string> Ping() override {
    slurm_conf_t* conf = nullptr;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) {
      return Fail(ErrorCode::kUnavailable, LastSlurmError("slurmctld does not answer").message);
    }
    std::string version = Text(conf->version);
    slurm_free_ctl_conf(conf);
    return version;
  }

 private:
  // One element of an array has the array's own number: by that number alone, all would be meant.
  std::string NameOf(JobId id) const {
    const job_info_msg_t* message = jobs_.Last();
    for (std::uint32_t i = 0; message != nullptr && i < message->record_count; ++i) {
      const slurm_job_info_t& raw = message->job_array[i];
      if (raw.job_id != id.value || raw.array_task_id == NO_VAL) continue;
      return std::to_string(raw.array_job_id) + "_" + std::to_string(raw.array_task_id);
    }
    return std::to_string(id.value);
  }

  Loaded<job_info_msg_t, slurm_free_job_info_msg> jobs_;
  Loaded<node_info_msg_t, slurm_free_node_info_msg> nodes_;
  Loaded<partition_info_msg_t, slurm_free_partition_info_msg> partitions_;
  Loaded<reserve_info_msg_t, slurm_free_reservation_info_msg> reservations_;
  UserNames names_;
};

}  // namespace

Result<std::unique_ptr<Gateway>> OpenLibslurmGateway() {
  const char* named = std::getenv("SLURM_CONF");
  const std::string conf = named != nullptr ? named : "/etc/slurm/slurm.conf";
  if (::access(conf.c_str(), R_OK) != 0) {
    return Fail(ErrorCode::kNotFound,
                "cannot read Slurm's configuration " + conf + "; set SLURM_CONF to the file");
  }
  slurm_init(conf.c_str());
  return std::unique_ptr<Gateway>(std::make_unique<LibslurmGateway>());
}

}  // namespace coeval::slurm
