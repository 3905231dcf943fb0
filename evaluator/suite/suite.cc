#include "evaluator/suite/suite.h"

#include <algorithm>
#include <set>

#include "common/base/content_hash.h"
#include "common/base/files.h"
#include "common/yaml/reader.h"
#include "evaluator/suite/placeholders.h"

namespace coeval::evaluator {
namespace {

constexpr std::int64_t kMaxItems = 1'000'000'000;
constexpr std::size_t kMaxDatasets = 10000;
constexpr Seconds kMaxItemTime{7 * 86400};

// What a session's command line may name: it is started before it knows its first piece of work.
const std::vector<std::string_view>& SessionPlaceholders() {
  static const std::vector<std::string_view> kNames = {"checkpoint", "staged", "step",
                                                       "run",        "gpus",   "seed"};
  return kNames;
}

void CheckTexts(const yaml::Value& list, const std::vector<std::string_view>& allowed) {
  for (const yaml::Value& item : list.AsList()) {
    if (auto fine = CheckPlaceholders(item.AsString(), allowed); !fine) {
      item.Refuse(fine.error().message);
    }
  }
}

Stage ReadStage(const yaml::Value& value, bool is_metric) {
  yaml::Map map = value.AsMap();
  Stage stage;
  const std::vector<std::string> adapters = is_metric
                                                ? std::vector<std::string>{"command"}
                                                : std::vector<std::string>{"command", "session"};
  const bool session = map.Choice("adapter", adapters, "command") == "session";
  stage.adapter = session ? Adapter::kSession : Adapter::kCommand;
  const yaml::Value argv = map.Require("argv");
  stage.argv = argv.AsStrings();
  if (stage.argv.empty()) argv.Refuse("argv is empty; give the program and its arguments");
  CheckTexts(argv, session ? SessionPlaceholders() : KnownPlaceholders());
  stage.cpus = static_cast<std::uint32_t>(map.Int("cpus", 1, 1024, 1));
  stage.mem_mb = ToMebibytes(map.Size("mem", Mebibytes(1024)));
  stage.time_limit = map.Duration("time_limit", Seconds{1}, kMaxItemTime, Seconds{3600});
  if (is_metric) {
    stage.result_reader = map.Choice("result", {"coeval", "lm_eval"}, "coeval");
  } else {
    stage.gpus = static_cast<std::uint32_t>(map.Int("gpus", 0, 64, 1));
    stage.result_reader = map.Choice("result", {"coeval", "lm_eval"}, "coeval");
  }
  map.Finish();
  return stage;
}

Priors ReadPriors(yaml::Map* dataset) {
  Priors priors;
  const auto value = dataset->Find("priors");
  if (!value) return priors;
  yaml::Map map = value->AsMap();
  constexpr double kMost = 1e7;
  priors.preprocess_s = map.Double("preprocess_s", 0, kMost, 0);
  priors.inference_s = map.Double("inference_s", 0, kMost, 0);
  priors.metric_s = map.Double("metric_s", 0, kMost, 0);
  map.Finish();
  return priors;
}

Dataset ReadDataset(const yaml::Value& value) {
  yaml::Map map = value.AsMap();
  Dataset dataset;
  const yaml::Value name = map.Require("name");
  dataset.name = name.AsString();
  if (!IsName(dataset.name)) {
    name.Refuse("name is '" + dataset.name + "'; must be 1 to 64 of A-Za-z0-9._-");
  }
  dataset.version = map.String("version", "");
  dataset.items = map.Int("items", 0, kMaxItems, 0);
  const std::string split = map.Choice("split", {"none", "items", "shards"}, "none");
  dataset.split = split == "items"    ? Split::kItems
                  : split == "shards" ? Split::kShards
                                      : Split::kNone;
  if (dataset.split == Split::kItems && dataset.items == 0) {
    map.Refuse("split is 'items' but items is not given; say how many the dataset has");
  }
  if (const auto args = map.Find("args")) {
    dataset.args = args->AsStrings();
    CheckTexts(*args, KnownPlaceholders());
  }
  dataset.priors = ReadPriors(&map);
  map.Finish();
  return dataset;
}

void ReadDatasets(const yaml::Value& list, Suite* suite) {
  std::set<std::string> names;
  for (const yaml::Value& value : list.AsList()) {
    Dataset dataset = ReadDataset(value);
    if (!names.insert(dataset.name).second) {
      value.Refuse("dataset '" + dataset.name + "' is listed twice; keep one");
    }
    suite->datasets.push_back(std::move(dataset));
  }
  if (suite->datasets.empty()) list.Refuse("datasets is empty; list at least one");
  if (suite->datasets.size() > kMaxDatasets)
    list.Refuse("more than 10000 datasets; split the suite");
}

void ReadEnvironment(yaml::Map* top, Suite* suite) {
  suite->env = top->StringMap("env");
  if (const auto env = top->Find("env"); env && env->IsMap()) {
    yaml::Map map = env->AsMap();
    for (const std::string& key : map.Keys()) {
      const yaml::Value value = map.Require(key);
      if (auto fine = CheckPlaceholders(value.AsString(), KnownPlaceholders()); !fine) {
        value.Refuse(fine.error().message);
      }
    }
  }
  suite->prelude = top->Strings("prelude");
  suite->secrets = top->Strings("secrets");
  suite->seed = top->Int("seed", 0, INT64_C(1) << 53, 0);
}

Suite ReadSuite(yaml::Map* top) {
  Suite suite;
  const yaml::Value name = top->Require("suite");
  suite.name = name.AsString();
  if (!IsName(suite.name)) {
    name.Refuse("suite is '" + suite.name + "'; must be 1 to 64 of A-Za-z0-9._-");
  }
  suite.description = top->String("description", "");
  if (const auto harness = top->Find("harness")) {
    yaml::Map map = harness->AsMap();
    suite.harness_name = map.RequireString("name");
    suite.harness_version = map.String("version", "");
    map.Finish();
  }
  ReadEnvironment(top, &suite);
  yaml::Map stages = top->Require("stages").AsMap();
  suite.inference = ReadStage(stages.Require("inference"), false);
  if (const auto metric = stages.Find("metric")) suite.metric = ReadStage(*metric, true);
  stages.Finish();
  ReadDatasets(top->Require("datasets"), &suite);
  top->Finish();
  return suite;
}

void AddTexts(const std::vector<std::string>& texts, ContentHash* hash) {
  hash->AddText(std::to_string(texts.size()));
  for (const std::string& text : texts) hash->AddText(text);
}

}  // namespace

bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Result<Suite> ParseSuite(const std::string& text, const std::string& file) {
  auto document = yaml::Document::FromText(text, file);
  if (!document) return Fail(document.error());
  yaml::Map top = document->Root().AsMap();
  Suite suite = ReadSuite(&top);
  if (auto sound = document->Check(); !sound) return Fail(sound.error());
  return suite;
}

Result<Suite> LoadSuite(const std::filesystem::path& file) {
  auto text = ReadFile(file, Mebibytes(4));
  if (!text) return Fail(text.error());
  return ParseSuite(*text, file.string());
}

std::string SettingsHash(const Suite& suite, const Dataset& dataset) {
  ContentHash hash;
  hash.AddText("coeval settings 1");
  hash.AddText(suite.harness_name);
  hash.AddText(suite.harness_version);
  AddTexts(suite.inference.argv, &hash);
  AddTexts(suite.metric ? suite.metric->argv : std::vector<std::string>{}, &hash);
  hash.AddText(suite.metric ? suite.metric->result_reader : suite.inference.result_reader);
  AddTexts(suite.prelude, &hash);
  for (const auto& [name, value] : suite.env) hash.AddText(name + "=" + value);
  hash.AddText(std::to_string(suite.seed));
  hash.AddText(dataset.version);
  hash.AddText(std::to_string(dataset.items));
  AddTexts(dataset.args, &hash);
  return hash.Hex();
}

}  // namespace coeval::evaluator
