// A user's identity is munge's: a credential opens a session, the session's key signs each request.
//
// POST /v1/session carries `Authorization: Munge <credential>`. The reply's body is a munge
// credential that only the caller's uid can decode; its payload is the JSON object
// {"session":"…","key":"<hex>","expires_at":…}. Every later request carries
//   Authorization: Coeval session=<id>,counter=<n>,signature=<hex>
// where signature = HMAC-SHA256(key, method "\n" target "\n" counter "\n" SHA256(body) in hex) and
// the counter grows with every request, so that nothing can be replayed or altered on the way.
// munge does about 7,000 encode and decode pairs a second; that is why not one per request.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/http/message.h"

namespace coeval::http {

struct MungePayload {
  std::uint32_t uid = 0, gid = 0;
  std::string payload;
};
/// `only_uid`: who may decode it; nullopt: anybody with munge's key.
Result<std::string> MungeEncode(std::string_view payload, const std::string& munge_socket,
                                std::optional<std::uint32_t> only_uid = std::nullopt);
/// kUnauthenticated for a bad, expired or replayed credential.
Result<MungePayload> MungeDecode(const std::string& credential, const std::string& munge_socket);

std::string Signature(std::string_view key, std::string_view method, std::string_view target,
                      std::uint64_t counter, std::string_view body);

/// The server's sessions. At most 4,096; the one idle longest makes room. Not thread-safe.
class SessionTable {
 public:
  explicit SessionTable(Seconds lifetime = Seconds{3600}) : lifetime_(lifetime) {}

  struct Opened {
    std::string session, key;
    TimePoint expires_at;
  };
  Opened Open(const Peer& peer, TimePoint now);
  /// The peer who signed this request; kUnauthenticated for anything else.
  Result<Peer> Verify(std::string_view authorization, std::string_view method,
                      std::string_view target, std::string_view body, TimePoint now);

 private:
  struct Session {
    Peer peer;
    std::string key;
    std::uint64_t last_counter = 0;
    TimePoint expires_at, last_used;
  };
  Seconds lifetime_;
  std::map<std::string, Session, std::less<>> sessions_;
};

}  // namespace coeval::http
