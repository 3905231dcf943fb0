#include "common/slurm/sbatch.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace coeval::slurm {
namespace {

std::string JoinComma(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

// Builds the list; an option that the site gives itself is left out of ours (field case P7).
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& site) : site_(site) {}

  void Add(const std::string& option, const std::string& value) {
    if (!value.empty() && !SiteGives({option})) list_.push_back(option + "=" + value);
  }
  void AddFlag(const std::string& flag) { list_.push_back(flag); }
  bool SiteGives(std::initializer_list<std::string_view> options) const {
    return std::any_of(site_.begin(), site_.end(), [&](const std::string& argument) {
      const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
      return std::find(options.begin(), options.end(), name) != options.end();
    });
  }
  std::vector<std::string> Finish() && {
    list_.insert(list_.end(), site_.begin(), site_.end());
    return std::move(list_);
  }

 private:
  const std::vector<std::string>& site_;
  std::vector<std::string> list_ = {"sbatch", "--parsable"};
};

void AddLlmOptions(const cluster::Tag& tag, Arguments* arguments) {
  if (tag.role) arguments->Add("--llm-role", std::string(cluster::RoleName(*tag.role)));
  arguments->Add("--llm-run", tag.run);
  arguments->Add("--llm-checkpoint", tag.checkpoint);
  if (tag.deadline) arguments->Add("--llm-deadline", FormatSlurmDuration(*tag.deadline));
}

void AddResources(const BatchJob& job, Arguments* arguments) {
  arguments->Add("--nodes", std::to_string(job.nodes));
  arguments->Add("--cpus-per-task", std::to_string(job.cpus_per_task));
  const bool site_gives_gpus = arguments->SiteGives(
      {"--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--tres-per-node"});
  if (job.gpus > 0 && !site_gives_gpus) {
    arguments->Add("--gres", "gpu:" + std::to_string(job.gpus));
  }
  const bool site_gives_memory = arguments->SiteGives({"--mem", "--mem-per-cpu", "--mem-per-gpu"});
  if (job.mem_mb > 0 && !site_gives_memory) {
    arguments->Add("--mem", std::to_string(job.mem_mb) + "M");
  }
  if (job.time_limit) arguments->Add("--time", FormatSlurmDuration(*job.time_limit));
  if (job.time_min) arguments->Add("--time-min", FormatSlurmDuration(*job.time_min));
  arguments->Add("--nodelist", JoinComma(job.req_nodes));
  arguments->Add("--exclude", JoinComma(job.exclude_nodes));
}

bool Contains(std::string_view text, std::initializer_list<std::string_view> needles) {
  return std::any_of(needles.begin(), needles.end(), [&](std::string_view needle) {
    return text.find(needle) != std::string_view::npos;
  });
}

// sbatch says what went wrong in words only. Limits that pass with time are told from those that
// never can (field case G28).
ErrorCode CodeOfMessage(std::string_view text) {
  if (Contains(text, {"(connect failure)", "Connection refused"})) return ErrorCode::kUnavailable;
  // Broken after the request may have arrived.
  if (Contains(text, {"timed out", "Unable to contact slurm controller",
                      "Zero Bytes were transmitted", "Communication"})) {
    return ErrorCode::kUnknownOutcome;
  }
  // QOSMaxSubmitJobPerUserLimit, AssocGrpSubmitJobsLimit and their kind.
  if (Contains(text, {"SubmitJob", "temporarily unable to accept job", "MaxJobCount",
                      "Resource temporarily unavailable", "Required partition not available"})) {
    return ErrorCode::kResourceExhausted;
  }
  if (Contains(text, {"Access/permission denied", "User's group not permitted"})) {
    return ErrorCode::kPermissionDenied;
  }
  return ErrorCode::kInvalidArgument;
}

// The last line of what sbatch complained about, without its prefix.
std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const auto newline = text.rfind('\n');
  if (newline != std::string_view::npos) text.remove_prefix(newline + 1);
  for (const std::string_view prefix : {"sbatch: ", "error: "}) {
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  }
  return std::string(text);
}

}  // namespace

std::vector<std::string> SbatchArguments(const BatchJob& job) {
  Arguments arguments(job.extra_args);
  arguments.Add("--job-name", job.name);
  if (!job.key.empty()) arguments.Add("--comment", KeyComment(job.key));
  arguments.Add("--partition", job.partition);
  arguments.Add("--qos", job.qos);
  arguments.Add("--account", job.account);
  arguments.Add("--reservation", job.reservation);
  arguments.Add("--dependency", job.dependency);
  arguments.Add("--chdir", job.working_directory);
  arguments.Add("--output", job.output_path);
  arguments.Add("--open-mode", "append");
  AddResources(job, &arguments);
  if (job.signal_before_end) {
    arguments.Add("--signal", "B:TERM@" + std::to_string(job.signal_before_end->count()));
  }
  arguments.AddFlag(job.requeue ? "--requeue" : "--no-requeue");
  if (job.use_llm_options) AddLlmOptions(job.tag, &arguments);
  return std::move(arguments).Finish();
}

Result<cluster::JobId> ReadSbatchAnswer(const ProcessExit& exit) {
  if (exit.timed_out) {
    return Fail(ErrorCode::kUnknownOutcome, "sbatch did not answer in time");
  }
  if (exit.code != 0) {
    std::string message = "sbatch: " + LastLine(exit.err);
    if (Contains(exit.err, {"Requested node configuration is not available"})) {
      message += " (Slurm 22.05.5 to 22.05.8 say so wrongly for some GRES requests, bug 15857)";
    }
    return Fail(CodeOfMessage(exit.err), std::move(message));
  }
  // `123` or `123;cluster`
  cluster::JobId id;
  const char* begin = exit.out.data();
  const auto [end, error] = std::from_chars(begin, begin + exit.out.size(), id.value);
  if (error != std::errc{} || id.value == 0) {
    return Fail(ErrorCode::kUnknownOutcome, "sbatch ended well but printed no job id");
  }
  return id;
}

}  // namespace coeval::slurm
