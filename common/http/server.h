// An HTTP/1.1 server on a Unix socket and, if wanted, a TCP address (Boost.Asio and Beast).
//
// Handlers run on the thread of the io_context and answer through `respond`, at once or later, from
// that same thread, exactly once. What a handler throws is answered with 400 (JSON of another type
// than it takes) or 500 and ends nothing. A peer on the Unix socket is known by SO_PEERCRED; on TCP
// by a session that a munge credential opened (session_auth.h). Bounds: 256 connections, 8 MiB
// bodies, 16 KiB headers, 30 s for a request to arrive, 120 s idle.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/http/message.h"

namespace boost::asio {
class io_context;
}

namespace coeval::http {

using Respond = std::function<void(Response)>;
using Handler = std::function<void(const Request&, Respond)>;

enum class Access {
  kAnyone,  // Health and metrics.
  kKnown,   // A peer that we have identified; 401 otherwise.
};

struct ServerOptions {
  std::string unix_socket;   // Empty: none. Made with mode 0666: identity comes from the kernel.
  std::string tcp_address;   // `127.0.0.1:0`; empty: none.
  std::string munge_socket;  // Empty: munge's default.
  const Clock* clock = nullptr;  // Required; outlives the server.
};

class Server {
 public:
  /// Binds at once. A live server on the same Unix socket is kFailedPrecondition and says which
  /// file; a dead one's socket is replaced. The io_context must outlive the server.
  static Result<std::unique_ptr<Server>> Listen(boost::asio::io_context& io, ServerOptions options);
  ~Server();

  /// `pattern` may hold `{name}` segments. To be called before the io_context runs.
  void Route(std::string method, std::string pattern, Access access, Handler handler);
  /// The bound TCP port, 0 when there is none.
  std::uint16_t TcpPort() const;
  /// Stops accepting and closes idle connections.
  void Stop();

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace coeval::http
