// coevald: the scheduler sidecar. See coevald(8).
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
#include <memory>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/slurm/libslurm_gateway.h"
#include "scheduler/api/api.h"
#include "scheduler/config/policy_file.h"

namespace {

using namespace coeval;             // NOLINT: a main program.
using namespace coeval::scheduler;  // NOLINT
namespace asio = boost::asio;

struct Options {
  std::string policy, socket = "/run/coeval/coevald.sock", listen, state_dir = "/var/lib/coeval",
                      munge_socket, check, level = "info";
};

// load (pool) -> decide (loop) -> apply (pool) -> journal (loop) -> wait
class Daemon {
 public:
  Daemon(asio::io_context& io, const Options& options, Policy policy,
         std::unique_ptr<slurm::Gateway> gateway)
      : io_(io),
        signals_(io, SIGTERM, SIGINT, SIGHUP),
        timer_(io),
        gateway_(std::move(gateway)),
        cycle_(std::move(policy), options.policy,
               Journal(std::filesystem::path(options.state_dir) / "journal.jsonl"), clock_.Now()),
        context_{cycle_, clock_, ::geteuid(), [this] { Wake(); }} {}

  Result<> Start(const Options& options) {
    WaitForSignal();
    auto server =
        http::Server::Listen(io_, {options.socket, options.listen, options.munge_socket, &clock_});
    if (!server) return Fail(server.error());
    server_ = std::move(*server);
    AddRoutes(*server_, context_);
    log::Info("listening", {{"socket", options.socket},
                            {"tcp_port", std::to_string(server_->TcpPort())},
                            {"policy", cycle_.CurrentPolicy().name}});
    Load();
    return {};
  }

 private:
  void WaitForSignal() {
    signals_.async_wait([this](boost::system::error_code code, int number) {
      if (code) return;
      if (number != SIGHUP) {
        log::Info("stopping", {{"signal", std::to_string(number)}});
        server_->Stop();
        return io_.stop();
      }
      if (cycle_.ReloadPolicy(clock_.Now())) Wake();  // A refusal is logged where it happens.
      WaitForSignal();
    });
  }

  void Wake() {
    woken_ = true;
    if (waiting_) timer_.cancel();
  }

  void Load() {
    woken_ = false;
    asio::post(pool_, [this] {
      auto loaded = std::make_shared<Result<cluster::Snapshot>>(gateway_->Load());
      asio::post(io_, [this, loaded] { Apply(cycle_.OnLoaded(std::move(*loaded), clock_.Now())); });
    });
  }

  void Apply(std::vector<SetSiteFactor> actions) {
    if (actions.empty()) return WaitForNext();
    asio::post(pool_, [this, actions = std::move(actions)] {
      auto applied = std::make_shared<std::vector<Applied>>();
      for (const SetSiteFactor& action : actions) {
        slurm::JobUpdate update;
        update.site_factor = action.to;
        applied->push_back({action, gateway_->Update(action.id, update)});
        // Without slurmctld the rest would only wait for its time-outs one by one.
        const auto& result = applied->back().result;
        if (!result && result.error().code == ErrorCode::kUnavailable) break;
      }
      asio::post(io_, [this, applied] {
        cycle_.OnApplied(*applied, clock_.Now());
        WaitForNext();
      });
    });
  }

  void WaitForNext() {
    timer_.expires_after(woken_ ? Seconds{0} : cycle_.NextIn());
    waiting_ = true;
    timer_.async_wait([this](boost::system::error_code) {
      waiting_ = false;
      Load();
    });
  }

  asio::io_context& io_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  SystemClock clock_;
  std::unique_ptr<slurm::Gateway> gateway_;
  Cycle cycle_;
  ApiContext context_;
  std::unique_ptr<http::Server> server_;
  bool woken_ = false, waiting_ = false;
  asio::thread_pool pool_{1};  // Last: joined before what its work uses goes.
};

int Complain(const Error& error) {
  std::cerr << "coevald: " << error.message << "\n";
  return 1;
}

int Check(const std::string& file) {
  const auto policy = LoadPolicy(file);
  if (!policy) return Complain(policy.error());
  std::cout << "OK: policy " << policy->name << ", " << policy->match.size() << " rules, "
            << policy->roles.size() << " roles\n";
  return 0;
}

int Serve(const Options& options) {
  auto policy = LoadPolicy(options.policy);
  if (!policy) return Complain(policy.error());
  if (auto made = MakeFolder(options.state_dir); !made) return Complain(made.error());
  auto lock = FileLock::TryAcquire(std::filesystem::path(options.state_dir) / "lock");
  if (!lock)
    return Complain(std::move(lock.error()).Under("another coevald uses this state folder"));
  auto gateway = slurm::OpenLibslurmGateway();
  if (!gateway) return Complain(gateway.error());
  asio::io_context io;
  Daemon daemon(io, options, std::move(*policy), std::move(*gateway));
  if (auto started = daemon.Start(options); !started) return Complain(started.error());
  io.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"LLM-aware scheduler sidecar for Slurm", "coevald"};
  app.set_version_flag("--version", "coevald " COEVAL_VERSION);
  app.add_option("--policy", options.policy, "Policy file (YAML)");
  app.add_option("--socket", options.socket, "Unix socket of the API")->capture_default_str();
  app.add_option("--listen", options.listen, "ADDRESS:PORT of the API; none unless given");
  app.add_option("--state-dir", options.state_dir, "Folder of the journal and the lock")
      ->capture_default_str();
  app.add_option("--munge-socket", options.munge_socket, "munged's socket, if not the default");
  app.add_option("--check-config", options.check, "Check a policy file, then end");
  app.add_option("--log-level", options.level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    return app.exit(fault) == 0 ? 0 : 2;
  }
  if (!options.check.empty()) return Check(options.check);
  if (options.policy.empty()) {
    std::cerr << "coevald: no policy; give --policy FILE\n";
    return 2;
  }
  log::Level level = log::Level::kInfo;
  log::ParseLevel(options.level, &level);
  log::Start("coevald", level);
  ::signal(SIGPIPE, SIG_IGN);
  return Serve(options);
}
