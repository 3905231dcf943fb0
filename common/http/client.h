// An HTTP client on libcurl that knows how to prove who it is.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/http/message.h"

namespace coeval::http {

struct ClientOptions {
  std::string target;           // `unix:/run/coeval/coevald.sock` or `http://127.0.0.1:6824`
  std::string munge_socket;     // Empty: munge's default. Used for http:// targets only.
  Milliseconds timeout{10000};  // For one whole request.
};

/// One connection's worth of client. Blocks; one thread at a time. Opens a munge session on first
/// use of a TCP target and again when the server has forgotten it (401), once per request.
class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();
  Client(Client&&) noexcept;

  /// Errors: kUnavailable when the peer cannot be reached (nothing was done), kUnknownOutcome when
  /// it did not answer in time. Responses of any status are values here.
  Result<Response> Call(const std::string& method, const std::string& path_and_query,
                        const std::string& body = "");
  /// Call(), with a status of 400 or more turned into the Error that the body carries.
  Result<std::string> CallForBody(const std::string& method, const std::string& path_and_query,
                                  const std::string& body = "");

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Percent-encodes one path segment or query value.
std::string UrlEncode(const std::string& text);

}  // namespace coeval::http
