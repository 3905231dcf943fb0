#include "evaluator/worker/result_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/files.h"

namespace coeval::evaluator {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaxResultMebibytes = 16;

Result<Json> ReadJson(const fs::path& file) {
  const auto text = ReadFile(file, Mebibytes(kMaxResultMebibytes));
  if (!text)
    return Fail(ErrorCode::kInvalidArgument, "the stage wrote no result: " + text.error().message);
  // NaN and Infinity, which Python writes, are no JSON and fail here.
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) {
    return Fail(ErrorCode::kInvalidArgument,
                file.string() + " is no JSON object (is a value NaN?)");
  }
  return json;
}

// The contract's own form.
Result<Json> ReadCoeval(const fs::path& folder, const std::string&) {
  return ReadJson(folder / "result.json");
}

// The newest file below the folder whose name starts and ends so.
fs::path NewestFile(const fs::path& folder, const std::string& prefix, const std::string& suffix) {
  fs::path newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code vanished;
    const auto time = fs::last_write_time(at->path(), vanished);
    if (vanished || !name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    if (newest.empty() || time > newest_time) {
      newest = at->path();
      newest_time = time;
    }
  }
  return newest;
}

// lm-evaluation-harness: {"results": {"<task>": {"acc,none": …, "acc_stderr,none": …}}}.
Result<Json> ReadLmEval(const fs::path& folder, const std::string& dataset) {
  const fs::path file = NewestFile(folder, "results", ".json");
  if (file.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "lm-evaluation-harness left no results*.json in " + folder.string());
  }
  auto json = ReadJson(file);
  if (!json) return json;
  if (!json->contains("results") || !(*json)["results"].is_object()) {
    return Fail(ErrorCode::kInvalidArgument, file.string() + " has no results");
  }
  const Json tasks = (*json)["results"];
  const Json task = tasks.contains(dataset) ? tasks[dataset]
                    : tasks.size() == 1     ? *tasks.begin()
                                            : Json();
  if (!task.is_object()) {
    return Fail(ErrorCode::kInvalidArgument,
                file.string() + " has no results of the task " + dataset);
  }
  Json metrics = Json::object();
  for (const auto& [key, value] : task.items()) {
    if (value.is_number()) metrics[key.substr(0, key.find(','))] = value;
  }
  std::string primary;
  for (const char* wanted :
       {"acc_norm", "acc", "exact_match", "f1", "bleu", "pass@1", "word_perplexity"}) {
    if (primary.empty() && metrics.contains(wanted)) primary = wanted;
  }
  for (const auto& [key, value] : metrics.items()) {
    if (primary.empty() && key.find("stderr") == std::string::npos) primary = key;
  }
  std::int64_t items = 0;
  const Json counts = json->contains("n-samples") ? (*json)["n-samples"] : Json::object();
  if (counts.is_object() && counts.contains(dataset) && counts[dataset].is_object()) {
    const auto effective = counts[dataset].find("effective");
    if (effective != counts[dataset].end() && effective->is_number_integer()) {
      items = effective->get<std::int64_t>();
    }
  }
  return Json{{"primary", primary}, {"metrics", metrics}, {"items", items}};
}

struct Reader {
  const char* name;
  Result<Json> (*read)(const fs::path& folder, const std::string& dataset);
};
constexpr Reader kReaders[] = {{"coeval", ReadCoeval}, {"lm_eval", ReadLmEval}};

Result<std::string> Check(const Json& json, std::int64_t items_asked) {
  const auto refuse = [](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, "the result " + why);
  };
  if (!json.contains("primary") || !json["primary"].is_string())
    return refuse("names no primary metric");
  const std::string primary = json["primary"];
  const auto metrics = json.find("metrics");
  if (metrics == json.end() || !metrics->is_object()) return refuse("has no metrics");
  for (const auto& [name, value] : metrics->items()) {
    if (!value.is_number()) return refuse("has a metric '" + name + "' that is no number");
    if (!std::isfinite(value.get<double>()))
      return refuse("has a metric '" + name + "' that is not finite");
  }
  if (!metrics->contains(primary)) return refuse("lacks its primary metric '" + primary + "'");
  const auto items = json.find("items");
  if (items == json.end() || !items->is_number_integer())
    return refuse("does not say how many items it covers");
  if (items->get<std::int64_t>() < items_asked) {
    return refuse("covers " + std::to_string(items->get<std::int64_t>()) + " of " +
                  std::to_string(items_asked) + " items");
  }
  return Json{{"primary", primary},
              {"value", (*metrics)[primary]},
              {"metrics", *metrics},
              {"items", *items}}
      .dump();
}

}  // namespace

std::vector<std::string> ResultReaders() {
  std::vector<std::string> names;
  for (const Reader& reader : kReaders) names.emplace_back(reader.name);
  return names;
}

Result<std::string> ReadScore(const std::string& reader, const fs::path& folder,
                              std::int64_t items_asked, const std::string& dataset) {
  for (const Reader& known : kReaders) {
    if (reader != known.name) continue;
    const auto json = known.read(folder, dataset);
    if (!json) return Fail(json.error());
    return Check(*json, items_asked);
  }
  return Fail(ErrorCode::kInvalidArgument, "unknown result reader '" + reader + "'");
}

}  // namespace coeval::evaluator
