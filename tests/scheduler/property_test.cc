// Seeded random clusters: what must hold of every plan.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "scheduler/capacity/capacity.h"
#include "scheduler/policy/decide.h"

namespace coeval::scheduler {
namespace {

using cluster::Job;
using cluster::JobState;

const TimePoint kNow{Milliseconds{1'700'000'000'000}};

cluster::Snapshot RandomCluster(std::mt19937* random) {
  const auto pick = [&](unsigned n) { return static_cast<std::uint32_t>((*random)() % n); };
  cluster::Snapshot snapshot;
  snapshot.time = kNow;
  for (unsigned i = 0; i < 1 + pick(16); ++i) {
    cluster::Node node;
    node.name = "n" + std::to_string(i);
    node.cpus = 64;
    node.gpus = 8;
    node.real_memory_mb = 1'000'000;
    node.cpus_alloc = pick(65);
    node.gpus_alloc = pick(9);
    node.alloc_memory_mb = pick(1'000'001);
    node.drained = pick(8) == 0;
    node.partitions = {"gpu", "lend"};
    snapshot.nodes.push_back(node);
  }
  cluster::Partition gpu, lend;
  gpu.name = "gpu";
  gpu.is_default = true;
  gpu.max_cpus_per_node = 48;
  lend.name = "lend";
  snapshot.partitions = {gpu, lend};
  constexpr const char* kRoles[] = {"pretrain", "eval", "metric", "debug"};
  for (std::uint32_t id = 1; id <= pick(60); ++id) {
    Job job;
    job.id = {id};
    job.state = pick(2) == 0 ? JobState::kPending : JobState::kRunning;
    job.priority = 1000;
    job.gpus = pick(9);
    job.num_nodes = 1;
    job.site_factor = static_cast<std::int32_t>(pick(3)) * 500;
    job.submit_time = job.eligible_time = kNow - Seconds{pick(100000)};
    job.state_reason = pick(2) == 0 ? "Resources" : "Priority";
    if (job.state == JobState::kRunning)
      job.nodes = {snapshot.nodes[pick(static_cast<unsigned>(snapshot.nodes.size()))].name};
    if (pick(4) > 0) {
      job.admin_comment = std::string(R"({"coeval":1,"role":")") + kRoles[pick(4)] +
                          R"(","lend":{"cpus":16,"mem_mb":100000}})";
    }
    snapshot.jobs.push_back(job);
  }
  return snapshot;
}

Policy TestPolicy() {
  Policy policy;
  policy.roles[cluster::Role::kPretrain] = {2000, std::nullopt};
  policy.roles[cluster::Role::kEval] = {1000, Seconds{600}};
  policy.urgency_weight = 500;
  policy.ageing_per_hour = 100;
  policy.ageing_max = 2400;
  policy.eval_gpu_quota = 16;
  policy.over_quota_weight = -1500;
  policy.updates_per_cycle_max = 1000;
  return policy;
}

TEST(PlanProperties, HoldOnRandomClusters) {
  const Policy policy = TestPolicy();
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    cluster::Snapshot snapshot = RandomCluster(&random);
    const Plan plan = Decide(snapshot, policy, kNow);
    const Offer offer = FindCapacity(snapshot, policy, plan, kNow);

    // Only pending, classified jobs are touched.
    for (const auto& action : plan.actions) {
      const Job* job = cluster::FindJob(snapshot, action.id);
      ASSERT_NE(job, nullptr);
      EXPECT_EQ(job->state, JobState::kPending);
      EXPECT_TRUE(Classify(*job, policy));
      EXPECT_FALSE(action.reason.empty() && action.to != 0);
      EXPECT_LE(std::abs(action.to), 2000 + 500 + 2400 + 1500) << "no factor grows without bound";
    }
    // The quota holds, and no place offers what its node does not have.
    EXPECT_LE(offer.gpus + std::min(offer.gpus_used, 16u), 16u);
    std::uint32_t gpus = 0;
    std::map<std::string, std::uint32_t> lent;
    for (const Place& place : offer.places) {
      if (place.source == "lent") lent[place.node] += place.cpus;
      const auto* node = cluster::FindNode(snapshot, place.node);
      EXPECT_TRUE(cluster::IsUsable(*node));
      EXPECT_LE(place.gpus, node->gpus - node->gpus_alloc);
      EXPECT_LE(place.cpus + node->cpus_alloc, node->cpus);
      EXPECT_LE(place.mem_mb + node->alloc_memory_mb, node->real_memory_mb);
      gpus += place.gpus;
    }
    EXPECT_LE(offer.gpus, gpus);
    for (const auto& [name, cpus] : lent) {
      const auto* node = cluster::FindNode(snapshot, name);
      EXPECT_LE(cpus + node->cpus_alloc, node->cpus) << "nothing is lent twice";
    }
    // Same input, same plan; and a plan that is applied leaves nothing to do.
    const Plan again = Decide(snapshot, policy, kNow);
    ASSERT_EQ(again.actions.size(), plan.actions.size());
    for (std::size_t i = 0; i < plan.actions.size(); ++i)
      EXPECT_EQ(again.actions[i].to, plan.actions[i].to);
    for (const auto& action : plan.actions) {
      for (Job& job : snapshot.jobs) {
        if (job.id == action.id) job.site_factor = action.to;
      }
    }
    EXPECT_TRUE(Decide(snapshot, policy, kNow).actions.empty());
  }
}

TEST(PlanProperties, WaitOfTrainingIsBoundedByAgeing) {
  // A training job that has waited a day is ahead of any fresh evaluation, whatever comes.
  Policy policy = TestPolicy();
  policy.roles[cluster::Role::kPretrain].weight = 0;
  cluster::Snapshot snapshot;
  for (std::uint32_t id : {1u, 2u}) {
    Job job;
    job.id = {id};
    job.state = JobState::kPending;
    job.priority = 1000;
    job.submit_time = job.eligible_time = id == 1 ? kNow - Seconds{86400} : kNow - Seconds{600};
    job.admin_comment =
        id == 1 ? R"({"coeval":1,"role":"pretrain"})" : R"({"coeval":1,"role":"eval"})";
    snapshot.jobs.push_back(job);
  }
  const Plan plan = Decide(snapshot, policy, kNow);
  EXPECT_GT(plan.jobs[0].site_factor, plan.jobs[1].site_factor);
}

}  // namespace
}  // namespace coeval::scheduler
