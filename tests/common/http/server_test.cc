#include "common/http/server.h"

#include <gtest/gtest.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "common/http/client.h"

namespace coeval::http {
namespace {

// A server on its own thread and a client of it.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    std::string pattern = ::testing::TempDir() + "http.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~ServerTest() override {
    if (thread_.joinable()) {
      boost::asio::post(io_, [this] { server_.reset(); });
      thread_.join();
    }
    std::system(("rm -rf '" + folder_ + "'").c_str());
  }

  std::string Socket() const { return folder_ + "/s"; }

  void Start(const std::string& tcp = "") {
    auto server = Server::Listen(io_, {Socket(), tcp, folder_ + "/no-munge", &clock_});
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    server_->Route("GET", "/healthz", Access::kAnyone, [](const Request&, Respond respond) {
      respond({200, "{}"});
    });
    server_->Route("POST", "/v1/echo/{id}", Access::kKnown,
                   [](const Request& request, Respond respond) {
                     respond({200, request.params.at("id") + "|" + request.query.at("q") + "|" +
                                       request.body + "|" + std::to_string(request.peer->uid)});
                   });
    server_->Route("POST", "/v1/throw", Access::kKnown, [](const Request& request, Respond) {
      if (request.body == "json" && nlohmann::json::parse("{").empty()) return;
      throw std::runtime_error("oh");
    });
    thread_ = std::thread([this] { io_.run(); });
  }

  Client Connect() { return Client({"unix:" + Socket(), "", Milliseconds{20000}}); }

  ManualClock clock_;
  std::string folder_;
  boost::asio::io_context io_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST_F(ServerTest, KnowsAUnixPeerByTheKernel) {
  Start();
  Client client = Connect();
  const auto response =
      client.Call("POST", "/v1/echo/" + UrlEncode("a/b c") + "?q=" + UrlEncode("x&y"), "body");
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "a/b c|x&y|body|" + std::to_string(getuid()));
}

TEST_F(ServerTest, ServesManyRequestsOnOneConnection) {
  Start();
  Client client = Connect();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(client.Call("GET", "/healthz")->status, 200);
}

TEST_F(ServerTest, AnswersUnknownPathsAndMethods) {
  Start();
  Client client = Connect();
  EXPECT_EQ(client.Call("GET", "/nothing")->status, 404);
  EXPECT_EQ(client.Call("POST", "/healthz")->status, 405);
  const auto error = client.CallForBody("GET", "/nothing");
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code, ErrorCode::kNotFound);
}

TEST_F(ServerTest, AThrowingHandlerEndsNothing) {
  Start();
  Client client = Connect();
  EXPECT_EQ(client.Call("POST", "/v1/throw", "json")->status, 400);
  EXPECT_EQ(client.Call("POST", "/v1/throw")->status, 500);
  EXPECT_EQ(client.Call("GET", "/healthz")->status, 200);
}

TEST_F(ServerTest, WantsCredentialsOnTcp) {
  Start("127.0.0.1:0");
  const std::string target = "http://127.0.0.1:" + std::to_string(server_->TcpPort());
  const int plain = std::system(("test \"$(curl -s -o /dev/null -w '%{http_code}' -X POST '" +
                                 target + "/v1/echo/1?q=2')\" = 401")
                                    .c_str());
  EXPECT_EQ(plain, 0);
  const int health = std::system(
      ("test \"$(curl -s -o /dev/null -w '%{http_code}' '" + target + "/healthz')\" = 200")
          .c_str());
  EXPECT_EQ(health, 0);
}

TEST_F(ServerTest, RefusesBodiesOverTheLimit) {
  Start();
  Client client = Connect();
  const auto response = client.Call("POST", "/v1/echo/1?q=2", std::string((8u << 20) + 1, 'x'));
  // The server may close while we still send; either way nothing was done.
  EXPECT_TRUE(!response || response->status == 413);
}

TEST_F(ServerTest, SecondServerOnALiveSocketIsRefused) {
  Start();
  boost::asio::io_context io;
  const auto second = Server::Listen(io, {Socket(), "", "", &clock_});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(second.error().message.find(Socket()), std::string::npos);
  EXPECT_EQ(Connect().Call("GET", "/healthz")->status, 200) << "the first one goes on";
}

TEST_F(ServerTest, TakesOverADeadServersSocketButNoFile) {
  {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    Socket().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::close(fd);
  }
  Start();
  EXPECT_EQ(Connect().Call("GET", "/healthz")->status, 200);

  const std::string file = folder_ + "/file";
  std::ofstream(file) << "precious";
  boost::asio::io_context io;
  EXPECT_EQ(Server::Listen(io, {file, "", "", &clock_}).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(ServerTest, RefusesWrongAddresses) {
  boost::asio::io_context io;
  for (const char* address :
       {"localhost", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":1", "127.0.0.1:1x"}) {
    EXPECT_FALSE(Server::Listen(io, {"", address, "", &clock_})) << address;
  }
}

TEST(ClientTest, SaysThatNobodyListens) {
  Client client({"unix:/nonexistent/socket", "", Milliseconds{1000}});
  const auto response = client.Call("GET", "/");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace coeval::http
