// coevald's cycle against the in-memory Slurm, and what it does when that refuses, stays away or
// lies.
#include "scheduler/daemon/cycle.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/files.h"
#include "common/slurm/twin_gateway.h"
#include "scheduler/config/policy_file.h"

namespace coeval::scheduler {
namespace {

namespace fs = std::filesystem;
using slurm::TwinGateway;

const char kPolicy[] = "policy: test\ncycle_interval_s: 2\nroles: {eval: {weight: 1000}}\n";

class CycleTest : public ::testing::Test {
 protected:
  CycleTest() {
    std::string pattern = ::testing::TempDir() + "cycle.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::ofstream(folder_ / "policy.yaml") << kPolicy;
    cycle_ = std::make_unique<Cycle>(*LoadPolicy(folder_ / "policy.yaml"),
                                     (folder_ / "policy.yaml").string(),
                                     Journal(folder_ / "journal.jsonl"), clock_.Now());
    cluster::Job job;
    job.state = cluster::JobState::kPending;
    job.priority = 1000;
    job.gpus = 1;
    job.state_reason = "Resources";
    job.admin_comment = R"({"coeval":1,"role":"eval"})";
    job_ = twin_.AddJob(job);
  }
  ~CycleTest() override { fs::remove_all(folder_); }

  std::size_t Run() {
    const auto actions = cycle_->OnLoaded(twin_.Load(), clock_.Now());
    std::vector<Applied> applied;
    for (const auto& action : actions)
      applied.push_back({action, twin_.Update(action.id, {.site_factor = action.to})});
    cycle_->OnApplied(applied, clock_.Now());
    clock_.Advance(Seconds{2});
    return actions.size();
  }
  std::int32_t Factor() { return twin_.MutableJob(job_)->site_factor; }

  ManualClock clock_{TimePoint{Milliseconds{1'700'000'000'000}}};
  TwinGateway twin_{clock_};
  fs::path folder_;
  std::unique_ptr<Cycle> cycle_;
  cluster::JobId job_;
};

TEST_F(CycleTest, SetsTheFactorOnceAndWritesItDown) {
  EXPECT_EQ(Run(), 1u);
  EXPECT_EQ(Factor(), 1000);
  EXPECT_EQ(Run(), 0u) << "what is right is left alone";
  const std::string journal = *ReadFile(folder_ / "journal.jsonl");
  EXPECT_NE(journal.find("weight of role eval"), std::string::npos);
  EXPECT_EQ(std::count(journal.begin(), journal.end(), '\n'), 1);
}

TEST_F(CycleTest, ARefusalOrALostRequestIsPlannedAgain) {
  twin_.Inject("update", TwinGateway::Fault::kRefuse);
  twin_.Inject("update", TwinGateway::Fault::kDropRequest);
  Run();
  Run();
  EXPECT_EQ(Factor(), 0);
  Run();
  EXPECT_EQ(Factor(), 1000);
  EXPECT_EQ(cycle_->Counts().updates_refused, 2u);
}

TEST_F(CycleTest, ALostReplyIsNotPlannedAgain) {
  twin_.Inject("update", TwinGateway::Fault::kDropReply);
  EXPECT_EQ(Run(), 1u);
  EXPECT_EQ(Run(), 0u);
}

TEST_F(CycleTest, DoesNothingWhileSlurmIsAwayAndBacksOff) {
  for (int i = 0; i < 5; ++i) twin_.Inject("load", TwinGateway::Fault::kBusy);
  const Seconds normal = cycle_->NextIn();
  EXPECT_EQ(Run(), 0u);
  EXPECT_FALSE(cycle_->SlurmUp());
  EXPECT_GT(cycle_->NextIn(), normal);
  for (int i = 0; i < 4; ++i) Run();
  EXPECT_LE(cycle_->NextIn(), Seconds{60});
  EXPECT_EQ(Run(), 1u);
  EXPECT_TRUE(cycle_->SlurmUp());
  EXPECT_EQ(cycle_->NextIn(), normal);
}

TEST_F(CycleTest, OneLoadACycle) {
  for (int i = 0; i < 10; ++i) Run();
  EXPECT_EQ(twin_.Calls("load"), 10);
}

TEST_F(CycleTest, ABadPolicyIsRefusedAndTheRunningOneStays) {
  std::ofstream(folder_ / "policy.yaml") << "policy: broken\nroles: {eval: {weight: x}}\n";
  const auto reloaded = cycle_->ReloadPolicy(clock_.Now());
  ASSERT_FALSE(reloaded);
  EXPECT_NE(reloaded.error().message.find("policy.yaml:2: weight is x"), std::string::npos);
  EXPECT_EQ(cycle_->CurrentPolicy().name, "test");
  std::ofstream(folder_ / "policy.yaml") << "policy: other\nroles: {eval: {weight: 50}}\n";
  ASSERT_TRUE(cycle_->ReloadPolicy(clock_.Now()));
  Run();
  EXPECT_EQ(Factor(), 50);
}

TEST_F(CycleTest, AJournalThatCannotBeWrittenStopsNothing) {
  fs::remove_all(folder_ / "journal.jsonl");
  fs::create_directories(folder_ / "journal.jsonl");
  EXPECT_EQ(Run(), 1u);
  EXPECT_EQ(Factor(), 1000);
}

}  // namespace
}  // namespace coeval::scheduler
