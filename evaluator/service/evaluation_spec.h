// From suites to the ledger's evaluations, and from a leased piece of work to what a worker gets.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "evaluator/ledger/ledger.h"
#include "evaluator/suite/suite.h"

namespace coeval::evaluator {

/// Seconds that a dataset's stage took before under these settings; nullopt: use the suite's prior.
using CostLookup = std::function<std::optional<double>(
    const std::string& dataset, const std::string& settings, WorkStage stage)>;

/// A suite's evaluations of one checkpoint, ordered and split for `slots` trials at once. Each
/// carries everything a worker needs, so that an edited suite changes no work already entered.
std::vector<NewEvaluation> PlanSuite(const Suite& suite, const std::string& run,
                                     std::uint32_t slots, double load_s, const CostLookup& learned);

/// Tells suites apart by what they would enter.
std::string SuiteStamp(const Suite& suite);

struct LeaseContext {
  std::filesystem::path items_dir;  // Where work items' folders go.
  Seconds lease{30};
};

/// The lease as JSON (docs/api.md), all placeholders but {staged} filled.
std::string LeaseJson(const LeasedWork& work, const LeaseContext& context);

}  // namespace coeval::evaluator
