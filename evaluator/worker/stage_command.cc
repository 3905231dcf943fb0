#include "evaluator/worker/stage_command.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>

namespace coeval::evaluator {
namespace {

constexpr int kTickMilliseconds = 200;
constexpr std::chrono::seconds kTermGrace{5};

// Waits up to `milliseconds` for the child to end; its wait status when it has.
std::optional<int> WaitABit(pid_t pid, int pid_fd, int milliseconds) {
  pollfd polled{pid_fd, POLLIN, 0};
  ::poll(&polled, pid_fd >= 0 ? 1 : 0, pid_fd >= 0 ? milliseconds : std::min(milliseconds, 20));
  int status = 0;
  const pid_t got = ::waitpid(pid, &status, WNOHANG);
  if (got == pid) return status;
  // Somebody else reaped it: how it ended is not known, so it did not succeed.
  if (got < 0 && errno != EINTR) return 127 << 8;
  return std::nullopt;
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int OpenPidFd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

std::vector<std::string> WithPrelude(const std::vector<std::string>& prelude,
                                     const std::vector<std::string>& argv) {
  if (prelude.empty()) return argv;
  std::string script;
  for (const std::string& line : prelude) script += line + "\n";
  script += "exec \"$@\"\n";
  std::vector<std::string> whole = {"bash", "-euo", "pipefail", "-c", script, "coeval"};
  whole.insert(whole.end(), argv.begin(), argv.end());
  return whole;
}

void EndChildGroup(pid_t pid) {
  const int pid_fd = OpenPidFd(pid);
  ::kill(-pid, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + kTermGrace;
  bool ended = false;
  while (!ended && std::chrono::steady_clock::now() < deadline) {
    ended = WaitABit(pid, pid_fd, kTickMilliseconds).has_value();
  }
  ::kill(-pid, SIGKILL);
  if (!ended) ::waitpid(pid, nullptr, 0);
  if (pid_fd >= 0) ::close(pid_fd);
}

CommandExit WaitForChild(pid_t pid, Milliseconds limit, const OnTick& on_tick) {
  const int pid_fd = OpenPidFd(pid);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  CommandExit exit;
  while (true) {
    if (const auto status = WaitABit(pid, pid_fd, kTickMilliseconds)) {
      exit.code = ExitCode(*status);
      ::kill(-pid, SIGKILL);  // What it may have left behind in its group.
      break;
    }
    const bool late = std::chrono::steady_clock::now() >= deadline;
    if (!late && on_tick() == Tick::kGoOn) continue;
    exit.kind = late ? CommandExit::Kind::kTimedOut : CommandExit::Kind::kStopped;
    EndChildGroup(pid);
    break;
  }
  if (pid_fd >= 0) ::close(pid_fd);
  return exit;
}

Result<CommandExit> RunStageCommand(const ProcessSpec& spec, Milliseconds limit,
                                    const OnTick& on_tick) {
  const auto pid = StartProcess(spec);
  if (!pid) return Fail(pid.error());
  return WaitForChild(*pid, limit, on_tick);
}

}  // namespace coeval::evaluator
