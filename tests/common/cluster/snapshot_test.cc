#include "common/cluster/snapshot.h"

#include <gtest/gtest.h>

namespace coeval::cluster {
namespace {

using Names = std::vector<std::string>;

TEST(ExpandHostlist, ReadsSlurmsForms) {
  EXPECT_EQ(ExpandHostlist("n1"), (Names{"n1"}));
  EXPECT_EQ(ExpandHostlist("n[1-3,7],gpu01"), (Names{"n1", "n2", "n3", "n7", "gpu01"}));
  EXPECT_EQ(ExpandHostlist("a[08-11]"), (Names{"a08", "a09", "a10", "a11"}));
  EXPECT_EQ(ExpandHostlist("r[1-2]n[1-2]x"), (Names{"r1n1x", "r1n2x", "r2n1x", "r2n2x"}));
  EXPECT_EQ(ExpandHostlist(""), Names{});
}

TEST(ExpandHostlist, BoundsWhatItMakes) {
  EXPECT_LE(ExpandHostlist("n[0-4294967295]").size(), 100000u);
  EXPECT_LE(ExpandHostlist("n[0-99999]m[0-99999]").size(), 100000u);
  EXPECT_EQ(ExpandHostlist("n[1"), (Names{"n[1"})) << "no bracket, no range";
}

TEST(JobStates, SurviveARoundTripAndReadAccountingForms) {
  for (const char* name : {"PENDING", "RUNNING", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"}) {
    EXPECT_EQ(JobStateName(ParseJobState(name)), name);
  }
  EXPECT_EQ(ParseJobState("CANCELLED by 1000"), JobState::kCancelled);
  EXPECT_EQ(ParseJobState("CANCELLED+"), JobState::kCancelled);
  EXPECT_EQ(ParseJobState("SOMETHING_NEW"), JobState::kUnknown);
  EXPECT_FALSE(IsFinished(JobState::kUnknown)) << "an unknown state is watched on";
}

TEST(DisplayId, NamesArrayElementsAsSlurmDoes) {
  Job job;
  job.id = JobId{17};
  EXPECT_EQ(DisplayId(job), "17");
  job.array_job_id = JobId{12};
  job.array_task_id = 3;
  EXPECT_EQ(DisplayId(job), "12_3");
}

}  // namespace
}  // namespace coeval::cluster
