// coeval: what people type. See coeval(1).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "cli/commands.h"

namespace {

using namespace coeval::cli;  // NOLINT: a main program.

// Options that may stand before or after the subcommand.
void AddCommon(CLI::App* app, Common* common) {
  app->add_flag("--json", common->json, "Print JSON");
  app->add_flag("-h,--noheader", common->noheader, "Print no headers");
  app->add_option("--evaluator", common->evaluator,
                  "The evaluator: unix:PATH or http://HOST:PORT (COEVAL_EVALUATOR)");
  app->add_option("--coevald", common->coevald,
                  "The scheduler: unix:PATH or http://HOST:PORT (COEVALD_SOCKET)");
  app->add_option("--munge-socket", common->munge_socket,
                  "munged's socket, if not the default (COEVAL_MUNGE_SOCKET)");
}

int Suites(const Common& common) {
  const auto answer = AskEvaluator(common, "GET", "/v1/suites");
  if (!answer) return Complain(answer.error());
  if (common.json) return PrintJson(*answer);
  for (const Json& name : answer->value("suites", Json::array()))
    std::cout << name.get<std::string>() << "\n";
  return kOk;
}

}  // namespace

int main(int argc, char** argv) {
  Common common;
  common.evaluator = DefaultEvaluator();
  common.coevald = DefaultCoevald();
  if (const char* socket = std::getenv("COEVAL_MUNGE_SOCKET")) common.munge_socket = socket;

  CLI::App app{"Watch and steer the evaluation of checkpoints on Slurm", "coeval"};
  app.set_version_flag("-V,--version", "coeval " COEVAL_VERSION);
  app.set_help_flag("--help", "Print this help and exit");
  app.require_subcommand(1);
  app.fallthrough();
  AddCommon(&app, &common);
  int exit_code = kOk;
  const auto on = [&](CLI::App* command, auto run) {
    command->callback([&exit_code, run] { exit_code = run(); });
  };

  std::string only;
  auto* status = app.add_subcommand("status", "Runs, checkpoints and how far their evaluation is");
  status->add_option("run", only, "Only this run or campaign");
  on(status, [&] { return Status(common, only); });

  WatchOptions watch_options;
  auto* watch = app.add_subcommand("watch", "The same, live, with progress bars and finish times");
  watch->add_option("run", watch_options.only, "Only this run or campaign");
  watch->add_option("--interval", watch_options.interval_s, "Seconds between looks")
      ->check(CLI::Range(0.1, 3600.0));
  watch->add_flag("--until-done", watch_options.until_done, "End when nothing is left to do");
  watch->add_option("--timeout", watch_options.timeout_s, "End with status 1 after so many seconds")
      ->check(CLI::Range(0.0, 1e9));
  on(watch, [&] { return Watch(common, watch_options); });

  ResultsOptions results_options;
  auto* results = app.add_subcommand("results", "Scores: checkpoints by datasets");
  results->add_option("run", results_options.only, "Only this run or campaign");
  results->add_option("--suite", results_options.suite, "Only this suite");
  results->add_flag("--csv", results_options.csv, "One line a score, as CSV");
  on(results, [&] { return Results(common, results_options); });

  EvalOptions eval_options;
  auto* eval = app.add_subcommand("eval", "Have checkpoints evaluated");
  eval->add_option("--suite", eval_options.suites, "Suites, separated by commas")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false);
  eval->add_option("--name", eval_options.name, "A name for the campaign");
  eval->add_flag("--wait", eval_options.wait, "Wait for the scores and print them");
  eval->add_option("checkpoints", eval_options.checkpoints, "Checkpoint folders")->required();
  on(eval, [&] { return Eval(common, eval_options); });

  std::string what;
  auto* cancel =
      app.add_subcommand("cancel", "Stop evaluating a run or campaign, or end one of its jobs");
  cancel->add_option("what", what, "A run, a campaign (c-1) or a job id")->required();
  on(cancel, [&] { return Cancel(common, what); });

  std::string job_id;
  auto* explain = app.add_subcommand("explain", "Why a job has its priority and what it waits for");
  explain->add_option("jobid", job_id, "The job, as squeue prints it")->required();
  on(explain, [&] { return Explain(common, job_id); });

  on(app.add_subcommand("jobs", "What ran where: all jobs of the evaluator"),
     [&] { return Jobs(common); });
  on(app.add_subcommand("suites", "The evaluator's suites"), [&] { return Suites(common); });

  auto* policy = app.add_subcommand("policy", "The scheduler's policy");
  policy->require_subcommand(1);
  policy->fallthrough();
  on(policy->add_subcommand("show", "Print the policy in force"),
     [&] { return PolicyShow(common); });
  on(policy->add_subcommand("reload", "Read the policy file again (operators)"),
     [&] { return PolicyReload(common); });

  on(app.add_subcommand("doctor", "Check the installation"), [&] { return Doctor(common); });

  std::string shell;
  auto* completion = app.add_subcommand("completion", "Print a completion script");
  completion->add_option("shell", shell, "bash")->required();
  on(completion, [&] { return Completion(shell); });

  for (CLI::App* command : app.get_subcommands({}))
    command->set_help_flag("--help", "Print this help and exit");
  const auto commands = app.get_subcommands({});
  const bool known = argc < 2 || argv[1][0] == '-' ||
                     std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) {
                       return command->get_name() == argv[1];
                     });
  if (!known) {
    std::cerr << "coeval: unknown command '" << argv[1] << "'; 'coeval --help' lists them\n";
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    return app.exit(fault) == 0 ? kOk : kUsage;
  } catch (const Json::exception& fault) {
    return Complain(
        {coeval::ErrorCode::kCorrupt,
         std::string("the daemon's answer is not understood (another version?): ") + fault.what()});
  }
  return exit_code;
}
