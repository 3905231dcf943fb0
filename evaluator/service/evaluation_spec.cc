#include "evaluator/service/evaluation_spec.h"

#include <nlohmann/json.hpp>

#include "evaluator/planner/planner.h"
#include "evaluator/suite/placeholders.h"

namespace coeval::evaluator {
namespace {

using Json = nlohmann::json;

Json StageJson(const Stage& stage) {
  return {{"adapter", stage.adapter == Adapter::kSession ? "session" : "command"},
          {"argv", stage.argv},
          {"gpus", stage.gpus},
          {"cpus", stage.cpus},
          {"mem_mb", stage.mem_mb},
          {"time_limit_s", stage.time_limit.count()},
          {"result_reader", stage.result_reader}};
}

std::string Spec(const Suite& suite, const Dataset& dataset) {
  Json spec = {{"inference", StageJson(suite.inference)},
               {"env", suite.env},
               {"prelude", suite.prelude},
               {"seed", suite.seed},
               {"args", dataset.args}};
  if (suite.metric) spec["metric"] = StageJson(*suite.metric);
  return spec.dump();
}

DatasetCost CostOf(const Suite& suite, const Dataset& dataset, const CostLookup& learned) {
  const std::string settings = SettingsHash(suite, dataset);
  DatasetCost cost;
  cost.name = dataset.name;
  cost.preprocess_s = dataset.priors.preprocess_s;
  cost.inference_s = dataset.priors.inference_s;
  cost.metric_s = dataset.priors.metric_s;
  cost.items = dataset.items;
  cost.by_items = dataset.split == Split::kItems;
  cost.by_shards = dataset.split == Split::kShards;
  if (const auto seconds = learned(dataset.name, settings, WorkStage::kInference)) {
    cost.preprocess_s = std::min(cost.preprocess_s, *seconds);
    cost.inference_s = *seconds - cost.preprocess_s;
  }
  if (const auto seconds = learned(dataset.name, settings, WorkStage::kMetric))
    cost.metric_s = *seconds;
  return cost;
}

const Dataset& DatasetOf(const Suite& suite, const std::string& name) {
  for (const Dataset& dataset : suite.datasets) {
    if (dataset.name == name) return dataset;
  }
  return suite.datasets.front();  // The plan names only datasets of the suite.
}

std::filesystem::path OutOf(const LeasedWork& work, const std::filesystem::path& items_dir) {
  return items_dir / work.fingerprint.substr(0, 16) / work.suite /
         (work.dataset + "-" + work.settings.substr(0, 8)) /
         (std::string(WorkStageName(work.stage)) + "-" + std::to_string(work.shard) + "." +
          std::to_string(work.token));
}

PlaceholderValues Values(const LeasedWork& work, const std::string& out, const Json& spec,
                         const Json& stage) {
  return {{"checkpoint", work.checkpoint},
          {"step", work.step ? std::to_string(*work.step) : ""},
          {"run", work.run},
          {"dataset", work.dataset},
          {"shard", std::to_string(work.shard)},
          {"shards", std::to_string(work.shards)},
          {"first_item", std::to_string(work.first_item)},
          {"last_item", std::to_string(work.last_item)},
          {"out", out},
          {"gpus", std::to_string(stage.value("gpus", 0))},
          {"seed", std::to_string(spec.value("seed", std::int64_t{0}))}};
}

}  // namespace

std::vector<NewEvaluation> PlanSuite(const Suite& suite, const std::string& run,
                                     std::uint32_t slots, double load_s,
                                     const CostLookup& learned) {
  std::vector<DatasetCost> costs;
  for (const Dataset& dataset : suite.datasets) costs.push_back(CostOf(suite, dataset, learned));
  std::vector<NewEvaluation> evaluations;
  for (const PlannedDataset& planned : PlanDatasets(costs, slots, load_s)) {
    const Dataset& dataset = DatasetOf(suite, planned.name);
    NewEvaluation evaluation;
    evaluation.dataset = dataset.name;
    evaluation.version = dataset.version;
    evaluation.settings = SettingsHash(suite, dataset);
    evaluation.items = dataset.items;
    evaluation.run = run;
    evaluation.spec = Spec(suite, dataset);
    evaluation.place = planned.place;
    for (const PlannedShard& shard : planned.shards) {
      evaluation.shards.push_back({shard.first_item, shard.last_item, shard.cost_s});
    }
    if (suite.metric) evaluation.metric_cost_s = CostOf(suite, dataset, learned).metric_s;
    evaluations.push_back(std::move(evaluation));
  }
  return evaluations;
}

std::string SuiteStamp(const Suite& suite) {
  std::string stamp = suite.name;
  for (const Dataset& dataset : suite.datasets)
    stamp += "\n" + dataset.name + " " + SettingsHash(suite, dataset);
  return stamp;
}

std::string LeaseJson(const LeasedWork& work, const LeaseContext& context) {
  const Json spec = Json::parse(work.spec);
  const bool is_metric = work.stage == WorkStage::kMetric;
  const Json& stage = spec.at(is_metric ? "metric" : "inference");
  const bool brings_result = is_metric || !spec.contains("metric");
  const std::string out = OutOf(work, context.items_dir).string();
  const PlaceholderValues values = Values(work, out, spec, stage);
  const auto args = Expand(spec.value("args", std::vector<std::string>{}), values);
  auto argv = Expand(stage.at("argv").get<std::vector<std::string>>(), values);
  const bool session = stage.at("adapter") == "session";
  if (!session) argv.insert(argv.end(), args.begin(), args.end());
  std::map<std::string, std::string> env;
  for (const auto& [name, value] : spec.at("env").items())
    env[name] = Expand(value.get<std::string>(), values);
  const Json lease = {
      {"item_id", work.work},
      {"token", work.token},
      {"expires_at", ToEpochSeconds(work.expires_at)},
      {"lease_s", context.lease.count()},
      {"stage", WorkStageName(work.stage)},
      {"checkpoint", work.checkpoint},
      {"fingerprint", work.fingerprint},
      {"step", work.step.value_or(-1)},
      {"run", work.run},
      {"suite", work.suite},
      {"dataset", work.dataset},
      {"version", work.version},
      {"shard", work.shard},
      {"shards", work.shards},
      {"first_item", work.first_item},
      {"last_item", work.last_item},
      {"items", work.items},
      {"seed", spec.value("seed", std::int64_t{0})},
      {"adapter", stage.at("adapter")},
      {"argv", argv},
      {"args", args},
      {"env", env},
      {"prelude", spec.value("prelude", std::vector<std::string>{})},
      {"predictions", work.predictions},
      {"out", out},
      {"time_limit_s", stage.at("time_limit_s")},
      {"result_reader", brings_result ? stage.value("result_reader", "coeval") : ""}};
  return Json{{"lease", lease}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace coeval::evaluator
