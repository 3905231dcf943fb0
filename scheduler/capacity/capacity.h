// What evaluation may use now, and where. Pure.
//
// Idle GPUs: of usable nodes in partitions that are up, outside reservations, less what training
// that waits for resources needs. Lent CPUs and memory: what running training jobs leave on their
// nodes, as their --llm-lend said, in the partition that only evaluation may use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/cluster/snapshot.h"
#include "scheduler/policy/decide.h"
#include "scheduler/policy/policy.h"

namespace coeval::scheduler {

struct Place {
  std::string node, partition, source;  // source: `idle` or `lent`
  std::uint32_t gpus = 0, cpus = 0;
  std::uint64_t mem_mb = 0;
  std::string run, reason;
};

struct Offer {
  std::uint32_t gpus = 0;  // At most, over all places.
  std::uint32_t gpus_used = 0;
  std::optional<std::uint32_t> gpu_quota;
  std::string reason;         // Why not more.
  std::vector<Place> places;  // Most GPUs first, then by node.
};

Offer FindCapacity(const cluster::Snapshot& snapshot, const Policy& policy, const Plan& plan,
                   TimePoint now);

}  // namespace coeval::scheduler
