#include "evaluator/worker/session.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

namespace coeval::evaluator {
namespace {

constexpr int kTickMilliseconds = 200;
constexpr std::size_t kMaxLine = 1 << 20;
// Lines that answer nothing we asked; a harness that talks without end is broken.
constexpr int kMaxStrayLines = 1000;

Error Dead() {
  return Error{ErrorCode::kUnavailable, "the harness ended in the middle of its session"};
}

// Is `key` there with that very value? Never throws, whatever the harness sent.
bool Says(const nlohmann::json& answer, const char* key, const nlohmann::json& wanted) {
  const auto found = answer.is_object() ? answer.find(key) : answer.end();
  return answer.is_object() && found != answer.end() && *found == wanted;
}

std::string WhyNot(const nlohmann::json& answer) {
  const auto found = answer.find("error");
  if (found == answer.end()) return "the harness said no and not why";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Start(ProcessSpec spec, std::string key,
                                                Milliseconds limit, const OnTick& on_tick) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Fail(ErrorCode::kUnavailable, "cannot make a socket pair for the session");
  }
  spec.passed_fd = ends[1];
  spec.environment["COEVAL_FD"] = std::to_string(ends[1]);
  const auto pid = StartProcess(spec);
  ::close(ends[1]);
  if (!pid) {
    ::close(ends[0]);
    return Fail(pid.error());
  }
  std::unique_ptr<Session> session(new Session(*pid, ends[0], std::move(key)));
  const auto line = session->ReadLine(limit, on_tick);
  if (!line) return Fail(line.error());
  const auto hello = nlohmann::json::parse(*line, nullptr, false);
  if (!Says(hello, "ready", true)) {
    return Fail(ErrorCode::kInvalidArgument,
                "the harness did not say {\"ready\":true} first but: " + line->substr(0, 200));
  }
  return session;
}

Session::~Session() {
  ::close(fd_);  // A well-behaved harness ends at end of file; the group is ended all the same.
  EndChildGroup(pid_);
}

Result<std::string> Session::ReadLine(Milliseconds limit, const OnTick& on_tick) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    if (const auto newline = buffer_.find('\n'); newline != std::string::npos) {
      std::string line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      return line;
    }
    if (buffer_.size() > kMaxLine)
      return Fail(ErrorCode::kUnavailable, "the harness sent a line over 1 MiB");
    if (std::chrono::steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnknownOutcome,
                  "the harness did not answer within " + FormatShortDuration(limit));
    }
    pollfd polled{fd_, POLLIN, 0};
    const int ready = ::poll(&polled, 1, kTickMilliseconds);
    if (on_tick() == Tick::kStop) return Fail(ErrorCode::kUnknownOutcome, "stopped");
    if (ready <= 0) continue;
    std::array<char, 65536> chunk{};
    const ssize_t got = ::read(fd_, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Fail(Dead());
    buffer_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

Result<> Session::Ask(const std::string& id, const std::string& request_json, Milliseconds limit,
                      const OnTick& on_tick) {
  std::string rest = request_json + "\n";
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Fail(Dead());
    rest.erase(0, static_cast<std::size_t>(sent));
  }
  for (int stray = 0; stray < kMaxStrayLines; ++stray) {
    const auto line = ReadLine(limit, on_tick);
    if (!line) return Fail(line.error());
    const auto answer = nlohmann::json::parse(*line, nullptr, false);
    if (!Says(answer, "id", id)) continue;
    if (Says(answer, "ok", true)) return {};
    return Fail(ErrorCode::kInvalidArgument, WhyNot(answer));
  }
  return Fail(ErrorCode::kUnavailable, "the harness sent 1000 lines and no answer");
}

}  // namespace coeval::evaluator
