#include "common/slurm/twin_gateway.h"

#include <algorithm>

namespace coeval::slurm {
namespace {

using cluster::Job;
using cluster::JobId;
using cluster::JobState;
using cluster::Node;

// What a job takes of each of its nodes: an even share, rounded up.
std::uint64_t PerNode(std::uint64_t total, std::uint32_t nodes) {
  return (total + std::max(nodes, 1u) - 1) / std::max(nodes, 1u);
}

bool Fits(const Job& job, const Node& node) {
  if (!cluster::IsUsable(node)) return false;
  const auto& wanted = job.req_nodes;
  if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), node.name) == wanted.end()) {
    return false;
  }
  const auto& parts = node.partitions;
  if (!job.partition.empty() && !parts.empty() &&
      std::find(parts.begin(), parts.end(), job.partition) == parts.end()) {
    return false;
  }
  return node.cpus_alloc + PerNode(job.num_cpus, job.num_nodes) <= node.cpus &&
         node.gpus_alloc + PerNode(job.gpus, job.num_nodes) <= node.gpus &&
         node.alloc_memory_mb + PerNode(job.memory_mb, job.num_nodes) <= node.real_memory_mb;
}

void Take(const Job& job, Node* node) {
  node->cpus_alloc += static_cast<std::uint32_t>(PerNode(job.num_cpus, job.num_nodes));
  node->gpus_alloc += static_cast<std::uint32_t>(PerNode(job.gpus, job.num_nodes));
  node->alloc_memory_mb += PerNode(job.memory_mb, job.num_nodes);
}

void Give(const Job& job, Node* node) {
  const auto less = [](auto& value, std::uint64_t by) {
    value = static_cast<std::decay_t<decltype(value)>>(value - std::min<std::uint64_t>(value, by));
  };
  less(node->cpus_alloc, PerNode(job.num_cpus, job.num_nodes));
  less(node->gpus_alloc, PerNode(job.gpus, job.num_nodes));
  less(node->alloc_memory_mb, PerNode(job.memory_mb, job.num_nodes));
}

// Slurm's default for a job that sets none.
constexpr std::uint32_t kBasePriority = 1000;

}  // namespace

void TwinGateway::Inject(const std::string& verb, Fault fault) { faults_[verb].push_back(fault); }

void TwinGateway::AddNode(Node node) {
  if (node.state.empty()) node.state = "IDLE";
  state_.nodes.push_back(std::move(node));
}
void TwinGateway::AddPartition(cluster::Partition partition) {
  state_.partitions.push_back(std::move(partition));
}
void TwinGateway::AddReservation(cluster::Reservation reservation) {
  state_.reservations.push_back(std::move(reservation));
}

JobId TwinGateway::AddJob(Job job) {
  if (job.id.value == 0) job.id.value = next_id_;
  next_id_ = std::max(next_id_, job.id.value + 1);
  const JobId id = job.id;
  for (const std::string& name : job.nodes) {
    if (Node* node = MutableNode(name); node != nullptr && job.state == JobState::kRunning) {
      Take(job, node);
    }
  }
  const auto at = std::find_if(state_.jobs.begin(), state_.jobs.end(),
                               [id](const Job& other) { return other.id > id; });
  state_.jobs.insert(at, std::move(job));
  return id;
}

Job* TwinGateway::MutableJob(JobId id) {
  for (Job& job : state_.jobs) {
    if (job.id == id) return &job;
  }
  return nullptr;
}

Node* TwinGateway::MutableNode(const std::string& name) {
  for (Node& node : state_.nodes) {
    if (node.name == name) return &node;
  }
  return nullptr;
}

void TwinGateway::Schedule() {
  for (Job& job : state_.jobs) {
    const bool over =
        job.state == JobState::kRunning && job.end_time && *job.end_time <= clock_.Now();
    if (over) Finish(job.id, JobState::kTimeout);
  }
  std::vector<Job*> pending;
  for (Job& job : state_.jobs) {
    if (job.state == JobState::kPending && job.priority > 0) pending.push_back(&job);
  }
  std::stable_sort(pending.begin(), pending.end(), [](const Job* a, const Job* b) {
    return std::int64_t{a->priority} + a->site_factor > std::int64_t{b->priority} + b->site_factor;
  });
  for (Job* job : pending) {
    if (!TryStart(*job)) job->state_reason = "Resources";
  }
}

bool TwinGateway::TryStart(Job& job) {
  std::vector<Node*> chosen;
  for (Node& node : state_.nodes) {
    if (chosen.size() < std::max(job.num_nodes, 1u) && Fits(job, node)) chosen.push_back(&node);
  }
  if (chosen.size() < std::max(job.num_nodes, 1u)) return false;
  job.nodes.clear();
  for (Node* node : chosen) {
    Take(job, node);
    job.nodes.push_back(node->name);
  }
  job.state = JobState::kRunning;
  job.state_reason = "None";
  job.start_time = clock_.Now();
  if (job.time_limit) job.end_time = clock_.Now() + *job.time_limit;
  return true;
}

void TwinGateway::Release(const Job& job) {
  for (const std::string& name : job.nodes) {
    if (Node* node = MutableNode(name)) Give(job, node);
  }
}

void TwinGateway::Finish(JobId id, JobState state, std::uint32_t exit_code) {
  Job* job = MutableJob(id);
  if (job == nullptr || cluster::IsFinished(job->state)) return;
  if (job->state == JobState::kRunning) Release(*job);
  job->state = state;
  job->exit_code = exit_code;
  job->end_time = clock_.Now();
}

int TwinGateway::Calls(const std::string& verb) const {
  const auto found = calls_.find(verb);
  return found == calls_.end() ? 0 : found->second;
}

std::optional<TwinGateway::Fault> TwinGateway::NextFault(const std::string& verb) {
  ++calls_[verb];
  auto& queue = faults_[verb];
  if (queue.empty()) return std::nullopt;
  const Fault fault = queue.front();
  queue.pop_front();
  return fault;
}

namespace {

// The error a fault is seen as; nullopt for one that is no error (kStale).
std::optional<Error> SeenAs(TwinGateway::Fault fault) {
  switch (fault) {
    case TwinGateway::Fault::kRefuse:
      return Error{ErrorCode::kPermissionDenied, "slurmctld refused: Access/permission denied"};
    case TwinGateway::Fault::kBusy:
      return Error{ErrorCode::kUnavailable, "slurmctld does not answer"};
    case TwinGateway::Fault::kLimit:
      return Error{ErrorCode::kResourceExhausted, "QOSMaxSubmitJobPerUserLimit"};
    case TwinGateway::Fault::kDropReply:
    case TwinGateway::Fault::kDropRequest:
      return Error{ErrorCode::kUnknownOutcome, "slurmctld did not answer in time"};
    case TwinGateway::Fault::kStale:
      return std::nullopt;
  }
  return std::nullopt;
}

// A call: the fault that is due, if any, around the work.
template <class Work>
auto WithFault(std::optional<TwinGateway::Fault> fault, Work work) -> decltype(work()) {
  const auto error = fault ? SeenAs(*fault) : std::nullopt;
  if (!error) return work();
  if (fault == TwinGateway::Fault::kDropReply) {
    if (auto done = work(); !done) return done;
  }
  return Fail(*error);
}

Error NoSuchJob(const std::string& id) {
  return Error{ErrorCode::kNotFound, "job " + id + ": Invalid job id specified"};
}

}  // namespace

Result<cluster::Snapshot> TwinGateway::Load() {
  const auto fault = NextFault("load");
  if (fault == Fault::kStale) return previous_;
  return WithFault(fault, [&]() -> Result<cluster::Snapshot> {
    state_.time = clock_.Now();
    previous_ = state_;
    return state_;
  });
}

Result<std::vector<Job>> TwinGateway::LoadJobs() {
  return WithFault(NextFault("load"), [&]() -> Result<std::vector<Job>> { return state_.jobs; });
}

Result<JobId> TwinGateway::Submit(const BatchJob& batch) {
  return WithFault(NextFault("submit"), [&]() -> Result<JobId> {
    Job job;
    job.name = batch.name;
    job.account = batch.account;
    job.partition = batch.partition;
    job.qos = batch.qos;
    job.reservation = batch.reservation;
    job.dependency = batch.dependency;
    job.state = JobState::kPending;
    job.state_reason = "Priority";
    job.priority = kBasePriority;
    job.num_nodes = batch.nodes;
    job.num_cpus = batch.cpus_per_task * batch.nodes;
    job.gpus = batch.gpus * batch.nodes;
    job.memory_mb = batch.mem_mb * batch.nodes;
    job.req_nodes = batch.req_nodes;
    job.time_limit = batch.time_limit;
    job.requeue = batch.requeue;
    job.comment = batch.key.empty() ? "" : KeyComment(batch.key);
    if (batch.use_llm_options && batch.tag.role) job.admin_comment = cluster::FormatTag(batch.tag);
    job.submit_time = job.eligible_time = clock_.Now();
    submitted_.push_back(batch);
    return AddJob(std::move(job));
  });
}

Result<> TwinGateway::Update(JobId id, const JobUpdate& update) {
  return WithFault(NextFault("update"), [&]() -> Result<> {
    Job* job = MutableJob(id);
    if (job == nullptr || cluster::IsFinished(job->state)) {
      return Fail(NoSuchJob(std::to_string(id.value)));
    }
    if (update.site_factor) job->site_factor = *update.site_factor;
    if (update.hold) job->priority = *update.hold ? 0 : kBasePriority;
    if (update.req_nodes) job->req_nodes = *update.req_nodes;
    if (update.time_limit) job->time_limit = update.time_limit;
    return {};
  });
}

Result<> TwinGateway::Cancel(JobId id) {
  return WithFault(NextFault("cancel"), [&]() -> Result<> {
    const Job* job = MutableJob(id);
    if (job == nullptr || cluster::IsFinished(job->state)) {
      return Fail(NoSuchJob(std::to_string(id.value)));
    }
    Finish(id, JobState::kCancelled);
    return {};
  });
}

Result<> TwinGateway::Requeue(const std::string& display_id) {
  return WithFault(NextFault("requeue"), [&]() -> Result<> {
    for (Job& job : state_.jobs) {
      if (cluster::DisplayId(job) != display_id) continue;
      if (job.state == JobState::kRunning) Release(job);
      job.state = JobState::kPending;
      job.state_reason = "BeginTime";
      job.nodes.clear();
      ++job.restart_cnt;
      return {};
    }
    return Fail(NoSuchJob(display_id));
  });
}

Result<std::string> TwinGateway::Ping() {
  return WithFault(NextFault("ping"),
                   []() -> Result<std::string> { return std::string("22.05.8"); });
}

}  // namespace coeval::slurm
