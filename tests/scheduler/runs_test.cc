#include "scheduler/policy/runs.h"

#include <gtest/gtest.h>

namespace coeval::scheduler {
namespace {

const TimePoint kNow{Milliseconds{1'000'000'000}};

cluster::Job Training(std::uint32_t id, cluster::JobState state, const std::string& run = "r7") {
  cluster::Job job;
  job.id = {id};
  job.uid = 1001;
  job.user = "alice";
  job.state = state;
  job.admin_comment = R"({"coeval":1,"role":"pretrain","run":")" + run + R"(","checkpoints":"/c"})";
  return job;
}

TEST(CollectRuns, OneRunAcrossRestartsAndTheRunningJobSpeaks) {
  cluster::Snapshot snapshot;
  snapshot.jobs = {Training(1, cluster::JobState::kFailed),
                   Training(2, cluster::JobState::kRunning)};
  const auto runs = CollectRuns(snapshot, {}, Seconds{3600}, kNow);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].state, "running");
  EXPECT_EQ(runs[0].jobs.size(), 2u);
}

TEST(CollectRuns, FollowsTheFolderOfTheJobThatRunsElseOfTheNewest) {
  const auto with_folder = [](std::uint32_t id, cluster::JobState state,
                              const std::string& folder) {
    cluster::Job job = Training(id, state);
    job.admin_comment =
        R"({"coeval":1,"role":"pretrain","run":"r7","checkpoints":")" + folder + R"("})";
    return job;
  };
  using cluster::JobState;
  cluster::Snapshot snapshot;
  snapshot.jobs = {with_folder(1, JobState::kFailed, "/old"),
                   with_folder(2, JobState::kCompleted, "/new")};
  EXPECT_EQ(CollectRuns(snapshot, {}, Seconds{3600}, kNow)[0].tag.checkpoints, "/new");
  snapshot.jobs = {with_folder(1, JobState::kRunning, "/now"),
                   with_folder(2, JobState::kPending, "/next")};
  EXPECT_EQ(CollectRuns(snapshot, {}, Seconds{3600}, kNow)[0].tag.checkpoints, "/now");
}

TEST(CollectRuns, SameNameOfAnotherUserIsAnotherRun) {
  cluster::Snapshot snapshot;
  snapshot.jobs = {Training(1, cluster::JobState::kRunning),
                   Training(2, cluster::JobState::kRunning)};
  snapshot.jobs[1].uid = 1002;
  EXPECT_EQ(CollectRuns(snapshot, {}, Seconds{3600}, kNow).size(), 2u);
}

TEST(CollectRuns, EndedRunsStayForAWhileEvenWhenSlurmForgets) {
  cluster::Snapshot snapshot;
  snapshot.jobs = {Training(1, cluster::JobState::kRunning)};
  auto runs = CollectRuns(snapshot, {}, Seconds{3600}, kNow);
  snapshot.jobs.clear();
  runs = CollectRuns(snapshot, runs, Seconds{3600}, kNow + Seconds{10});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].state, "ended");
  EXPECT_TRUE(CollectRuns(snapshot, runs, Seconds{3600}, kNow + Seconds{3601}).empty());
}

TEST(CollectRuns, IgnoresEvaluationAndForeignJobs) {
  cluster::Snapshot snapshot;
  snapshot.jobs = {Training(1, cluster::JobState::kRunning)};
  snapshot.jobs[0].admin_comment = R"({"coeval":1,"role":"eval","run":"r7"})";
  EXPECT_TRUE(CollectRuns(snapshot, {}, Seconds{3600}, kNow).empty());
}

}  // namespace
}  // namespace coeval::scheduler
