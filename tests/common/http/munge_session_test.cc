// Sessions over TCP with a real munged of the test's own.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "common/base/process.h"
#include "common/http/client.h"
#include "common/http/server.h"
#include "common/http/session_auth.h"

namespace coeval::http {
namespace {

// A munged with its own key and socket, ended with the object.
class PrivateMunge {
 public:
  explicit PrivateMunge(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::ofstream(folder_ / "key") << std::string(64, 'k');
    std::filesystem::permissions(folder_ / "key", std::filesystem::perms::owner_read);
    ProcessSpec spec;
    spec.argv = {"/usr/sbin/munged",
                 "--foreground",
                 "--key-file=" + (folder_ / "key").string(),
                 "--socket=" + Socket(),
                 "--pid-file=" + (folder_ / "pid").string(),
                 "--seed-file=" + (folder_ / "seed").string(),
                 "--num-threads=1"};
    spec.environment = {{"PATH", "/usr/sbin:/usr/bin:/bin"}};
    spec.stderr_path = spec.stdout_path = (folder_ / "log").string();
    pid_ = StartProcess(spec).value_or(-1);
    for (int i = 0; i < 1000 && !MungeEncode("", Socket()); ++i) usleep(10000);
  }
  ~PrivateMunge() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  std::string Socket() const { return (folder_ / "socket").string(); }

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

class RunningServer {
 public:
  RunningServer(const std::string& munge_socket, const std::string& address) {
    server_ = std::move(*Server::Listen(io_, {"", address, munge_socket, &clock_}));
    server_->Route("POST", "/v1/who", Access::kKnown, [](const Request& request, Respond respond) {
      respond({200, request.peer->name + "|" + request.body});
    });
    port_ = server_->TcpPort();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~RunningServer() {
    boost::asio::post(io_, [this] { server_.reset(); });
    thread_.join();
  }
  std::string Address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  ManualClock clock_;
  boost::asio::io_context io_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

class MungeSessionTest : public ::testing::Test {
 protected:
  MungeSessionTest() {
    std::string pattern = ::testing::TempDir() + "munge.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
    munge_ = std::make_unique<PrivateMunge>(folder_);
  }
  ~MungeSessionTest() override {
    munge_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
  std::unique_ptr<PrivateMunge> munge_;
};

TEST_F(MungeSessionTest, OneCredentialOpensASessionForManyRequests) {
  RunningServer server(munge_->Socket(), "127.0.0.1:0");
  Client client({"http://" + server.Address(), munge_->Socket(), Milliseconds{20000}});
  for (int i = 0; i < 50; ++i) {
    const auto body = client.CallForBody("POST", "/v1/who", "n" + std::to_string(i));
    ASSERT_TRUE(body) << body.error().message;
    EXPECT_TRUE(body->ends_with("|n" + std::to_string(i)));
  }
}

TEST_F(MungeSessionTest, ClientOpensANewSessionWhenTheServerHasRestarted) {
  auto server = std::make_unique<RunningServer>(munge_->Socket(), "127.0.0.1:0");
  const std::string address = server->Address();
  Client client({"http://" + address, munge_->Socket(), Milliseconds{20000}});
  ASSERT_TRUE(client.CallForBody("POST", "/v1/who", "a"));
  server.reset();
  server = std::make_unique<RunningServer>(munge_->Socket(), address);
  const auto body = client.CallForBody("POST", "/v1/who", "b");
  EXPECT_TRUE(body) << body.error().message;
}

TEST_F(MungeSessionTest, CredentialForAnotherUidCannotBeDecoded) {
  const auto sealed = MungeEncode("secret", munge_->Socket(), getuid() + 1);
  ASSERT_TRUE(sealed);
  // munge lets root decode everything only where it was started so; it was not.
  EXPECT_FALSE(MungeDecode(*sealed, munge_->Socket()));
}

TEST_F(MungeSessionTest, CredentialCountsOnce) {
  const auto credential = MungeEncode("x", munge_->Socket());
  ASSERT_TRUE(credential);
  EXPECT_TRUE(MungeDecode(*credential, munge_->Socket()));
  const auto again = MungeDecode(*credential, munge_->Socket());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kUnauthenticated);
}

}  // namespace
}  // namespace coeval::http
