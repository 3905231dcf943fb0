#include "cli/client.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "common/base/units.h"
#include "common/http/client.h"

namespace coeval::cli {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<Json> Ask(const std::string& target, const std::string& munge_socket,
                 const std::string& what, const std::string& method, const std::string& path,
                 const std::string& body) {
  http::Client client({target, munge_socket, Milliseconds{15000}});
  auto answer = client.CallForBody(method, path, body);
  if (!answer && answer.error().code == ErrorCode::kUnavailable) {
    return Fail(ErrorCode::kUnavailable, answer.error().message + "; " + what);
  }
  if (!answer) return Fail(answer.error());
  Json json = Json::parse(*answer, nullptr, false);
  if (json.is_discarded()) return Fail(ErrorCode::kCorrupt, target + " did not answer with JSON");
  return json;
}

}  // namespace

std::string DefaultEvaluator() {
  if (const std::string named = Variable("COEVAL_EVALUATOR"); !named.empty()) return named;
  const std::string runtime = Variable("XDG_RUNTIME_DIR");
  return "unix:" + (runtime.empty() ? Variable("HOME") + "/.coeval" : runtime + "/coeval") +
         "/evaluator.sock";
}

std::string DefaultCoevald() {
  const std::string named = Variable("COEVALD_SOCKET");
  if (named.starts_with("http://") || named.starts_with("unix:")) return named;
  return "unix:" + (named.empty() ? "/run/coeval/coevald.sock" : named);
}

Result<Json> AskEvaluator(const Common& common, const std::string& method, const std::string& path,
                          const std::string& body) {
  return Ask(common.evaluator, common.munge_socket,
             "start it with 'coeval-evaluator --config FILE', or name another with --evaluator or "
             "COEVAL_EVALUATOR",
             method, path, body);
}

Result<Json> AskCoevald(const Common& common, const std::string& method, const std::string& path,
                        const std::string& body) {
  return Ask(common.coevald, common.munge_socket,
             "an administrator starts coevald; name another with --coevald or COEVALD_SOCKET",
             method, path, body);
}

int Complain(const Error& error) {
  std::cerr << "coeval: " << error.message << "\n";
  return kFailed;
}

int PrintJson(const Json& json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  return kOk;
}

std::size_t TerminalWidth() {
  winsize size{};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string TextOr(const Json& json, const char* key, const std::string& fallback) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : fallback;
}

bool IsNumber(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number();
}

double NumberOr(const Json& json, const char* key, double fallback) {
  return IsNumber(json, key) ? json.at(key).get<double>() : fallback;
}

std::string DurationOr(const Json& json, const char* key) {
  if (!IsNumber(json, key)) return "-";
  return FormatShortDuration(Milliseconds{static_cast<std::int64_t>(1000 * NumberOr(json, key))});
}

std::string StepText(const Json& checkpoint) {
  if (IsNumber(checkpoint, "step"))
    return std::to_string(checkpoint.at("step").get<std::int64_t>());
  const std::string path =
      TextOr(checkpoint, TextOr(checkpoint, "path").empty() ? "checkpoint" : "path");
  return path.substr(path.rfind('/') + 1);
}

}  // namespace coeval::cli
