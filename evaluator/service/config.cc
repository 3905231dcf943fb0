#include "evaluator/service/config.h"

#include <array>
#include <map>

#include "common/base/files.h"
#include "common/yaml/reader.h"

namespace coeval::evaluator {
namespace {

// Options of sbatch of which a job may have one; giving two is refused with both places.
constexpr std::array<std::array<std::string_view, 3>, 2> kExclusive = {
    {{"--mem", "--mem-per-cpu", "--mem-per-gpu"}, {"--gres", "--gpus-per-node", "--gpus"}}};

// Options that have a key of their own here.
const std::map<std::string_view, std::string_view> kOwnKey = {{"--partition", "partition"},
                                                              {"--qos", "qos"},
                                                              {"--account", "account"},
                                                              {"--reservation", "reservation"},
                                                              {"--time", "time_limit"}};

// Options that would break what we rely on.
constexpr std::array<std::string_view, 7> kForbidden = {
    "--comment", "--parsable", "--array", "--wrap", "--output", "--requeue", "--no-requeue"};

std::string_view OptionName(std::string_view argument) {
  return argument.substr(0, argument.find('='));
}

void CheckExtraArguments(yaml::Map* map, const std::vector<yaml::Value>& arguments) {
  std::map<std::string, std::string> seen;  // Option -> where.
  for (const yaml::Value& value : arguments) {
    const std::string text = value.AsString();
    const std::string option(OptionName(text));
    if (!text.starts_with("--")) {
      value.Refuse("'" + text + "' is no long option; write --name=value");
    }
    for (const auto forbidden : kForbidden) {
      if (option == forbidden) value.Refuse(option + " is coeval's own; leave it out");
    }
    if (const auto own = kOwnKey.find(option); own != kOwnKey.end() && map->Has(own->second)) {
      const auto other = map->Find(own->second);
      value.Refuse(option + " contradicts '" + std::string(own->second) + "' (" + other->Where() +
                   "); keep one");
    }
    for (const auto& group : kExclusive) {
      bool in_group = false;
      for (const auto member : group) in_group = in_group || option == member;
      if (!in_group) continue;
      for (const auto member : group) {
        const auto other = seen.find(std::string(member));
        if (other != seen.end() && other->first != option) {
          value.Refuse(option + " contradicts " + other->first + " (" + other->second +
                       "); keep one");
        }
      }
    }
    seen.emplace(option, value.Where());
  }
}

JobDirectives ReadDirectives(yaml::Map* slurm, std::string_view key,
                             const JobDirectives& defaults) {
  JobDirectives directives = defaults;
  const auto value = slurm->Find(key);
  if (!value) return directives;
  yaml::Map map = value->AsMap();
  directives.partition = map.String("partition", defaults.partition);
  directives.qos = map.String("qos", defaults.qos);
  directives.account = map.String("account", defaults.account);
  directives.reservation = map.String("reservation", defaults.reservation);
  directives.time_limit =
      map.Duration("time_limit", Seconds{60}, Seconds{365 * 86400}, defaults.time_limit);
  directives.extra_args = map.Strings("extra_args");
  CheckExtraArguments(&map, map.List("extra_args"));
  map.Finish();
  return directives;
}

void ReadStaging(yaml::Map* top, EvaluatorConfig* config) {
  const auto value = top->Find("staging");
  if (!value) return;
  yaml::Map map = value->AsMap();
  config->staging = map.Bool("enabled", true);
  config->staging_root = map.String("root", config->staging_root.string());
  if (!config->staging_root.is_absolute()) map.Refuse("staging root must be an absolute path");
  config->staging_reserve = map.Size("reserve", config->staging_reserve);
  config->staging_mem_extra = map.Size("mem_extra", config->staging_mem_extra);
  map.Finish();
}

void ReadSlurm(yaml::Map* top, EvaluatorConfig* config) {
  config->precursor.time_limit = Seconds{86400};
  const auto value = top->Find("slurm");
  if (!value) return;
  yaml::Map map = value->AsMap();
  config->trial = ReadDirectives(&map, "trial", config->trial);
  config->metric = ReadDirectives(&map, "metric", config->metric);
  config->precursor = ReadDirectives(&map, "precursor", config->precursor);
  config->llm_options = map.Bool("llm_options", true);
  map.Finish();
}

void ReadLimits(yaml::Map* top, EvaluatorConfig* config) {
  if (const auto value = top->Find("caps")) {
    yaml::Map map = value->AsMap();
    const auto cap = [&](const char* key, std::uint32_t fallback) {
      return static_cast<std::uint32_t>(map.Int(key, 1, 100000, fallback));
    };
    config->jobs_max = cap("jobs_max", config->jobs_max);
    config->trials_max = cap("trials_max", config->trials_max);
    config->metric_jobs_max = cap("metric_jobs_max", config->metric_jobs_max);
    map.Finish();
  }
  if (const auto value = top->Find("retries")) {
    yaml::Map map = value->AsMap();
    config->retries.attempts_max = static_cast<int>(map.Int("attempts_max", 1, 100, 3));
    config->retries.lost_max = static_cast<int>(map.Int("lost_max", 1, 1000, 20));
    config->retries.back_off = Seconds{map.Int("back_off_s", 0, 3600, 5)};
    map.Finish();
  }
  config->fallback_gpus = static_cast<std::uint32_t>(top->Int("fallback_gpus", 0, 100000, 4));
  config->poll_interval =
      Milliseconds{static_cast<std::int64_t>(1000 * top->Double("poll_interval_s", 0.1, 3600, 1))};
  config->lease = Seconds{top->Int("lease_s", 3, 3600, 30)};
  config->placement_patience = Seconds{top->Int("placement_patience_s", 0, 86400, 30)};
  config->load_s = top->Double("load_s", 0, 86400, config->load_s);
}

std::filesystem::path AbsolutePath(yaml::Map* top, const char* key,
                                   std::filesystem::path fallback) {
  const auto value = top->Find(key);
  if (!value) return fallback;
  std::filesystem::path path = value->AsString();
  if (!path.is_absolute())
    value->Refuse(std::string(key) + " is '" + path.string() + "'; must be an absolute path");
  return path;
}

}  // namespace

Result<EvaluatorConfig> ParseConfig(const std::string& text, const std::string& file) {
  auto document = yaml::Document::FromText(text, file);
  if (!document) return Fail(document.error());
  yaml::Map top = document->Root().AsMap();
  EvaluatorConfig config;
  top.Require("work_dir");
  config.work_dir = AbsolutePath(&top, "work_dir", {});
  config.ledger = AbsolutePath(&top, "ledger", config.work_dir / "ledger.db");
  config.suites = AbsolutePath(&top, "suites", "/etc/coeval/suites");
  config.socket = AbsolutePath(&top, "socket", config.work_dir / "evaluator.sock").string();
  config.listen = top.String("listen", config.listen);
  config.advertise = top.String("advertise", "");
  config.coevald = top.String("coevald", config.coevald);
  config.munge_socket = top.String("munge_socket", "");
  config.worker = top.String("worker", "");
  config.follow_runs = top.Bool("follow_runs", true);
  ReadStaging(&top, &config);
  ReadSlurm(&top, &config);
  ReadLimits(&top, &config);
  config.viewers = top.Strings("viewers");
  top.Finish();
  if (auto sound = document->Check(); !sound) return Fail(sound.error());
  return config;
}

Result<EvaluatorConfig> LoadConfig(const std::filesystem::path& file) {
  auto text = ReadFile(file, Mebibytes(4));
  if (!text) return Fail(text.error());
  return ParseConfig(*text, file.string());
}

}  // namespace coeval::evaluator
