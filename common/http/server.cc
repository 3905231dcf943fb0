#include "common/http/server.h"

#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "common/base/log.h"
#include "common/http/session_auth.h"

namespace coeval::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;
using Stream = beast::basic_stream<asio::generic::stream_protocol>;
using BeastRequest = beast::http::request<beast::http::string_body>;
using BeastResponse = beast::http::response<beast::http::string_body>;

constexpr std::size_t kMaxConnections = 256;
constexpr std::uint64_t kMaxBody = 8u << 20;
constexpr std::uint32_t kMaxHeader = 16u << 10;
constexpr std::chrono::seconds kRequestTime{30};
constexpr std::chrono::seconds kIdleTime{120};

std::string UserName(uid_t uid) {
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(uid);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string UrlDecode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
                         HexDigit(text[i + 2]) >= 0;
    if (escaped) {
      out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::map<std::string, std::string> ParseQuery(std::string_view query) {
  std::map<std::string, std::string> values;
  if (query.empty()) return values;
  for (const std::string& pair : Split(query, '&')) {
    const auto equals = pair.find('=');
    const std::string_view text = pair;
    values[UrlDecode(text.substr(0, equals), true)] =
        equals == std::string::npos ? "" : UrlDecode(text.substr(equals + 1), true);
  }
  return values;
}

struct RouteEntry {
  std::string method;
  std::vector<std::string> segments;
  Access access;
  Handler handler;
};

// Does the undecoded path fit the pattern? Fills what its `{name}` segments matched.
bool Matches(const RouteEntry& route, const std::vector<std::string>& path,
             std::map<std::string, std::string>* params) {
  if (route.segments.size() != path.size()) return false;
  params->clear();
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::string& pattern = route.segments[i];
    if (pattern.size() > 2 && pattern.front() == '{' && pattern.back() == '}') {
      (*params)[pattern.substr(1, pattern.size() - 2)] = UrlDecode(path[i], false);
    } else if (pattern != path[i]) {
      return false;
    }
  }
  return true;
}

std::optional<Peer> PeerOfUnixSocket(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  return Peer{credentials.uid, credentials.gid, UserName(credentials.uid)};
}

// Is a server answering there? A socket file that nobody listens on is left from a dead one.
bool IsAlive(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool alive =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return alive;
}

Error BindError(const std::string& where, const error_code& code) {
  return Error{ErrorCode::kUnavailable, "cannot listen on " + where + ": " + code.message()};
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(asio::io_context& io, ServerOptions options)
      : options_(std::move(options)), io_(io), unix_acceptor_(io), tcp_acceptor_(io) {}

  Result<> Bind() {
    if (!options_.unix_socket.empty()) {
      if (auto bound = BindUnix(); !bound) return bound;
    }
    if (!options_.tcp_address.empty()) return BindTcp();
    return {};
  }

  void Start() {
    if (unix_acceptor_.is_open()) AcceptUnix();
    if (tcp_acceptor_.is_open()) AcceptTcp();
  }

  void Stop() {
    error_code ignored;
    if (unix_acceptor_.is_open()) ::unlink(options_.unix_socket.c_str());
    unix_acceptor_.close(ignored);
    tcp_acceptor_.close(ignored);
    for (Stream* stream : streams_) stream->socket().close(ignored);
  }

  void Route(RouteEntry route) { routes_.push_back(std::move(route)); }
  std::uint16_t TcpPort() const {
    error_code ignored;
    return tcp_acceptor_.is_open() ? tcp_acceptor_.local_endpoint(ignored).port() : 0;
  }

 private:
  class Connection;

  Result<> BindUnix() {
    const std::string& path = options_.unix_socket;
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "socket path " + path + " is longer than 107 characters; choose a shorter one");
    }
    if (IsAlive(path)) {
      return Fail(ErrorCode::kFailedPrecondition,
                  "another daemon is listening on " + path + "; stop it or choose another socket");
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
      return Fail(ErrorCode::kAlreadyExists,
                  path + " is a file and no socket; choose another socket");
    }
    ::unlink(path.c_str());
    error_code code;
    unix_acceptor_.open(asio::local::stream_protocol(), code);
    if (!code) unix_acceptor_.bind(asio::local::stream_protocol::endpoint(path), code);
    if (!code && ::chmod(path.c_str(), 0666) != 0)
      code.assign(errno, boost::system::system_category());
    if (!code) unix_acceptor_.listen(asio::socket_base::max_listen_connections, code);
    if (code) return Fail(BindError(path, code));
    return {};
  }

  Result<> BindTcp() {
    const std::string& address = options_.tcp_address;
    const auto colon = address.rfind(':');
    error_code code;
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    const auto ip = asio::ip::make_address(host, code);
    std::uint16_t port = 0;
    const char* first = address.data() + (colon == std::string::npos ? address.size() : colon + 1);
    const auto [end, error] = std::from_chars(first, address.data() + address.size(), port);
    if (code || colon == std::string::npos || error != std::errc{} ||
        end != address.data() + address.size()) {
      return Fail(
          ErrorCode::kInvalidArgument,
          "'" + address + "' is no listen address; write ADDRESS:PORT such as 127.0.0.1:6824");
    }
    const asio::ip::tcp::endpoint endpoint(ip, port);
    tcp_acceptor_.open(endpoint.protocol(), code);
    if (!code) tcp_acceptor_.set_option(asio::socket_base::reuse_address(true), code);
    if (!code) tcp_acceptor_.bind(endpoint, code);
    if (!code) tcp_acceptor_.listen(asio::socket_base::max_listen_connections, code);
    if (code) return Fail(BindError(address, code));
    return {};
  }

  void AcceptUnix() {
    unix_acceptor_.async_accept(
        [self = shared_from_this()](error_code code, asio::local::stream_protocol::socket socket) {
          if (code == asio::error::operation_aborted) return;
          if (!code) {
            auto peer = PeerOfUnixSocket(socket.native_handle());
            self->Serve(Socket(std::move(socket)), std::move(peer));
          }
          self->AcceptUnix();
        });
  }

  void AcceptTcp() {
    tcp_acceptor_.async_accept(
        [self = shared_from_this()](error_code code, asio::ip::tcp::socket socket) {
          if (code == asio::error::operation_aborted) return;
          if (!code) {
            error_code ignored;
            socket.set_option(asio::ip::tcp::no_delay(true), ignored);
            self->Serve(Socket(std::move(socket)), std::nullopt);
          }
          self->AcceptTcp();
        });
  }

  void Serve(Socket socket, std::optional<Peer> peer);

  Result<Peer> Identify(const BeastRequest& request, const std::optional<Peer>& kernel_peer) {
    if (kernel_peer) return *kernel_peer;
    const std::string_view target(request.target().data(), request.target().size());
    const auto header = request[beast::http::field::authorization];
    const std::string method(request.method_string());
    return sessions_.Verify({header.data(), header.size()}, method, target, request.body(),
                            options_.clock->Now());
  }

  Response OpenSession(const BeastRequest& request) {
    const auto header = request[beast::http::field::authorization];
    const std::string_view text(header.data(), header.size());
    constexpr std::string_view kMunge = "Munge ";
    if (!text.starts_with(kMunge)) {
      return ErrorResponse(
          {ErrorCode::kUnauthenticated, "a session needs 'Authorization: Munge <credential>'"});
    }
    const auto caller = MungeDecode(std::string(text.substr(kMunge.size())), options_.munge_socket);
    if (!caller) return ErrorResponse(caller.error());
    const auto opened = sessions_.Open(Peer{caller->uid, caller->gid, UserName(caller->uid)},
                                       options_.clock->Now());
    const nlohmann::json payload = {{"session", opened.session},
                                    {"key", opened.key},
                                    {"expires_at", ToEpochSeconds(opened.expires_at)}};
    const auto sealed = MungeEncode(payload.dump(), options_.munge_socket, caller->uid);
    if (!sealed) return ErrorResponse(sealed.error());
    return Response{200, *sealed, "text/plain"};
  }

  void Dispatch(const BeastRequest& in, const std::optional<Peer>& kernel_peer,
                const Respond& respond) {
    const std::string_view target(in.target().data(), in.target().size());
    const auto question = target.find('?');
    const std::string_view path = target.substr(0, question);
    Request request;
    request.method = std::string(in.method_string());
    request.path = UrlDecode(path, false);
    if (question != std::string_view::npos) request.query = ParseQuery(target.substr(question + 1));
    request.body = in.body();
    if (request.path == "/v1/session" && request.method == "POST") return respond(OpenSession(in));

    const auto segments = Split(path, '/');
    bool path_known = false;
    for (const RouteEntry& route : routes_) {
      if (!Matches(route, segments, &request.params)) continue;
      path_known = true;
      if (route.method != request.method) continue;
      if (route.access == Access::kKnown) {
        auto peer = Identify(in, kernel_peer);
        if (!peer) return respond(ErrorResponse(peer.error()));
        request.peer = std::move(*peer);
      }
      return Handle(route.handler, request, respond);
    }
    if (path_known) {
      Response response = ErrorResponse(
          {ErrorCode::kInvalidArgument, request.method + " is not for " + request.path});
      response.status = 405;
      return respond(std::move(response));
    }
    respond(ErrorResponse({ErrorCode::kNotFound, "there is nothing at " + request.path}));
  }

  // A handler's fault is its request's, never the daemon's end.
  static void Handle(const Handler& handler, const Request& request, const Respond& respond) {
    try {
      handler(request, respond);
    } catch (const nlohmann::json::exception& fault) {
      respond(ErrorResponse({ErrorCode::kInvalidArgument,
                             std::string("the body is not understood: ") + fault.what()}));
    } catch (const std::exception& fault) {
      log::Error("handler failed", {{"path", request.path}, {"error", fault.what()}});
      respond(ErrorResponse({ErrorCode::kInternal, fault.what()}));
    }
  }

  ServerOptions options_;
  asio::io_context& io_;
  asio::local::stream_protocol::acceptor unix_acceptor_;
  asio::ip::tcp::acceptor tcp_acceptor_;
  std::vector<RouteEntry> routes_;
  SessionTable sessions_;
  std::set<Stream*> streams_;
};

// One peer's connection; lives as long as an operation on it is under way.
class Server::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Impl> server, Socket socket, std::optional<Peer> peer)
      : server_(std::move(server)), stream_(std::move(socket)), peer_(std::move(peer)) {
    server_->streams_.insert(&stream_);
  }
  ~Connection() { server_->streams_.erase(&stream_); }

  void Read() {
    // The first bytes may take their time, the rest of the request may not.
    stream_.expires_after(first_ ? kRequestTime : kIdleTime);
    first_ = false;
    parser_.emplace();
    parser_->body_limit(kMaxBody);
    parser_->header_limit(kMaxHeader);
    beast::http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code code, std::size_t) { self->OnRead(code); });
  }

 private:
  void OnRead(error_code code) {
    if (code == beast::http::error::body_limit) {
      request_ = {};
      keep_alive_ = false;
      Response response =
          ErrorResponse({ErrorCode::kInvalidArgument, "the body is larger than 8 MiB; send less"});
      response.status = 413;
      return Write(std::move(response));
    }
    if (code) return;  // Closed, timed out or no HTTP: nobody to answer.
    request_ = parser_->release();
    keep_alive_ = request_.keep_alive();
    stream_.expires_never();  // A handler may hold a request for long (long poll).
    auto answered = std::make_shared<bool>(false);
    server_->Dispatch(request_, peer_, [self = shared_from_this(), answered](Response response) {
      if (std::exchange(*answered, true)) return;
      self->Write(std::move(response));
    });
  }

  void Write(Response response) {
    response_ = BeastResponse(static_cast<beast::http::status>(response.status), 11);
    response_.set(beast::http::field::content_type, response.content_type);
    response_.set(beast::http::field::cache_control, "no-store");
    response_.keep_alive(keep_alive_);
    response_.body() = std::move(response.body);
    response_.prepare_payload();
    stream_.expires_after(kRequestTime);
    beast::http::async_write(stream_, response_,
                             [self = shared_from_this()](error_code code, std::size_t) {
                               if (!code && self->keep_alive_) return self->Read();
                               error_code ignored;
                               self->stream_.socket().shutdown(Socket::shutdown_send, ignored);
                             });
  }

  std::shared_ptr<Impl> server_;
  Stream stream_;
  std::optional<Peer> peer_;
  beast::flat_buffer buffer_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  BeastRequest request_;
  BeastResponse response_;
  bool keep_alive_ = true, first_ = true;
};

void Server::Impl::Serve(Socket socket, std::optional<Peer> peer) {
  if (streams_.size() >= kMaxConnections) {
    log::Warn("connection refused", {{"limit", std::to_string(kMaxConnections)}});
    return;
  }
  std::make_shared<Connection>(shared_from_this(), std::move(socket), std::move(peer))->Read();
}

Result<std::unique_ptr<Server>> Server::Listen(asio::io_context& io, ServerOptions options) {
  auto impl = std::make_shared<Impl>(io, std::move(options));
  if (auto bound = impl->Bind(); !bound) return Fail(bound.error());
  impl->Start();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { impl_->Stop(); }

void Server::Route(std::string method, std::string pattern, Access access, Handler handler) {
  impl_->Route({std::move(method), Split(pattern, '/'), access, std::move(handler)});
}
std::uint16_t Server::TcpPort() const { return impl_->TcpPort(); }
void Server::Stop() { impl_->Stop(); }

}  // namespace coeval::http
