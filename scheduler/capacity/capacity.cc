#include "scheduler/capacity/capacity.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace coeval::scheduler {
namespace {

using cluster::Job;
using cluster::JobState;
using cluster::Node;

std::set<std::string> ReservedNodes(const cluster::Snapshot& snapshot, TimePoint now) {
  std::set<std::string> reserved;
  for (const auto& reservation : snapshot.reservations) {
    const bool now_in_force = reservation.start_time <= now && now < reservation.end_time;
    if (now_in_force) reserved.insert(reservation.nodes.begin(), reservation.nodes.end());
  }
  return reserved;
}

// The node's partition for GPU work: the default one, else the first that is up and not for
// lending.
std::string GpuPartition(const cluster::Snapshot& snapshot, const Node& node,
                         const Policy& policy) {
  std::string chosen;
  for (const std::string& name : node.partitions) {
    const auto* partition = cluster::FindPartition(snapshot, name);
    if (name == policy.lend_partition || (partition != nullptr && !partition->up)) continue;
    if (chosen.empty() || (partition != nullptr && partition->is_default)) chosen = name;
  }
  return chosen;
}

template <class Number>
Number Less(Number from, Number by) {
  return from - std::min(from, by);
}

std::vector<Place> IdlePlaces(const cluster::Snapshot& snapshot, const Policy& policy,
                              TimePoint now) {
  const std::set<std::string> reserved = ReservedNodes(snapshot, now);
  std::vector<Place> places;
  for (const Node& node : snapshot.nodes) {
    if (!cluster::IsUsable(node) || node.completing || reserved.contains(node.name)) continue;
    Place place;
    place.node = node.name;
    place.partition = GpuPartition(snapshot, node, policy);
    if (place.partition.empty()) continue;
    const auto* partition = cluster::FindPartition(snapshot, place.partition);
    std::uint32_t cpus = node.cpus;
    std::uint64_t memory = node.real_memory_mb;
    if (partition != nullptr) {
      cpus = std::min(cpus, partition->max_cpus_per_node.value_or(cpus));
      memory = std::min(memory, partition->max_mem_per_node_mb.value_or(memory));
    }
    place.gpus = Less(node.gpus, node.gpus_alloc);
    place.cpus = Less(cpus, node.cpus_alloc);
    place.mem_mb = Less(memory, node.alloc_memory_mb);
    place.source = "idle";
    place.reason = "idle GPUs";
    if (place.gpus > 0 && place.cpus > 0) places.push_back(std::move(place));
  }
  return places;
}

// GPUs that training waits for and could soon take: they are not offered.
std::uint32_t TrainingNeeds(const cluster::Snapshot& snapshot, const Plan& plan) {
  std::uint32_t needed = 0;
  for (const JobView& view : plan.jobs) {
    const Job* job = cluster::FindJob(snapshot, view.id);
    const bool waits = job != nullptr && job->state == JobState::kPending && job->priority > 0 &&
                       (job->state_reason == "Resources" || job->state_reason == "Priority" ||
                        job->state_reason == "None");
    if (waits && IsTraining(view.classification.role)) needed += job->gpus;
  }
  return needed;
}

// What evaluation has of a node's lent part already.
void SubtractUsed(const cluster::Snapshot& snapshot, const Policy& policy, Place* place) {
  for (const Job& job : snapshot.jobs) {
    const bool there =
        job.state == JobState::kRunning && job.partition == policy.lend_partition &&
        std::find(job.nodes.begin(), job.nodes.end(), place->node) != job.nodes.end();
    if (!there) continue;
    const auto nodes = static_cast<std::uint32_t>(job.nodes.size());
    place->cpus = Less(place->cpus, job.num_cpus / nodes);
    place->mem_mb = Less(place->mem_mb, job.memory_mb / nodes);
  }
}

std::vector<Place> LentPlaces(const cluster::Snapshot& snapshot, const Policy& policy,
                              const Plan& plan) {
  std::vector<Place> places;
  if (!policy.lend_enabled) return places;
  std::map<std::string, std::pair<std::uint32_t, std::uint64_t>>
      given;  // Two jobs may share a node.
  for (const JobView& view : plan.jobs) {
    const Job* job = cluster::FindJob(snapshot, view.id);
    const auto& lend = view.classification.tag.lend;
    if (job == nullptr || job->state != JobState::kRunning || !lend ||
        !IsTraining(view.classification.role))
      continue;
    for (const std::string& name : job->nodes) {
      const Node* node = cluster::FindNode(snapshot, name);
      if (node == nullptr || !cluster::IsUsable(*node)) continue;
      Place place;
      place.node = name;
      place.partition = policy.lend_partition;
      place.cpus = lend->cpus;
      place.mem_mb = lend->mem_mb;
      SubtractUsed(snapshot, policy, &place);
      // Never more than what Slurm holds unallocated there, whatever the tag promised.
      auto& [cpus_given, mem_given] = given[name];
      place.cpus = std::min(place.cpus, Less(node->cpus, node->cpus_alloc + cpus_given));
      place.mem_mb =
          std::min(place.mem_mb, Less(node->real_memory_mb, node->alloc_memory_mb + mem_given));
      cpus_given += place.cpus;
      mem_given += place.mem_mb;
      place.source = "lent";
      place.run = view.classification.tag.run;
      place.reason = "lent by job " + cluster::DisplayId(*job) +
                     (place.run.empty() ? "" : " of run " + place.run);
      if (place.cpus > 0) places.push_back(std::move(place));
    }
  }
  return places;
}

}  // namespace

Offer FindCapacity(const cluster::Snapshot& snapshot, const Policy& policy, const Plan& plan,
                   TimePoint now) {
  Offer offer;
  offer.gpu_quota = policy.eval_gpu_quota;
  offer.gpus_used = plan.eval_gpus_used;
  offer.places = IdlePlaces(snapshot, policy, now);
  std::stable_sort(offer.places.begin(), offer.places.end(),
                   [](const Place& a, const Place& b) { return a.gpus > b.gpus; });
  std::uint32_t idle = 0;
  for (const Place& place : offer.places) idle += place.gpus;
  const std::uint32_t training = TrainingNeeds(snapshot, plan);
  offer.gpus = Less(idle, training);
  offer.reason = std::to_string(idle) + " GPUs are idle";
  if (training > 0) offer.reason += ", training waits for " + std::to_string(training);
  if (policy.eval_gpu_quota) {
    const std::uint32_t left = Less(*policy.eval_gpu_quota, plan.eval_gpus_used);
    if (left < offer.gpus) {
      offer.gpus = left;
      offer.reason += "; the quota of " + std::to_string(*policy.eval_gpu_quota) + " leaves " +
                      std::to_string(left);
    }
  }
  auto lent = LentPlaces(snapshot, policy, plan);
  offer.places.insert(offer.places.end(), lent.begin(), lent.end());
  return offer;
}

}  // namespace coeval::scheduler
