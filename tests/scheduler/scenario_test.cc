// Runs tests/scenarios/*.yaml: a cluster, its jobs and a policy in; actions, offer and explanations
// out. The files are written for administrators to read.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "common/yaml/reader.h"
#include "scheduler/capacity/capacity.h"
#include "scheduler/config/policy_file.h"
#include "scheduler/policy/decide.h"
#include "scheduler/policy/runs.h"

namespace coeval::scheduler {
namespace {

using cluster::Job;
using cluster::JobState;

const TimePoint kNow{Milliseconds{1'700'000'000'000}};
constexpr std::int64_t kMax = 1'000'000'000;

struct Scenario {
  std::string name;
  Policy policy;
  cluster::Snapshot snapshot;
};

cluster::Node ReadNode(const yaml::Value& value) {
  yaml::Map map = value.AsMap();
  cluster::Node node;
  node.name = map.RequireString("name");
  node.cpus = static_cast<std::uint32_t>(map.Int("cpus", 0, kMax, 64));
  node.gpus = static_cast<std::uint32_t>(map.Int("gpus", 0, kMax, 8));
  node.real_memory_mb = static_cast<std::uint64_t>(map.Int("mem_mb", 0, kMax, 1'000'000));
  node.cpus_alloc = static_cast<std::uint32_t>(map.Int("cpus_used", 0, kMax, 0));
  node.gpus_alloc = static_cast<std::uint32_t>(map.Int("gpus_used", 0, kMax, 0));
  node.alloc_memory_mb = static_cast<std::uint64_t>(map.Int("mem_used_mb", 0, kMax, 0));
  node.drained = map.Bool("drained", false);
  node.down = map.Bool("down", false);
  node.partitions = map.Strings("partitions");
  if (node.partitions.empty()) node.partitions = {"gpu", "lend"};
  map.Finish();
  return node;
}

Job ReadJob(const yaml::Value& value) {
  yaml::Map map = value.AsMap();
  Job job;
  job.id = {static_cast<std::uint32_t>(map.Int("id", 1, kMax, 1))};
  job.name = map.String("name", "job");
  job.user = map.String("user", "alice");
  job.qos = map.String("qos", "normal");
  job.account = map.String("account", "llm");
  job.partition = map.String("partition", "gpu");
  job.state =
      cluster::ParseJobState(map.Choice("state", {"PENDING", "RUNNING", "COMPLETED"}, "PENDING"));
  job.state_reason = map.String("reason", job.state == JobState::kPending ? "Priority" : "None");
  job.priority = static_cast<std::uint32_t>(map.Int("priority", 0, kMax, 1000));
  job.site_factor = static_cast<std::int32_t>(map.Int("site_factor", -kMax, kMax, 0));
  job.gpus = static_cast<std::uint32_t>(map.Int("gpus", 0, kMax, 1));
  job.num_cpus = static_cast<std::uint32_t>(map.Int("cpus", 0, kMax, 1));
  job.memory_mb = static_cast<std::uint64_t>(map.Int("mem_mb", 0, kMax, 0));
  job.nodes = map.Strings("nodes");
  job.num_nodes = static_cast<std::uint32_t>(std::max<std::size_t>(job.nodes.size(), 1));
  job.submit_time = job.eligible_time = kNow - Seconds{map.Int("waited_s", 0, kMax, 0)};
  job.admin_comment = map.String("tag", "");
  map.Finish();
  return job;
}

void CheckActions(yaml::Map* expect, const Plan& plan) {
  const auto wanted = expect->Find("actions");
  if (!wanted) return;
  const auto list = wanted->AsList();
  EXPECT_EQ(plan.actions.size(), list.size());
  for (const yaml::Value& value : list) {
    yaml::Map one = value.AsMap();
    const auto id = static_cast<std::uint32_t>(one.Int("job", 1, kMax, 1));
    const auto action = std::find_if(plan.actions.begin(), plan.actions.end(),
                                     [id](const auto& a) { return a.id.value == id; });
    if (action == plan.actions.end()) {
      ADD_FAILURE() << "no action for job " << id << ", " << value.Where();
      continue;
    }
    EXPECT_EQ(action->to, one.Int("site_factor", -kMax, kMax, 0)) << value.Where();
    const std::string because = one.String("because", "");
    EXPECT_NE(action->reason.find(because), std::string::npos)
        << value.Where() << ": " << action->reason;
    one.Finish();
  }
}

void CheckOffer(yaml::Map* expect, const Offer& offer) {
  const auto wanted = expect->Find("offer");
  if (!wanted) return;
  yaml::Map map = wanted->AsMap();
  if (map.Has("gpus")) {
    EXPECT_EQ(offer.gpus, map.Int("gpus", 0, kMax, 0)) << offer.reason;
  }
  EXPECT_NE(offer.reason.find(map.String("because", "")), std::string::npos) << offer.reason;
  if (const auto places = map.Find("places")) {
    std::vector<std::string> expected, actual;
    for (const yaml::Value& place : places->AsList()) expected.push_back(place.AsString());
    for (const Place& place : offer.places) {
      actual.push_back(place.source + " " + place.node + " gpus=" + std::to_string(place.gpus) +
                       " cpus=" + std::to_string(place.cpus));
    }
    EXPECT_EQ(actual, expected);
  }
  map.Finish();
}

void CheckExplanations(yaml::Map* expect, const Plan& plan) {
  for (const yaml::Value& value : expect->List("explain")) {
    yaml::Map one = value.AsMap();
    const auto id = static_cast<std::uint32_t>(one.Int("job", 1, kMax, 1));
    const auto view = std::find_if(plan.jobs.begin(), plan.jobs.end(),
                                   [id](const auto& v) { return v.id.value == id; });
    const std::string role = one.String("class", "");
    if (view == plan.jobs.end()) {
      EXPECT_EQ(role, "none") << "job " << id << ", " << value.Where();
      continue;
    }
    if (!role.empty()) {
      EXPECT_EQ(cluster::RoleName(view->classification.role), role) << value.Where();
    }
    EXPECT_NE(view->waits_for.find(one.String("waits_for", "")), std::string::npos)
        << view->waits_for;
    one.Finish();
  }
}

void CheckRuns(yaml::Map* expect, const cluster::Snapshot& snapshot, const Policy& policy) {
  const auto wanted = expect->Find("runs");
  if (!wanted) return;
  std::vector<std::string> actual;
  for (const Run& run : CollectRuns(snapshot, {}, policy.ended_run_keep, kNow))
    actual.push_back(run.run + " " + run.state);
  EXPECT_EQ(actual, wanted->AsStrings());
}

class ScenarioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, GivesTheExpectedPlan) {
  const auto document =
      yaml::Document::FromFile(std::filesystem::path(SCENARIOS) / (GetParam() + ".yaml"));
  ASSERT_TRUE(document) << document.error().message;
  yaml::Map top = document->Root().AsMap();
  top.RequireString("scenario");
  const auto policy = ParsePolicy(top.RequireString("policy"), "policy");
  ASSERT_TRUE(policy) << policy.error().message;
  cluster::Snapshot snapshot;
  snapshot.time = kNow;
  for (const yaml::Value& node : top.List("nodes")) snapshot.nodes.push_back(ReadNode(node));
  for (const yaml::Value& job : top.List("jobs")) snapshot.jobs.push_back(ReadJob(job));
  for (const yaml::Value& value : top.List("reservations")) {
    yaml::Map map = value.AsMap();
    cluster::Reservation reservation;
    reservation.name = map.RequireString("name");
    reservation.nodes = map.Strings("nodes");
    reservation.start_time = kNow - Seconds{60};
    reservation.end_time = kNow + Seconds{3600};
    snapshot.reservations.push_back(reservation);
    map.Finish();
  }
  cluster::Partition gpu, lend;
  gpu.name = "gpu";
  gpu.is_default = true;
  gpu.max_cpus_per_node = 48;
  lend.name = "lend";
  snapshot.partitions = {gpu, lend};

  const Plan plan = Decide(snapshot, *policy, kNow);
  yaml::Map expect = top.Require("expect").AsMap();
  CheckActions(&expect, plan);
  CheckOffer(&expect, FindCapacity(snapshot, *policy, plan, kNow));
  CheckExplanations(&expect, plan);
  CheckRuns(&expect, snapshot, *policy);
  expect.Finish();
  top.Finish();
  EXPECT_TRUE(document->Check()) << document->Check().error().message;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SCENARIOS))
    names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ScenarioTest, ::testing::ValuesIn(Names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace coeval::scheduler
