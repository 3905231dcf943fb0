// coeval-evaluator: notices checkpoints, has them evaluated, keeps the results. See
// coeval-evaluator(8).
#include <signal.h>
#include <unistd.h>

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/slurm/libslurm_gateway.h"
#include "evaluator/service/api.h"

namespace {

using namespace coeval;             // NOLINT: a main program.
using namespace coeval::evaluator;  // NOLINT
namespace asio = boost::asio;

// The cycle: gather (pool) -> reconcile (loop) -> act (pool) -> record (loop) -> wait.
class Daemon {
 public:
  Daemon(asio::io_context& io, EvaluatorConfig config, std::unique_ptr<Ledger> ledger,
         SuiteFolder suites, std::unique_ptr<slurm::Gateway> gateway, const std::string& worker)
      : io_(io),
        signals_(io, SIGTERM, SIGINT),
        timer_(io),
        config_(std::move(config)),
        ledger_(std::move(ledger)),
        suites_(std::move(suites)),
        gateway_(std::move(gateway)),
        gatherer_(config_, *gateway_, clock_, ::geteuid()),
        reconciler_(config_, *ledger_, suites_, AddressFile().string(), worker,
                    ScrubbedEnvironment(CurrentEnvironment())) {}

  Result<> Start() {
    signals_.async_wait([this](boost::system::error_code, int number) {
      log::Info("stopping", {{"signal", std::to_string(number)}});
      Stop();
    });
    auto server =
        http::Server::Listen(io_, {config_.socket, config_.listen, config_.munge_socket, &clock_});
    if (!server) return Fail(server.error());
    server_ = std::move(*server);
    context_ = std::make_unique<ApiContext>(
        ApiContext{config_, *ledger_, suites_, reconciler_, clock_, ::geteuid(), [this] { Wake(); },
                   [this](std::vector<std::string> paths, auto then) {
                     Inspect(std::move(paths), std::move(then));
                   }});
    AddRoutes(*server_, *context_);
    if (auto told = TellAddress(); !told) return told;
    Cycle();
    return {};
  }

  std::filesystem::path AddressFile() const { return config_.work_dir / "evaluator.url"; }

 private:
  Result<> TellAddress() {
    std::string address = config_.advertise;
    if (address.empty()) {
      const std::string host = config_.listen.substr(0, config_.listen.rfind(':'));
      address = "http://" + host + ":" + std::to_string(server_->TcpPort());
    }
    log::Info("listening", {{"socket", config_.socket}, {"workers", address}});
    return WriteFileAtomically(AddressFile(), address + "\n");
  }

  void Stop() {
    stopping_ = true;
    boost::system::error_code ignored;
    timer_.cancel(ignored);
    server_->Stop();
    io_.stop();
  }

  // Somebody changed something: the next cycle need not wait its whole time.
  void Wake() {
    woken_ = true;
    if (waiting_) timer_.cancel();
  }

  void Cycle() {
    if (stopping_) return;
    woken_ = false;
    RefreshSuites();
    auto request = reconciler_.Request();
    if (!request) return CycleFailed(request.error());
    asio::post(pool_, [this, request = std::move(*request)] {
      auto gathered = std::make_shared<Gathered>(gatherer_.Gather(request));
      asio::post(io_, [this, gathered] { OnGathered(std::move(*gathered)); });
    });
  }

  void OnGathered(Gathered gathered) {
    SayChanges(gathered);
    auto actions = reconciler_.Reconcile(std::move(gathered), clock_.Now());
    if (!actions) return CycleFailed(actions.error());
    if (actions->empty()) return WaitForNext();
    asio::post(pool_, [this, actions = std::move(*actions)] {
      auto outcomes = std::make_shared<std::vector<ActionOutcome>>();
      for (const Action& action : actions) outcomes->push_back({action, Perform(action)});
      asio::post(io_, [this, outcomes] { OnActed(*outcomes); });
    });
  }

  Result<cluster::JobId> Perform(const Action& action) {
    if (action.kind == Action::Kind::kSubmit) return gateway_->Submit(action.job);
    slurm::JobUpdate lift;
    lift.req_nodes = std::vector<std::string>{};
    const Result<> done = action.kind == Action::Kind::kCancel ? gateway_->Cancel(action.id)
                                                               : gateway_->Update(action.id, lift);
    if (!done) return Fail(done.error());
    return action.id;
  }

  void OnActed(const std::vector<ActionOutcome>& outcomes) {
    for (const ActionOutcome& outcome : outcomes) {
      if (auto recorded = reconciler_.Record(outcome, clock_.Now()); !recorded)
        return CycleFailed(recorded.error());
    }
    WaitForNext();
  }

  // The ledger failed (a full disk, say). Nothing was half done; try again later.
  void CycleFailed(const Error& error) {
    log::Error("cycle failed", {{"error", error.message}});
    woken_ = false;
    WaitForNext();
  }

  void WaitForNext() {
    const Milliseconds least{
        100};  // Even when woken at once, so that a busy worker does not spin us.
    timer_.expires_after(woken_ ? least : config_.poll_interval);
    waiting_ = !woken_;
    timer_.async_wait([this](boost::system::error_code) {
      waiting_ = false;
      Cycle();
    });
  }

  void RefreshSuites() {
    const auto faults = suites_.Refresh();
    if (!faults) return log::Warn("suites not read", {{"error", faults.error().message}});
    for (const Error& fault : *faults)
      log::Warn("suite refused; its last good reading stays", {{"error", fault.message}});
  }

  // One line when coevald or Slurm goes away, one when it is back.
  void SayChanges(const Gathered& gathered) {
    const auto say = [](const char* who, const std::string& fault, bool* was_up) {
      const bool up = fault.empty();
      if (up && !*was_up) log::Info(std::string(who) + " is back");
      if (!up && *was_up)
        log::Warn(std::string(who) + " is away; going on without it", {{"error", fault}});
      *was_up = up;
    };
    say("coevald", gathered.coevald_fault, &coevald_up_);
    say("slurmctld", gathered.slurm_fault, &slurm_up_);
  }

  void Inspect(std::vector<std::string> paths,
               std::function<void(std::map<std::string, Result<SeenCheckpoint>>)> then) {
    asio::post(pool_, [this, paths = std::move(paths), then = std::move(then)] {
      auto seen = std::make_shared<std::map<std::string, Result<SeenCheckpoint>>>();
      for (const std::string& path : paths) seen->emplace(path, InspectOne(path));
      asio::post(io_, [seen, then] { then(std::move(*seen)); });
    });
  }

  static Result<SeenCheckpoint> InspectOne(const std::string& path) {
    auto found = InspectCheckpoint(path);
    if (!found) return Fail(found.error());
    SeenCheckpoint seen{std::move(*found), ""};
    if (!seen.found.complete) return seen;
    auto fingerprint = Fingerprint(path);
    if (!fingerprint) return Fail(fingerprint.error());
    seen.fingerprint = std::move(*fingerprint);
    return seen;
  }

  asio::io_context& io_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  SystemClock clock_;
  EvaluatorConfig config_;
  std::unique_ptr<Ledger> ledger_;
  SuiteFolder suites_;
  std::unique_ptr<slurm::Gateway> gateway_;
  Gatherer gatherer_;
  Reconciler reconciler_;
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<http::Server> server_;
  bool stopping_ = false, woken_ = false, waiting_ = false, coevald_up_ = true, slurm_up_ = true;
  asio::thread_pool pool_{1};  // Last: joined before what its work uses goes.
};

int Complain(const Error& error) {
  std::cerr << "coeval-evaluator: " << error.message << "\n";
  return 1;
}

// coeval-worker is installed beside us; in a build tree it is one folder over.
Result<std::string> FindWorker(const std::string& configured) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& path : {std::filesystem::path(configured), self / "coeval-worker",
                           self / "../worker/coeval-worker"}) {
    if (!path.empty() && ::access(path.c_str(), X_OK) == 0)
      return std::filesystem::canonical(path, error).string();
    if (path == configured && !configured.empty()) break;
  }
  return Fail(ErrorCode::kNotFound,
              "cannot find coeval-worker" +
                  (configured.empty() ? std::string(" beside this program") : " at " + configured) +
                  "; set 'worker' in the configuration");
}

int Check(const EvaluatorConfig& config) {
  SuiteFolder suites(config.suites);
  const auto faults = suites.Refresh();
  if (!faults) return Complain(faults.error());
  for (const Error& fault : *faults) std::cerr << "coeval-evaluator: " << fault.message << "\n";
  if (!faults->empty()) return 1;
  std::cout << "OK: " << suites.Names().size() << " suites in " << config.suites.string() << "\n";
  return 0;
}

int Serve(EvaluatorConfig config) {
  auto worker = FindWorker(config.worker);
  if (!worker) return Complain(worker.error());
  for (const char* folder : {"", "logs", "items"}) {
    if (auto made = MakeFolder(config.work_dir / folder); !made) return Complain(made.error());
  }
  auto lock = FileLock::TryAcquire(config.ledger.string() + ".lock");
  if (!lock)
    return Complain(std::move(lock.error()).Under("another coeval-evaluator uses this ledger"));
  auto ledger = Ledger::Open(config.ledger);
  if (!ledger) return Complain(ledger.error());
  SuiteFolder suites(config.suites);
  if (const auto read = suites.Refresh(); !read) return Complain(read.error());
  auto gateway = slurm::OpenLibslurmGateway();
  if (!gateway) return Complain(gateway.error());
  asio::io_context io;
  Daemon daemon(io, std::move(config), std::move(*ledger), std::move(suites), std::move(*gateway),
                *worker);
  if (auto started = daemon.Start(); !started) return Complain(started.error());
  io.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string config_file, check_file, level_name = "info";
  CLI::App app{"Evaluates checkpoints on Slurm and keeps the results", "coeval-evaluator"};
  app.set_version_flag("--version", "coeval-evaluator " COEVAL_VERSION);
  auto* config_option = app.add_option("--config", config_file, "Configuration file (YAML)");
  auto* check_option = app.add_option("--check-config", check_file,
                                      "Check a configuration file and its suites, then end");
  config_option->excludes(check_option);
  app.add_option("--log-level", level_name, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    return app.exit(fault) == 0 ? 0 : 2;
  }
  if (config_file.empty() && check_file.empty()) {
    std::cerr << "coeval-evaluator: no configuration; give --config FILE\n";
    return 2;
  }
  log::Level level = log::Level::kInfo;
  log::ParseLevel(level_name, &level);
  log::Start("coeval-evaluator", level);
  ::signal(SIGPIPE, SIG_IGN);
  auto config = LoadConfig(check_file.empty() ? config_file : check_file);
  if (!config) return Complain(config.error());
  return check_file.empty() ? Serve(std::move(*config)) : Check(*config);
}
