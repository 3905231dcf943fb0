#include "common/slurm/twin_gateway.h"

#include <gtest/gtest.h>

namespace coeval::slurm {
namespace {

using cluster::JobState;

class TwinTest : public ::testing::Test {
 protected:
  TwinTest() {
    for (const char* name : {"n1", "n2"}) {
      cluster::Node node;
      node.name = name;
      node.cpus = 8;
      node.gpus = 4;
      node.real_memory_mb = 1000;
      twin_.AddNode(node);
    }
  }
  cluster::JobId Submit(std::uint32_t gpus, const std::string& key = "") {
    BatchJob job;
    job.gpus = gpus;
    job.key = key;
    job.time_limit = Seconds{60};
    return *twin_.Submit(job);
  }
  JobState StateOf(cluster::JobId id) { return twin_.MutableJob(id)->state; }

  ManualClock clock_;
  TwinGateway twin_{clock_};
};

TEST_F(TwinTest, StartsJobsByPriorityWhereTheyFit) {
  const auto first = Submit(4), second = Submit(4), third = Submit(4);
  ASSERT_TRUE(twin_.Update(third, {.site_factor = 100}));
  twin_.Schedule();
  EXPECT_EQ(StateOf(third), JobState::kRunning);
  EXPECT_EQ(StateOf(first), JobState::kRunning);
  EXPECT_EQ(StateOf(second), JobState::kPending);
  EXPECT_EQ(twin_.MutableJob(second)->state_reason, "Resources");
}

TEST_F(TwinTest, GivesBackWhatAnEndedJobHeld) {
  const auto first = Submit(4), second = Submit(4), third = Submit(4);
  twin_.Schedule();
  twin_.Finish(first, JobState::kCompleted);
  twin_.Schedule();
  EXPECT_EQ(StateOf(second), JobState::kRunning);
  EXPECT_EQ(StateOf(third), JobState::kRunning);
}

TEST_F(TwinTest, EndsJobsAtTheirTimeLimit) {
  const auto job = Submit(1);
  twin_.Schedule();
  clock_.Advance(Seconds{61});
  twin_.Schedule();
  EXPECT_EQ(StateOf(job), JobState::kTimeout);
}

TEST_F(TwinTest, HoldsReleasesCancelsAndRequeues) {
  const auto job = Submit(1);
  ASSERT_TRUE(twin_.Update(job, {.hold = true}));
  twin_.Schedule();
  EXPECT_EQ(StateOf(job), JobState::kPending);
  ASSERT_TRUE(twin_.Update(job, {.hold = false}));
  twin_.Schedule();
  EXPECT_EQ(StateOf(job), JobState::kRunning);
  ASSERT_TRUE(twin_.Requeue(std::to_string(job.value)));
  EXPECT_EQ(twin_.MutableJob(job)->restart_cnt, 1u);
  ASSERT_TRUE(twin_.Cancel(job));
  EXPECT_EQ(twin_.Cancel(job).error().code, ErrorCode::kNotFound);
}

TEST_F(TwinTest, LosesTheReplyOfWorkThatWasDone) {
  twin_.Inject("submit", TwinGateway::Fault::kDropReply);
  BatchJob job;
  job.key = "k";
  EXPECT_EQ(twin_.Submit(job).error().code, ErrorCode::kUnknownOutcome);
  const auto jobs = twin_.LoadJobs();
  ASSERT_EQ(jobs->size(), 1u);
  EXPECT_EQ(KeyOf(jobs->front()), "k") << "it is found again by its key";
}

TEST_F(TwinTest, RefusesAndLies) {
  twin_.Inject("submit", TwinGateway::Fault::kDropRequest);
  EXPECT_FALSE(twin_.Submit({}));
  EXPECT_TRUE(twin_.LoadJobs()->empty());
  ASSERT_TRUE(twin_.Load());
  Submit(1);
  twin_.Inject("load", TwinGateway::Fault::kStale);
  EXPECT_TRUE(twin_.Load()->jobs.empty()) << "the snapshot of before";
  EXPECT_EQ(twin_.Load()->jobs.size(), 1u);
}

}  // namespace
}  // namespace coeval::slurm
