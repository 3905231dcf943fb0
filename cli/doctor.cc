// Checks an installation: each line OK, WARN or FAIL with the remedy.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "common/base/files.h"
#include "common/base/process.h"
#include "common/http/session_auth.h"

namespace coeval::cli {
namespace {

namespace fs = std::filesystem;

enum class Grade { kOk, kWarn, kFail };
struct Finding {
  std::string what;
  Grade grade;
  std::string text;  // What was seen, and the remedy unless all is well.
};

const char* GradeName(Grade grade) {
  return grade == Grade::kOk ? "OK" : grade == Grade::kWarn ? "WARN" : "FAIL";
}

// A command's output, empty when it cannot run or fails.
std::string Run(std::vector<std::string> argv) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.environment = CurrentEnvironment();
  const auto exit = RunProcess(spec, Milliseconds{15000});
  if (!exit || exit->code != 0) return "";
  std::string out = exit->out;
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// The value of `Key = value` in `scontrol show config`.
std::string ConfigValue(const std::string& config, const std::string& key) {
  const auto at = config.find("\n" + key + " ");
  if (at == std::string::npos) return "";
  const auto equals = config.find('=', at);
  const auto end = config.find('\n', equals);
  std::string value = config.substr(equals + 1, end - equals - 1);
  value.erase(0, value.find_first_not_of(' '));
  return value;
}

std::string MajorMinor(const std::string& version) {
  const auto first = version.find('.');
  const auto second = version.find('.', first + 1);
  return version.substr(0, second);
}

// The plugin's path in plugstack.conf or a file it includes.
std::string PluginLine(const fs::path& plugstack, int depth) {
  const auto text = ReadFile(plugstack);
  if (!text || depth > 3) return "";
  std::size_t start = 0;
  while (start < text->size()) {
    const auto end = std::min(text->find('\n', start), text->size());
    std::string line = text->substr(start, end - start);
    start = end + 1;
    line = line.substr(0, line.find('#'));
    if (line.find("spank_coeval.so") != std::string::npos) return line;
    if (!line.starts_with("include ")) continue;
    const fs::path pattern = line.substr(8);
    std::error_code error;
    for (fs::directory_iterator at(pattern.parent_path(), error), stop; !error && at != stop;
         at.increment(error)) {
      if (at->path().extension() != ".conf" && at->path() != pattern) continue;
      if (std::string found = PluginLine(at->path(), depth + 1); !found.empty()) return found;
    }
  }
  return "";
}

Finding CheckSlurm(const std::string& config) {
  const std::string version = ConfigValue(config, "SLURM_VERSION");
  if (version.empty())
    return {"slurmctld", Grade::kFail, "does not answer; is it running, is SLURM_CONF right?"};
  return {"slurmctld", Grade::kOk, "Slurm " + version};
}

// `22.05.8` of a SPANK plugin's plugin_version, the Slurm whose headers it was built with.
std::string BuiltFor(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  const auto* version = static_cast<const unsigned*>(::dlsym(library, "plugin_version"));
  std::string text;
  if (version != nullptr) {
    const std::string minor = std::to_string(*version >> 8 & 0xff);
    text = std::to_string(*version >> 16 & 0xff) + "." + (minor.size() < 2 ? "0" : "") + minor +
           "." + std::to_string(*version & 0xff);
  }
  ::dlclose(library);
  return text;
}

Finding CheckPlugin(const std::string& config) {
  const std::string version = ConfigValue(config, "SLURM_VERSION");
  const char* conf = std::getenv("SLURM_CONF");
  const fs::path folder = conf != nullptr ? fs::path(conf).parent_path() : fs::path("/etc/slurm");
  std::string plugstack = ConfigValue(config, "PlugStackConfig");
  if (plugstack.empty() || plugstack == "(null)") plugstack = (folder / "plugstack.conf").string();
  const std::string line = PluginLine(plugstack, 0);
  if (line.empty()) {
    return {"plugin", Grade::kFail,
            plugstack + " does not name spank_coeval.so; add 'optional PATH/spank_coeval.so'"};
  }
  if (!line.starts_with("optional")) {
    return {"plugin", Grade::kWarn,
            "'" + line + "' should be optional, or a missing file stops all submissions"};
  }
  const auto slash = line.find('/');
  const std::string path = slash == std::string::npos
                               ? ""
                               : line.substr(slash, line.find_first_of(" \t", slash) - slash);
  if (!path.empty() && ::access(path.c_str(), R_OK) != 0) {
    return {"plugin", Grade::kFail, path + " is missing; install it, or remove its line"};
  }
  const std::string built = BuiltFor(path);
  if (MajorMinor(built) != MajorMinor(version)) {
    return {"plugin", Grade::kFail,
            path + " was built for Slurm " + (built.empty() ? "(unknown)" : built) +
                ", this is Slurm " + version + "; build it against this one"};
  }
  if (Run({"sbatch", "--help"}).find("--llm-role") == std::string::npos) {
    return {"plugin", Grade::kFail,
            "sbatch does not know --llm-role although " + path +
                " is there; 'sbatch -vv' says what Slurm has against it"};
  }
  return {"plugin", Grade::kOk, path + ", built for Slurm " + built};
}

Finding CheckJobSubmit(const std::string& config) {
  const std::string plugins = ConfigValue(config, "JobSubmitPlugins");
  if (plugins.find("lua") == std::string::npos) {
    return {"job_submit", Grade::kFail,
            "JobSubmitPlugins is '" + plugins +
                "'; add lua, so that --llm-* options reach the scheduler"};
  }
  return {"job_submit", Grade::kOk, "JobSubmitPlugins=" + plugins};
}

Finding CheckMunge(const Common& common) {
  const auto credential = http::MungeEncode("doctor", common.munge_socket);
  if (!credential) return {"munge", Grade::kFail, credential.error().message};
  const auto decoded = http::MungeDecode(*credential, common.munge_socket);
  if (!decoded) return {"munge", Grade::kFail, decoded.error().message};
  return {"munge", Grade::kOk, "encodes and decodes"};
}

Finding CheckQos() {
  const std::string list = "\n" + Run({"sacctmgr", "-nP", "show", "qos", "format=name"}) + "\n";
  if (list.size() <= 2)
    return {"QOS", Grade::kWarn,
            "sacctmgr does not answer; roles cannot be mapped to QOS without slurmdbd"};
  std::string missing;
  for (const char* name : {"pretrain", "eval", "metric", "precursor"}) {
    if (list.find("\n" + std::string(name) + "\n") == std::string::npos)
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (missing.empty()) return {"QOS", Grade::kOk, "pretrain, eval, metric, precursor are there"};
  return {"QOS", Grade::kWarn,
          "missing: " + missing +
              "; 'sacctmgr add qos NAME', or map roles elsewhere in coeval_job_submit"};
}

Finding CheckCoevald(const Common& common) {
  const auto health = AskCoevald(common, "GET", "/healthz");
  if (!health)
    return {"coevald", Grade::kWarn,
            health.error().message + "; evaluators use their fallback_gpus meanwhile"};
  const std::string status = TextOr(*health, "status");
  if (status == "ok")
    return {"coevald", Grade::kOk,
            "policy " + TextOr(*health, "policy") + ", version " + TextOr(*health, "version")};
  return {"coevald", Grade::kWarn,
          "is " + status + ", slurm " + TextOr(*health, "slurm") + "; see its log"};
}

// The file that coevald would read at its next reload, where we can read it.
std::optional<Finding> CheckPolicyFile(const Common& common) {
  const auto policy = AskCoevald(common, "GET", "/v1/policy");
  if (!policy) return std::nullopt;
  const std::string file = TextOr(*policy, "file");
  if (::access(file.c_str(), R_OK) != 0) return std::nullopt;
  ProcessSpec spec;
  spec.argv = {"coevald", "--check-config", file};
  spec.environment = CurrentEnvironment();
  const auto checked = RunProcess(spec, Milliseconds{15000});
  if (!checked) return std::nullopt;  // coevald is not installed here.
  if (checked->code == 0) return Finding{"policy", Grade::kOk, file};
  return Finding{"policy", Grade::kFail, checked->err.substr(0, checked->err.find('\n'))};
}

Finding CheckEvaluator(const Common& common) {
  const auto health = AskEvaluator(common, "GET", "/healthz");
  if (!health) return {"evaluator", Grade::kWarn, health.error().message};
  const auto status = AskEvaluator(common, "GET", "/v1/status");
  if (!status) return {"evaluator", Grade::kFail, status.error().message};
  if (TextOr(*health, "version") != COEVAL_VERSION) {
    return {"evaluator", Grade::kWarn,
            "is version " + TextOr(*health, "version") +
                ", this command is " COEVAL_VERSION "; restart it"};
  }
  return {"evaluator", Grade::kOk,
          common.evaluator + ", scheduler " + TextOr(*health, "scheduler")};
}

}  // namespace

int Doctor(const Common& common) {
  const std::string config = "\n" + Run({"scontrol", "show", "config"}) + "\n";
  std::vector<Finding> findings = {CheckSlurm(config)};
  if (findings.front().grade == Grade::kOk) {
    findings.push_back(CheckPlugin(config));
    findings.push_back(CheckJobSubmit(config));
    findings.push_back(CheckQos());
  }
  findings.push_back(CheckMunge(common));
  findings.push_back(CheckCoevald(common));
  if (auto policy = CheckPolicyFile(common)) findings.push_back(std::move(*policy));
  findings.push_back(CheckEvaluator(common));
  bool failed = false;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    failed = failed || finding.grade == Grade::kFail;
    list.push_back(
        {{"check", finding.what}, {"grade", GradeName(finding.grade)}, {"text", finding.text}});
    if (common.json) continue;
    std::string grade = GradeName(finding.grade), what = finding.what;
    grade.resize(5, ' ');
    what.resize(11, ' ');
    std::cout << grade << what << finding.text << "\n";
  }
  if (common.json) PrintJson(Json{{"checks", list}});
  return failed ? kFailed : kOk;
}

}  // namespace coeval::cli
