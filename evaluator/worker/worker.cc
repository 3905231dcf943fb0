#include "evaluator/worker/worker.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/files.h"
#include "common/base/log.h"
#include "evaluator/staging/staged_copy.h"
#include "evaluator/suite/placeholders.h"
#include "evaluator/worker/result_reader.h"

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr int kExTempFail = 75;  // sysexits.h: try elsewhere.

Report NewReport(const Lease& lease) {
  Report report;
  report.item_id = lease.item_id;
  report.token = lease.token;
  report.out = lease.out;
  return report;
}

Report Failed(const Lease& lease, std::string error) {
  Report report = NewReport(lease);
  report.outcome = "failed";
  report.error = std::move(error);
  report.log_tail = TailOfFile(fs::path(lease.out) / "log.txt");
  return report;
}

// A score that inference left behind must not be taken for the metric's.
bool IsResultOrLog(const fs::path& name) {
  const std::string text = name.string();
  return text == "log.txt" || text == "result.json" ||
         (text.starts_with("results") && text.ends_with(".json"));
}

Result<> LinkOne(const fs::path& from, const fs::path& link) {
  std::error_code failed;
  fs::create_symlink(from, link, failed);
  if (!failed) return {};
  std::error_code unreadable;
  return Fail(ErrorCode::kInvalidArgument,
              "two shards left a file named " + link.filename().string() + " (" + from.string() +
                  " and " + fs::read_symlink(link, unreadable).string() + "); name files by shard");
}

// The metric stage sees the accepted predictions of all shards in its own folder: folders are made
// anew and files are links, so that nothing it writes lands among the predictions.
Result<> LinkPredictions(const Lease& lease) {
  for (const std::string& folder : lease.predictions) {
    std::error_code error;
    fs::recursive_directory_iterator at(folder, error), end;
    for (; !error && at != end; at.increment(error)) {
      const fs::path target = lease.out / fs::relative(at->path(), folder, error);
      if (at->is_directory(error)) {
        fs::create_directories(target, error);
      } else if (!IsResultOrLog(at->path().filename())) {
        if (auto linked = LinkOne(at->path(), target); !linked) return linked;
      }
    }
    if (error) {
      return Fail(ErrorCode::kNotFound,
                  "the predictions in " + folder + " are gone: " + error.message());
    }
  }
  return {};
}

std::string SessionRequest(const Lease& lease, const std::string& id) {
  return nlohmann::json{{"id", id},
                        {"dataset", lease.dataset},
                        {"version", lease.version},
                        {"shard", lease.shard},
                        {"shards", lease.shards},
                        {"first_item", lease.first_item},
                        {"last_item", lease.last_item},
                        {"out", lease.out},
                        {"seed", lease.seed},
                        {"args", lease.args}}
      .dump();
}

}  // namespace

Result<> Worker::Run() {
  auto idle_since = SteadyClock::now();
  while (!stop_) {
    const auto answer = link_.AskForWork(options_.identity, options_.patience);
    if (!answer) return Fail(answer.error());
    if (!answer->lease) {
      const auto idle = SteadyClock::now() - idle_since;
      if (answer->none.done || idle > options_.idle) break;
      std::this_thread::sleep_for(answer->none.retry_after);
      continue;
    }
    const Lease& lease = *answer->lease;
    log::Info("work begins", {{"item", std::to_string(lease.item_id)},
                              {"dataset", lease.dataset},
                              {"stage", lease.stage},
                              {"shard", std::to_string(lease.shard)}});
    const Report report = RunLease(lease);
    idle_since = SteadyClock::now();
    if (lease_lost_) {
      log::Warn("lease lost; its output is dropped", {{"item", std::to_string(lease.item_id)}});
      continue;
    }
    if (stop_ && report.outcome != "done") {
      const auto returned = link_.GiveBack(lease.item_id, lease.token, "told to stop");
      log::Info("work given back", {{"item", std::to_string(lease.item_id)},
                                    {"heard", returned ? "yes" : returned.error().message}});
      break;
    }
    log::Info("work ended", {{"item", std::to_string(lease.item_id)},
                             {"outcome", report.outcome},
                             {"seconds", std::to_string(report.seconds)},
                             {"error", report.error}});
    const auto delivered = link_.Deliver(report, options_.patience);
    if (!delivered && delivered.error().code != ErrorCode::kFailedPrecondition) return delivered;
  }
  session_.reset();
  return {};
}

OnTick Worker::Heartbeat(const Lease& lease) {
  auto next = SteadyClock::now() + lease.lease_time / 3;
  return [this, next, item = lease.item_id, token = lease.token,
          every = lease.lease_time / 3]() mutable {
    if (stop_) return Tick::kStop;
    if (SteadyClock::now() < next) return Tick::kGoOn;
    next = SteadyClock::now() + every;
    const auto renewed = link_.Renew(item, token);
    // An evaluator that is away may come back before the lease ends; only its "no" counts.
    lease_lost_ = !renewed && renewed.error().code == ErrorCode::kFailedPrecondition;
    return lease_lost_ ? Tick::kStop : Tick::kGoOn;
  };
}

Result<ProcessSpec> Worker::Prepare(const Lease& lease) {
  std::error_code error;
  fs::remove_all(lease.out, error);  // Of this very token: a worker that was restarted in place.
  if (auto made = MakeFolder(lease.out); !made) return Fail(made.error());
  if (auto linked = LinkPredictions(lease); !linked) return Fail(linked.error());
  const auto copy = FindStagedCopy(options_.staging_root, lease.fingerprint);
  if (!copy && !options_.staging_root.empty() && lease.stage == "inference") {
    log::Info("no staged copy on this node; reading the checkpoint itself",
              {{"path", lease.checkpoint}});
  }
  const PlaceholderValues values = {{"staged", copy ? copy->string() : lease.checkpoint}};
  ProcessSpec spec;
  spec.argv = WithPrelude(lease.prelude, Expand(lease.argv, values));
  spec.environment = options_.environment;
  for (const auto& [name, value] : lease.env) spec.environment[name] = Expand(value, values);
  spec.working_directory = lease.out;
  spec.stdout_path = spec.stderr_path = (fs::path(lease.out) / "log.txt").string();
  return spec;
}

Report Worker::RunLease(const Lease& lease) {
  lease_lost_ = false;
  const auto started = SteadyClock::now();
  auto spec = Prepare(lease);
  if (!spec) return Failed(lease, spec.error().message);
  const OnTick heartbeat = Heartbeat(lease);
  Report report = lease.adapter == "session" ? RunSession(lease, std::move(*spec), heartbeat)
                                             : RunCommand(lease, *spec, heartbeat);
  report.seconds = std::chrono::duration<double>(SteadyClock::now() - started).count();
  if (report.outcome != "done" || lease.result_reader.empty()) return report;
  auto score = ReadScore(lease.result_reader, lease.out, lease.items, lease.dataset);
  if (!score) return Failed(lease, score.error().message);
  report.result_json = std::move(*score);
  return report;
}

Report Worker::RunCommand(const Lease& lease, const ProcessSpec& spec, const OnTick& on_tick) {
  const auto exit = RunStageCommand(spec, lease.time_limit, on_tick);
  if (!exit) return Failed(lease, exit.error().message);
  if (exit->kind == CommandExit::Kind::kStopped) return Failed(lease, "stopped");
  if (exit->kind == CommandExit::Kind::kTimedOut) {
    return Failed(lease, "ran longer than its limit of " + FormatSlurmDuration(lease.time_limit));
  }
  Report report = NewReport(lease);
  report.outcome = "done";
  if (exit->code == 0) return report;
  report = Failed(lease, "the command ended with exit code " + std::to_string(exit->code));
  if (exit->code == kExTempFail) report.outcome = "elsewhere";
  return report;
}

Report Worker::RunSession(const Lease& lease, ProcessSpec spec, const OnTick& on_tick) {
  std::string key = lease.fingerprint;
  for (const std::string& word : spec.argv) key += "\n" + word;
  for (const auto& [name, value] : lease.env) key += "\n" + name + "=" + value;
  if (session_ == nullptr || session_->Key() != key) {
    session_.reset();
    // It outlives its first piece of work, so its chatter goes beside all of them.
    spec.working_directory = fs::path(lease.out).parent_path().string();
    auto session = Session::Start(spec, key, lease.time_limit, on_tick);
    if (!session) return Failed(lease, "the session: " + session.error().message);
    session_ = std::move(*session);
  }
  const std::string id = std::to_string(lease.item_id) + "." + std::to_string(lease.token);
  const auto answered = session_->Ask(id, SessionRequest(lease, id), lease.time_limit, on_tick);
  Report report = NewReport(lease);
  report.outcome = "done";
  if (answered) return report;
  // A harness that said no can go on; one that died, hangs or was stopped cannot.
  if (answered.error().code != ErrorCode::kInvalidArgument) session_.reset();
  return Failed(lease, answered.error().message);
}

}  // namespace coeval::evaluator
