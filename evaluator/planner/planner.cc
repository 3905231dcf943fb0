#include "evaluator/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace coeval::evaluator {
namespace {

constexpr std::int64_t kMaxParts = 64;
// A dataset nobody has measured or described: a guess that neither hides nor dominates it.
constexpr double kUnknownCost = 30;

double InferenceCost(const DatasetCost& dataset) {
  const double cost = dataset.preprocess_s + dataset.inference_s;
  return cost > 0 ? cost : kUnknownCost;
}

bool IsMetricHeavy(const DatasetCost& dataset) { return dataset.metric_s > dataset.inference_s; }

// Metric-heavy ones first, by their metric; then by inference; ties as the suite lists them.
std::vector<std::size_t> Order(const std::vector<DatasetCost>& datasets) {
  std::vector<std::size_t> order(datasets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool heavy_a = IsMetricHeavy(datasets[a]), heavy_b = IsMetricHeavy(datasets[b]);
    if (heavy_a != heavy_b) return heavy_a;
    if (heavy_a) return datasets[a].metric_s > datasets[b].metric_s;
    return InferenceCost(datasets[a]) > InferenceCost(datasets[b]);
  });
  return order;
}

std::int64_t PartsOf(const DatasetCost& dataset, double even_share_s, double load_s) {
  if (!dataset.by_items && !dataset.by_shards) return 1;
  // Every part pays for preprocessing again, so a part must be worth it.
  const double least_part = std::max({even_share_s, load_s, 2 * dataset.preprocess_s});
  if (least_part <= 0 || dataset.inference_s <= least_part) return 1;
  auto parts = static_cast<std::int64_t>(std::ceil(dataset.inference_s / least_part));
  if (dataset.items > 0) parts = std::min(parts, dataset.items);
  return std::clamp<std::int64_t>(parts, 1, kMaxParts);
}

std::vector<PlannedShard> Cut(const DatasetCost& dataset, std::int64_t parts) {
  std::vector<PlannedShard> shards;
  const std::int64_t items = std::max<std::int64_t>(dataset.items, parts);
  const double cost = parts == 1
                          ? InferenceCost(dataset)
                          : dataset.preprocess_s + dataset.inference_s / static_cast<double>(parts);
  for (std::int64_t part = 0; part < parts; ++part) {
    shards.push_back({items * part / parts, items * (part + 1) / parts - 1, cost});
  }
  return shards;
}

}  // namespace

std::vector<PlannedDataset> PlanDatasets(const std::vector<DatasetCost>& datasets,
                                         std::uint32_t slots, double load_s) {
  double total = 0;
  for (const DatasetCost& dataset : datasets) total += InferenceCost(dataset);
  const double even_share = total / std::max(slots, 1u);
  std::vector<PlannedDataset> plan;
  for (const std::size_t index : Order(datasets)) {
    const DatasetCost& dataset = datasets[index];
    plan.push_back({dataset.name, static_cast<std::int64_t>(plan.size()),
                    Cut(dataset, slots > 1 ? PartsOf(dataset, even_share, load_s) : 1)});
  }
  return plan;
}

std::uint32_t FurtherTrials(const TrialDemand& demand) {
  if (demand.pending <= 0) return 0;
  const double per_trial = std::max(demand.load_s, 1.0);
  const auto worth = static_cast<std::int64_t>(std::ceil(demand.pending_s / per_trial));
  const std::int64_t wanted = std::clamp<std::int64_t>(worth, 1, demand.pending);
  return static_cast<std::uint32_t>(std::max<std::int64_t>(wanted - demand.active_trials, 0));
}

double FinishInSeconds(double remaining_inference_s, double remaining_metric_s,
                       std::uint32_t trials) {
  const double inference = remaining_inference_s / std::max(trials, 1u);
  // Metrics overlap inference; only what is longer than it shows.
  return std::max(inference, remaining_metric_s);
}

}  // namespace coeval::evaluator
