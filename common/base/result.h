// The one way a call that can go wrong outside of us says so.
//
// Result<T> is a value or an Error; it must be looked at. Exceptions stay inside the adapter that
// meets them (yaml-cpp, Asio) and leave it as an Error. An Error's message names the thing, the
// value and the remedy; context is put in front of it on the way up.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace coeval {

enum class ErrorCode {
  kInvalidArgument,     // The caller's input is wrong; trying again is useless.
  kNotFound,            // The named thing does not exist.
  kAlreadyExists,       // The thing to be made is there already.
  kUnauthenticated,     // We do not know who is asking.
  kPermissionDenied,    // We know who is asking, and they may not.
  kFailedPrecondition,  // Right in itself, but not in the present state.
  kResourceExhausted,   // A limit that passes with time: quota, disk, submit limit.
  kUnavailable,         // The peer is away or busy; nothing was done; safe to try again.
  kUnknownOutcome,      // Timed out after sending: it may or may not have been done. Look first.
  kCorrupt,             // Data is not what it must be.
  kInternal,            // A fault of ours.
};

/// The code's name in lower case with underscores, as it appears in logs and JSON.
std::string_view ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  /// The same error with "context: " in front of its message.
  Error Under(std::string_view context) &&;
};

/// A class of its own, not an alias, so that the compiler warns where one is dropped.
template <class T = void>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using Base = tl::expected<T, Error>;
  using Base::Base;
  Result() = default;
  Result(Base base) : Base(std::move(base)) {}  // NOLINT: what map() and and_then() give converts.
};

/// `return Fail(ErrorCode::kNotFound, "…");` converts to any Result<T>.
inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::make_unexpected(Error{code, std::move(message)});
}
inline tl::unexpected<Error> Fail(Error error) { return tl::make_unexpected(std::move(error)); }

}  // namespace coeval
