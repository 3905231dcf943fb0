// The evaluator's HTTP API over its Unix socket.
#include "evaluator/service/api.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "common/http/client.h"

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;

const char kSuite[] = R"(suite: core
stages:
  inference: {argv: [run, "{checkpoint}", "{dataset}", "{out}"], gpus: 1}
  metric: {argv: [score, "{out}"]}
datasets:
  - {name: a, priors: {inference_s: 10}}
)";

TEST(Campaign, IsRefusedWhenItsSuiteGoesWhileCheckpointsAreLookedAt) {
  std::string pattern = ::testing::TempDir() + "api.XXXXXX";
  const fs::path folder = mkdtemp(pattern.data());
  fs::create_directories(folder / "suites");
  std::ofstream(folder / "suites/core.yaml") << kSuite;
  EvaluatorConfig config;
  config.work_dir = folder;
  auto ledger = std::move(*Ledger::Open(folder / "ledger.db"));
  SuiteFolder suites(folder / "suites");
  ASSERT_TRUE(suites.Refresh()->empty());
  Reconciler reconciler(config, *ledger, suites, "/w/evaluator.url", "/bin/coeval-worker",
                        Environment{});
  ManualClock clock;
  boost::asio::io_context io;
  const auto inspect = [&](const std::vector<std::string>& paths, auto then) {
    // Later and outside the handler, as the daemon does.
    boost::asio::post(io, [&, paths, then] {
      fs::remove(folder / "suites/core.yaml");
      EXPECT_TRUE(suites.Refresh());
      std::map<std::string, Result<SeenCheckpoint>> seen;
      for (const std::string& path : paths) seen.emplace(path, SeenCheckpoint{});
      then(std::move(seen));
    });
  };
  ApiContext context{config, *ledger, suites, reconciler, clock, ::geteuid(), [] {}, inspect};
  const std::string socket = (folder / "s").string();
  auto server = std::move(*http::Server::Listen(io, {socket, "", "", &clock}));
  AddRoutes(*server, context);
  std::thread loop([&] { io.run(); });

  http::Client client({"unix:" + socket, "", Milliseconds{20000}});
  const auto answer = client.CallForBody("POST", "/v1/campaigns",
                                         R"({"suites":["core"],"checkpoints":["/ckpt/1"]})");
  boost::asio::post(io, [&] { server.reset(); });
  loop.join();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(ledger->Campaigns()->empty());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace coeval::evaluator
