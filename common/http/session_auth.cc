#include "common/http/session_auth.h"

#include <munge.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>

namespace coeval::http {
namespace {

constexpr std::size_t kMaxSessions = 4096;
constexpr std::string_view kScheme = "Coeval ";

std::string Hex(const unsigned char* bytes, std::size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string RandomHex(std::size_t bytes) {
  std::array<unsigned char, 32> buffer{};
  // Without randomness no session can be safe; a daemon that cannot have it must not run.
  if (RAND_bytes(buffer.data(), static_cast<int>(bytes)) != 1) std::abort();
  return Hex(buffer.data(), bytes);
}

std::string Sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr);
  return Hex(digest.data(), length);
}

bool SameInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

struct ContextDeleter {
  void operator()(munge_ctx_t context) const { munge_ctx_destroy(context); }
};
using Context = std::unique_ptr<std::remove_pointer_t<munge_ctx_t>, ContextDeleter>;

Context OpenContext(const std::string& socket) {
  Context context(munge_ctx_create());
  if (context && !socket.empty()) munge_ctx_set(context.get(), MUNGE_OPT_SOCKET, socket.c_str());
  return context;
}

Error MungeError(const std::string& what, munge_ctx_t context, munge_err_t error) {
  const char* detail = context != nullptr ? munge_ctx_strerror(context) : nullptr;
  const std::string why = detail != nullptr ? detail : munge_strerror(error);
  const bool away = error == EMUNGE_SOCKET || error == EMUNGE_TIMEOUT;
  return Error{away ? ErrorCode::kUnavailable : ErrorCode::kUnauthenticated,
               "munge cannot " + what + ": " + why + (away ? "; is munged running?" : "")};
}

struct Credentials {
  std::string session, signature;
  std::uint64_t counter = 0;
};

// `Coeval session=…,counter=…,signature=…`
std::optional<Credentials> ParseAuthorization(std::string_view text) {
  if (!text.starts_with(kScheme)) return std::nullopt;
  text.remove_prefix(kScheme.size());
  Credentials credentials;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = pair.substr(0, equals), value = pair.substr(equals + 1);
    if (key == "session") credentials.session = value;
    if (key == "signature") credentials.signature = value;
    if (key == "counter") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), credentials.counter);
      if (error != std::errc{} || end != value.data() + value.size()) return std::nullopt;
    }
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return credentials;
}

}  // namespace

Result<std::string> MungeEncode(std::string_view payload, const std::string& munge_socket,
                                std::optional<std::uint32_t> only_uid) {
  const Context context = OpenContext(munge_socket);
  if (only_uid)
    munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, static_cast<uid_t>(*only_uid));
  char* credential = nullptr;
  const munge_err_t error =
      munge_encode(&credential, context.get(), payload.data(), static_cast<int>(payload.size()));
  if (error != EMUNGE_SUCCESS) return Fail(MungeError("encode", context.get(), error));
  std::string text(credential);
  std::free(credential);
  return text;
}

Result<MungePayload> MungeDecode(const std::string& credential, const std::string& munge_socket) {
  const Context context = OpenContext(munge_socket);
  void* payload = nullptr;
  int length = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const munge_err_t error =
      munge_decode(credential.c_str(), context.get(), &payload, &length, &uid, &gid);
  // Expired and replayed credentials are decoded as well; only success counts.
  MungePayload decoded;
  if (payload != nullptr && length > 0)
    decoded.payload.assign(static_cast<const char*>(payload), static_cast<std::size_t>(length));
  std::free(payload);
  if (error != EMUNGE_SUCCESS) return Fail(MungeError("decode", context.get(), error));
  decoded.uid = uid;
  decoded.gid = gid;
  return decoded;
}

std::string Signature(std::string_view key, std::string_view method, std::string_view target,
                      std::uint64_t counter, std::string_view body) {
  std::string text;
  text.append(method)
      .append("\n")
      .append(target)
      .append("\n")
      .append(std::to_string(counter))
      .append("\n");
  text.append(Sha256(body));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &length);
  return Hex(digest.data(), length);
}

SessionTable::Opened SessionTable::Open(const Peer& peer, TimePoint now) {
  if (sessions_.size() >= kMaxSessions) {
    const auto idlest = std::min_element(
        sessions_.begin(), sessions_.end(),
        [](const auto& a, const auto& b) { return a.second.last_used < b.second.last_used; });
    sessions_.erase(idlest);
  }
  Opened opened{RandomHex(16), RandomHex(32), now + lifetime_};
  sessions_[opened.session] = Session{peer, opened.key, 0, opened.expires_at, now};
  return opened;
}

Result<Peer> SessionTable::Verify(std::string_view authorization, std::string_view method,
                                  std::string_view target, std::string_view body, TimePoint now) {
  const auto credentials = ParseAuthorization(authorization);
  if (!credentials) {
    return Fail(ErrorCode::kUnauthenticated,
                "no credentials; open a session with a munge credential at /v1/session");
  }
  const auto found = sessions_.find(credentials->session);
  if (found == sessions_.end() || found->second.expires_at <= now) {
    if (found != sessions_.end()) sessions_.erase(found);
    return Fail(ErrorCode::kUnauthenticated,
                "the session is unknown or has expired; open a new one at /v1/session");
  }
  Session& session = found->second;
  const std::string expected = Signature(session.key, method, target, credentials->counter, body);
  if (!SameInConstantTime(expected, credentials->signature)) {
    return Fail(ErrorCode::kUnauthenticated, "the request's signature is wrong");
  }
  if (credentials->counter <= session.last_counter) {
    return Fail(ErrorCode::kUnauthenticated, "the request's counter was used before");
  }
  session.last_counter = credentials->counter;
  session.last_used = now;
  return session.peer;
}

}  // namespace coeval::http
