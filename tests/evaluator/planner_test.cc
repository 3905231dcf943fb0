#include "evaluator/planner/planner.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace coeval::evaluator {
namespace {

DatasetCost Cost(const std::string& name, double inference_s, double metric_s = 0,
                 std::int64_t items = 0) {
  DatasetCost cost;
  cost.name = name;
  cost.inference_s = inference_s;
  cost.metric_s = metric_s;
  cost.items = items;
  cost.by_items = items > 0;
  return cost;
}

std::vector<std::string> Names(const std::vector<PlannedDataset>& plan) {
  std::vector<std::string> names;
  for (const auto& one : plan) names.push_back(one.name);
  return names;
}

TEST(PlanDatasets, LongMetricsFirstThenLongestInference) {
  const auto plan = PlanDatasets(
      {Cost("short", 1), Cost("long", 9), Cost("code", 2, 30), Cost("judge", 1, 60)}, 1, 1);
  EXPECT_EQ(Names(plan), (std::vector<std::string>{"judge", "code", "long", "short"}));
}

TEST(PlanDatasets, SplitsOnlyWhatWouldOutlastTheRest) {
  const auto plan = PlanDatasets({Cost("big", 100, 0, 1000), Cost("small", 10, 0, 1000)}, 4, 1);
  EXPECT_EQ(plan[0].shards.size(), 4u);
  EXPECT_EQ(plan[1].shards.size(), 1u);
}

TEST(PlanDatasets, SplitsNothingForOneTrialNorWhatMayNotBe) {
  EXPECT_EQ(PlanDatasets({Cost("big", 100, 0, 1000)}, 1, 1)[0].shards.size(), 1u);
  EXPECT_EQ(PlanDatasets({Cost("whole", 100)}, 8, 1)[0].shards.size(), 1u);
}

TEST(PlanDatasets, NoPartIsShorterThanAModelLoad) {
  EXPECT_EQ(PlanDatasets({Cost("a", 10, 0, 1000)}, 16, 5)[0].shards.size(), 2u);
}

TEST(PlanDatasets, PropertyEveryItemIsInExactlyOnePart) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<DatasetCost> datasets;
    for (unsigned i = 0; i < 1 + random() % 8; ++i) {
      datasets.push_back(Cost("d" + std::to_string(i), random() % 500, random() % 100,
                              static_cast<std::int64_t>(random() % 50)));
    }
    const std::uint32_t slots = 1 + random() % 32;
    const auto plan = PlanDatasets(datasets, slots, random() % 20);
    ASSERT_EQ(plan.size(), datasets.size());
    EXPECT_EQ(Names(plan), Names(PlanDatasets(datasets, slots, 0)))
        << "the order does not depend on the splits";
    for (const auto& one : plan) {
      std::int64_t next = 0;
      for (const auto& shard : one.shards) {
        EXPECT_EQ(shard.first_item, next);
        EXPECT_GE(shard.last_item, shard.first_item);
        next = shard.last_item + 1;
      }
      EXPECT_LE(one.shards.size(), 64u);
    }
  }
}

TEST(FurtherTrials, AreWorthTheirLoadAndNeverMoreThanPieces) {
  EXPECT_EQ(FurtherTrials({0, 0, 0, 10}), 0u);
  EXPECT_EQ(FurtherTrials({1, 1, 0, 10}), 1u);
  EXPECT_EQ(FurtherTrials({63, 100, 0, 10}), 10u);
  EXPECT_EQ(FurtherTrials({63, 100, 4, 10}), 6u);
  EXPECT_EQ(FurtherTrials({3, 1000, 0, 10}), 3u);
  EXPECT_EQ(FurtherTrials({3, 1000, 8, 10}), 0u);
}

TEST(FinishInSeconds, TakesTheLongerOfInferenceAndMetrics) {
  EXPECT_DOUBLE_EQ(FinishInSeconds(40, 5, 4), 10);
  EXPECT_DOUBLE_EQ(FinishInSeconds(40, 50, 4), 50);
  EXPECT_DOUBLE_EQ(FinishInSeconds(40, 0, 0), 40);
}

}  // namespace
}  // namespace coeval::evaluator
