// The planner: in which order, in how many parts and by how many trials a checkpoint is evaluated.
//
// Pure: the same code serves the evaluator and the simulator. Costs are seconds on one trial's
// GPUs. Merging needs no plan of its own: a trial pulls datasets until none is left, so that small
// ones share its one model load (the study's section 6.2, third technique). Long CPU metrics go
// first, because their tail overlaps the inference of the rest; then the longest inference first,
// which beats the study's round-robin (Graham's LPT bound).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/units.h"

namespace coeval::evaluator {

struct DatasetCost {
  std::string name;
  double preprocess_s = 0, inference_s = 0, metric_s = 0;
  std::int64_t items = 0;                    // 0: not known.
  bool by_items = false, by_shards = false;  // How it may be split.
};

struct PlannedShard {
  std::int64_t first_item = 0, last_item = 0;
  double cost_s = 0;
};

struct PlannedDataset {
  std::string name;
  std::int64_t place = 0;            // 0 first.
  std::vector<PlannedShard> shards;  // At least one.
};

/// Orders datasets and splits those that alone would outlast the rest: with `slots` trials at once
/// no part should take longer than the even share of all work, but a part shorter than `load_s`,
/// what a trial spends before its first piece, is never worth its trial. At most 64 parts each.
std::vector<PlannedDataset> PlanDatasets(const std::vector<DatasetCost>& datasets,
                                         std::uint32_t slots, double load_s);

struct TrialDemand {
  std::int64_t pending = 0;  // Pieces of work nobody holds.
  double pending_s = 0;
  std::uint32_t active_trials = 0;  // Submitted or running for this checkpoint.
  double load_s = 0;                // What a trial spends before its first piece.
};

/// How many further trials are worth their model load: never more than pieces, and each must find
/// at least as much work as it spends loading. 0 when the active ones will do.
std::uint32_t FurtherTrials(const TrialDemand& demand);

/// When the outstanding work will be done by `trials` trials, and its metrics after it.
double FinishInSeconds(double remaining_inference_s, double remaining_metric_s,
                       std::uint32_t trials);

}  // namespace coeval::evaluator
