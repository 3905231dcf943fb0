// HTTP requests and responses as plain values, shared by the server and the client.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace coeval::http {

/// Who is asking, as SO_PEERCRED or munge says. `name` is the login name, or the uid in digits.
struct Peer {
  std::uint32_t uid = 0, gid = 0;
  std::string name;
};

struct Request {
  std::string method;  // `GET`, `POST`, `DELETE`
  std::string path;    // Decoded, without the query.
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> params;  // What `{id}` in the route matched.
  std::string body;
  std::optional<Peer> peer;  // Always set on routes for known peers.
};

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
};

/// `{"error":{"code":"not_found","message":"…"}}` with the HTTP status that fits the code.
Response ErrorResponse(const Error& error);
/// The reverse, for clients: the Error in a response whose status is 400 or more.
Error ErrorOf(const Response& response);

}  // namespace coeval::http
