#include "common/http/client.h"

#include <curl/curl.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "common/http/session_auth.h"

namespace coeval::http {
namespace {

constexpr std::size_t kMaxBody = 64u << 20;
constexpr std::string_view kUnixPrefix = "unix:";

void StartCurlOnce() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
struct HeadersDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::size_t Append(char* data, std::size_t size, std::size_t count, void* into) {
  auto* body = static_cast<std::string*>(into);
  if (body->size() + size * count > kMaxBody) return 0;
  body->append(data, size * count);
  return size * count;
}

// A request that never reached the peer was certainly not carried out; any other broken one may
// have been.
bool NeverSent(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
         code == CURLE_COULDNT_RESOLVE_PROXY;
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(ClientOptions options) : options_(std::move(options)) {
    StartCurlOnce();
    curl_.reset(curl_easy_init());
  }

  Result<Response> Call(const std::string& method, const std::string& target,
                        const std::string& body) {
    if (OnUnixSocket()) return Send(method, target, body, "");
    for (int attempt = 0;; ++attempt) {
      if (key_.empty()) {
        if (auto opened = OpenSession(); !opened) return Fail(opened.error());
      }
      auto response = Send(method, target, body, Authorization(method, target, body));
      if (!response || response->status != 401 || attempt > 0) return response;
      key_.clear();  // The server has forgotten us: it restarted, or the session ended.
    }
  }

 private:
  bool OnUnixSocket() const { return options_.target.starts_with(kUnixPrefix); }

  std::string Authorization(const std::string& method, const std::string& target,
                            const std::string& body) {
    ++counter_;
    return "Coeval session=" + session_ + ",counter=" + std::to_string(counter_) +
           ",signature=" + Signature(key_, method, target, counter_, body);
  }

  Result<> OpenSession() {
    auto credential = MungeEncode("", options_.munge_socket);
    if (!credential) return Fail(credential.error());
    auto response = Send("POST", "/v1/session", "", "Munge " + *credential);
    if (!response) return Fail(response.error());
    if (response->status >= 400) return Fail(ErrorOf(*response));
    auto reply = MungeDecode(response->body, options_.munge_socket);
    if (!reply) return Fail(std::move(reply.error()).Under(options_.target + "'s answer"));
    const auto opened = nlohmann::json::parse(reply->payload, nullptr, false);
    const auto is_text = [&](const char* name) {
      return opened.contains(name) && opened[name].is_string();
    };
    if (!is_text("session") || !is_text("key"))
      return Fail(ErrorCode::kCorrupt, options_.target + " opened no session");
    session_ = opened["session"].get<std::string>();
    key_ = opened["key"].get<std::string>();
    counter_ = 0;
    return {};
  }

  Result<Response> Send(const std::string& method, const std::string& target,
                        const std::string& body, const std::string& authorization) {
    CURL* curl = curl_.get();
    curl_easy_reset(curl);
    Response response;
    const std::string url = (OnUnixSocket() ? "http://localhost" : options_.target) + target;
    std::unique_ptr<curl_slist, HeadersDeleter> headers;
    const auto add_header = [&](const std::string& line) {
      headers.reset(curl_slist_append(headers.release(), line.c_str()));
    };
    add_header("Content-Type: application/json");
    add_header("Expect:");
    if (!authorization.empty()) add_header("Authorization: " + authorization);

    if (OnUnixSocket()) {
      curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH,
                       options_.target.c_str() + kUnixPrefix.size());
    }
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROXY,
                     "");  // A site's proxy is for the world outside, not for us.
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Append);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &response.body);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
    if (method != "GET") {
      curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
      curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    }
    const CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_OK) {
      return Fail(NeverSent(code) ? ErrorCode::kUnavailable : ErrorCode::kUnknownOutcome,
                  options_.target + " does not answer: " + curl_easy_strerror(code));
    }
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    const char* type = nullptr;
    curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    response.status = static_cast<int>(status);
    response.content_type = type != nullptr ? type : "";
    return response;
  }

  ClientOptions options_;
  std::unique_ptr<CURL, CurlDeleter> curl_;
  std::string session_, key_;
  std::uint64_t counter_ = 0;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;

Result<Response> Client::Call(const std::string& method, const std::string& path_and_query,
                              const std::string& body) {
  return impl_->Call(method, path_and_query, body);
}

Result<std::string> Client::CallForBody(const std::string& method,
                                        const std::string& path_and_query,
                                        const std::string& body) {
  auto response = Call(method, path_and_query, body);
  if (!response) return Fail(response.error());
  if (response->status >= 400) return Fail(ErrorOf(*response));
  return std::move(response->body);
}

std::string UrlEncode(const std::string& text) {
  StartCurlOnce();
  char* escaped = curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size()));
  std::string encoded(escaped != nullptr ? escaped : "");
  curl_free(escaped);
  return encoded;
}

}  // namespace coeval::http
