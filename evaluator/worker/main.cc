// coeval-worker: the process inside a trial, metric or precursor job. See coeval-worker(8).
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/log.h"
#include "evaluator/staging/staged_copy.h"
#include "evaluator/worker/worker.h"

namespace {

using namespace coeval;             // NOLINT: a main program.
using namespace coeval::evaluator;  // NOLINT

std::atomic<bool> g_stop{false};  // Set by the signal handler; the one global a handler can reach.

void HandleTerm(int) { g_stop = true; }

void CatchTermination() {
  struct sigaction action {};
  action.sa_handler = HandleTerm;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaction(number, &action, nullptr);
}

std::string Variable(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

struct Options {
  std::string stage, address_file, munge_socket, fingerprint, staging_root, checkpoint;
  double idle_s = 5, patience_s = 300;
  std::uint64_t reserve_mb = 0;
};

std::string NodeName() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return Variable("SLURMD_NODENAME", host);
}

WorkerIdentity Identity(const Options& options) {
  WorkerIdentity identity;
  identity.stage = options.stage;
  identity.job_id = Variable("SLURM_JOB_ID", "");
  identity.node = NodeName();
  identity.worker = identity.node + ":" + std::to_string(getpid());
  identity.fingerprint = options.fingerprint;
  return identity;
}

Milliseconds FromSeconds(double seconds) {
  return Milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

// What stages start from: the job's environment without what would make a harness believe that it
// is the job itself (a nested srun or an MPI rank).
Environment StageEnvironment() {
  Environment environment = ScrubbedEnvironment(CurrentEnvironment());
  for (const char* kept :
       {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID", "TMPDIR"}) {
    if (const char* value = std::getenv(kept)) environment[kept] = value;
  }
  return environment;
}

// `%n` in the staging root is the node's name, as in slurm.conf: nodes may share a file system.
std::string OnThisNode(std::string path) {
  for (auto at = path.find("%n"); at != std::string::npos; at = path.find("%n", at)) {
    path.replace(at, 2, NodeName());
  }
  return path;
}

int RunWorker(const Options& options) {
  EvaluatorLink link(options.address_file, options.munge_socket, g_stop);
  WorkerOptions worker;
  worker.identity = Identity(options);
  worker.staging_root = OnThisNode(options.staging_root);
  worker.idle = FromSeconds(options.idle_s);
  worker.patience = FromSeconds(options.patience_s);
  worker.environment = StageEnvironment();
  const auto ran = Worker(std::move(worker), link, g_stop).Run();
  if (ran) return 0;
  log::Error("worker gives up", {{"error", ran.error().message}});
  return 1;
}

// Tells the evaluator how the copy is; true: keep it.
bool TellStaging(EvaluatorLink* link, const Options& options, const std::string& state, Bytes bytes,
                 const std::string& error) {
  const nlohmann::json body = {{"node", NodeName()},
                               {"job_id", Variable("SLURM_JOB_ID", "")},
                               {"fingerprint", options.fingerprint},
                               {"state", state},
                               {"bytes", bytes.value},
                               {"error", error}};
  const auto answer = link->Post("/v1/staging", body.dump());
  if (!answer) return true;  // Away: it will say so when it is back.
  const auto json = nlohmann::json::parse(*answer, nullptr, false);
  return !json.is_object() || json.value("keep", true);
}

int RunPrecursor(const Options& options) {
  EvaluatorLink link(options.address_file, options.munge_socket, g_stop);
  StageRequest request;
  request.checkpoint = options.checkpoint;
  request.root = OnThisNode(options.staging_root);
  request.fingerprint = options.fingerprint;
  request.owner = Variable("SLURM_JOB_ID", std::to_string(getpid()));
  request.reserve = Mebibytes(options.reserve_mb);
  if (const std::string memory = Variable("SLURM_MEM_PER_NODE", ""); !memory.empty()) {
    request.memory_limit = Mebibytes(std::strtoull(memory.c_str(), nullptr, 10));
  }
  auto told = std::chrono::steady_clock::now();
  auto copy = StagedCopy::Make(request, [&](Bytes done, Bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (now - told > std::chrono::seconds(1)) {
      told = now;
      TellStaging(&link, options, "copying", done, "");
    }
    return !g_stop.load();
  });
  if (!copy && copy.error().code == ErrorCode::kFailedPrecondition) {
    // Somebody else's precursor holds it; trials will find it.
    log::Info("the copy is there already", {{"held", copy.error().message}});
    return 0;
  }
  if (!copy) {
    log::Error("no copy made", {{"error", copy.error().message}});
    TellStaging(&link, options, "failed", Bytes{}, copy.error().message);
    return 1;
  }
  log::Info("copy ready",
            {{"path", copy->Path().string()}, {"bytes", std::to_string(copy->Size().value)}});
  // Stays as the holder of the copy's memory; Slurm's time limit bounds it.
  while (!g_stop && TellStaging(&link, options, "ready", copy->Size(), "")) {
    for (int i = 0; i < 10 && !g_stop; ++i) std::this_thread::sleep_for(Milliseconds{100});
  }
  copy->Remove();
  TellStaging(&link, options, "gone", Bytes{}, "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string level_name = "info";
  CLI::App app{"The process inside coeval's trial, metric and precursor jobs", "coeval-worker"};
  app.set_version_flag("--version", "coeval-worker " COEVAL_VERSION);
  app.add_option("--stage", options.stage, "What to do: inference, metric or precursor")
      ->required()
      ->check(CLI::IsMember({"inference", "metric", "precursor"}));
  app.add_option("--evaluator-file", options.address_file,
                 "File that holds the evaluator's address")
      ->required();
  app.add_option("--munge-socket", options.munge_socket, "munged's socket, if not the default");
  app.add_option("--fingerprint", options.fingerprint, "Only work of this checkpoint");
  app.add_option("--staging-root", options.staging_root,
                 "Node-local folder for copies of checkpoints");
  app.add_option("--checkpoint", options.checkpoint, "Precursor: the checkpoint to copy");
  app.add_option("--reserve-mb", options.reserve_mb,
                 "Precursor: MiB that must stay free at the staging root");
  app.add_option("--idle-s", options.idle_s, "Seconds to wait for more work before leaving")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--patience-s", options.patience_s, "Seconds to wait for an absent evaluator")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--log-level", level_name, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    return app.exit(fault) == 0 ? 0 : 2;
  }
  log::Level level = log::Level::kInfo;
  log::ParseLevel(level_name, &level);
  log::Start("coeval-worker", level);
  CatchTermination();
  return options.stage == "precursor" ? RunPrecursor(options) : RunWorker(options);
}
