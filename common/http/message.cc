#include "common/http/message.h"

#include <array>
#include <nlohmann/json.hpp>

namespace coeval::http {
namespace {

struct StatusOfCode {
  ErrorCode code;
  int status;
};

// The first row of a status is what a client takes it for when the body does not say.
constexpr std::array<StatusOfCode, 11> kStatuses = {{
    {ErrorCode::kInvalidArgument, 400},
    {ErrorCode::kUnauthenticated, 401},
    {ErrorCode::kPermissionDenied, 403},
    {ErrorCode::kNotFound, 404},
    {ErrorCode::kFailedPrecondition, 409},
    {ErrorCode::kAlreadyExists, 409},
    {ErrorCode::kResourceExhausted, 429},
    {ErrorCode::kInternal, 500},
    {ErrorCode::kCorrupt, 500},
    {ErrorCode::kUnavailable, 503},
    {ErrorCode::kUnknownOutcome, 504},
}};

ErrorCode CodeOf(std::string_view name, int status) {
  for (const auto& row : kStatuses) {
    if (ErrorCodeName(row.code) == name) return row.code;
  }
  for (const auto& row : kStatuses) {
    if (row.status == status) return row.code;
  }
  return status >= 500 ? ErrorCode::kInternal : ErrorCode::kInvalidArgument;
}

// What a peer sends is not to be relied on: a value of another type counts as missing.
std::string TextOrNothing(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Response ErrorResponse(const Error& error) {
  Response response;
  for (const auto& row : kStatuses) {
    if (row.code == error.code) response.status = row.status;
  }
  const nlohmann::json body = {
      {"error", {{"code", ErrorCodeName(error.code)}, {"message", error.message}}}};
  // Messages may echo bytes that are no UTF-8; those are replaced, not thrown at.
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return response;
}

Error ErrorOf(const Response& response) {
  const auto body = nlohmann::json::parse(response.body, nullptr, false);
  const auto* error = body.is_object() && body.contains("error") ? &body["error"] : nullptr;
  if (error == nullptr || !error->is_object()) {
    return Error{CodeOf("", response.status), "HTTP status " + std::to_string(response.status)};
  }
  return Error{CodeOf(TextOrNothing(*error, "code"), response.status),
               TextOrNothing(*error, "message")};
}

}  // namespace coeval::http
