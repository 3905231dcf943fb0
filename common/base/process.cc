#include "common/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

extern char** environ;

namespace coeval {
namespace {

constexpr std::size_t kMaxCaptured = 1 << 20;
// How long a child has between SIGTERM and SIGKILL once its time is up.
constexpr Milliseconds kTermGrace{2000};

// A descriptor that is closed at the latest when its owner goes.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { Close(); }
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read, write;
  bool Open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read.Reset(ends[0]);
    write.Reset(ends[1]);
    return true;
  }
};

Error StartError(const std::string& program, int number) {
  return Error{number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
               "cannot start " + program + ": " + std::strerror(number)};
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What the child needs, made before fork: after it only async-signal-safe calls are allowed.
struct ChildPlan {
  std::string program;
  std::vector<std::string> argv, environment;
  std::vector<char*> argv_pointers, environment_pointers;
};

// argv[0] with the child's PATH applied, so that execve (async-signal-safe) can be used.
std::string FindProgram(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) return name;
  const auto path = environment.find("PATH");
  std::string_view folders =
      path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : std::string_view(path->second);
  while (!folders.empty()) {
    const auto colon = folders.find(':');
    const std::string candidate = std::string(folders.substr(0, colon)) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) break;
    folders.remove_prefix(colon + 1);
  }
  return name;
}

ChildPlan MakePlan(const ProcessSpec& spec) {
  ChildPlan plan;
  plan.program = FindProgram(spec.argv.front(), spec.environment);
  plan.argv = spec.argv;
  for (const auto& [name, value] : spec.environment) plan.environment.push_back(name + "=" + value);
  plan.argv_pointers = Pointers(plan.argv);
  plan.environment_pointers = Pointers(plan.environment);
  return plan;
}

bool Redirect(const std::string& path, int target) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) return false;
  const bool done = ::dup2(fd, target) >= 0;
  ::close(fd);
  return done;
}

struct Wiring {
  int in = -1, out = -1, err = -1;  // -1: leave as it is.
};

// Runs in the child. Reports errno through `report` when it cannot become the program.
[[noreturn]] void BecomeProgram(const ProcessSpec& spec, const ChildPlan& plan,
                                const Wiring& wiring, int report) {
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  bool ready = true;
  if (wiring.in >= 0) ready = ready && ::dup2(wiring.in, STDIN_FILENO) >= 0;
  if (wiring.out >= 0) ready = ready && ::dup2(wiring.out, STDOUT_FILENO) >= 0;
  if (wiring.err >= 0) ready = ready && ::dup2(wiring.err, STDERR_FILENO) >= 0;
  if (!spec.stdout_path.empty()) ready = ready && Redirect(spec.stdout_path, STDOUT_FILENO);
  if (!spec.stderr_path.empty()) ready = ready && Redirect(spec.stderr_path, STDERR_FILENO);
  if (spec.passed_fd >= 0) ready = ready && ::fcntl(spec.passed_fd, F_SETFD, 0) == 0;
  if (!spec.working_directory.empty())
    ready = ready && ::chdir(spec.working_directory.c_str()) == 0;
  if (ready)
    ::execve(plan.program.c_str(), plan.argv_pointers.data(), plan.environment_pointers.data());
  const int number = errno;
  [[maybe_unused]] const ssize_t ignored = ::write(report, &number, sizeof number);
  ::_exit(127);
}

Result<pid_t> Start(const ProcessSpec& spec, const Wiring& wiring) {
  if (spec.argv.empty()) return Fail(ErrorCode::kInvalidArgument, "cannot start an empty command");
  const ChildPlan plan = MakePlan(spec);
  Pipe report;
  if (!report.Open()) return Fail(StartError(spec.argv[0], errno));
  const pid_t pid = ::fork();
  if (pid < 0) return Fail(StartError(spec.argv[0], errno));
  if (pid == 0) BecomeProgram(spec, plan, wiring, report.write.get());
  ::setpgid(pid, pid);  // Both sides do it, so that neither has to wait for the other.
  report.write.Close();
  int number = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.read.get(), &number, sizeof number);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof number) {
    ::waitpid(pid, nullptr, 0);
    return Fail(StartError(spec.argv[0], number));
  }
  return pid;
}

using Instant = std::chrono::steady_clock::time_point;

int MillisecondsUntil(Instant deadline) {
  const auto left =
      std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3600 * 1000));
}

// Reads what is there; false at the end of the stream.
bool Drain(int fd, std::string* into) {
  char buffer[16384];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  const std::size_t room = kMaxCaptured - std::min(kMaxCaptured, into->size());
  into->append(buffer, std::min(room, static_cast<std::size_t>(got)));
  return true;
}

// Feeds and reads the child until it closed both streams or the deadline passed; true if it closed.
bool Converse(std::string_view input, Fd* in, Fd* out, Fd* err, ProcessExit* exit,
              Instant deadline) {
  while (out->get() >= 0 || err->get() >= 0) {
    std::array<pollfd, 3> polled = {pollfd{out->get(), POLLIN, 0}, pollfd{err->get(), POLLIN, 0},
                                    pollfd{in->get(), POLLOUT, 0}};
    const int left = MillisecondsUntil(deadline);
    if (left == 0) return false;
    if (::poll(polled.data(), polled.size(), left) < 0 && errno != EINTR) return false;
    if (polled[0].revents != 0 && !Drain(out->get(), &exit->out)) out->Close();
    if (polled[1].revents != 0 && !Drain(err->get(), &exit->err)) err->Close();
    if (polled[2].revents != 0) {
      const ssize_t written = ::write(in->get(), input.data(), input.size());
      if (written > 0) input.remove_prefix(static_cast<std::size_t>(written));
      if (input.empty() || (written < 0 && errno != EAGAIN && errno != EINTR)) in->Close();
    }
  }
  return true;
}

// Waits for the child until the deadline; nullopt when it still runs then.
std::optional<int> WaitUntil(pid_t pid, Instant deadline) {
  while (true) {
    int status = 0;
    const pid_t got = ::waitpid(pid, &status, WNOHANG);
    if (got == pid) return status;
    if (got < 0 && errno != EINTR) return 0;
    if (MillisecondsUntil(deadline) == 0) return std::nullopt;
    ::poll(nullptr, 0, 5);
  }
}

int EndGroup(pid_t pid) {
  ::kill(-pid, SIGTERM);
  auto status = WaitUntil(pid, std::chrono::steady_clock::now() + kTermGrace);
  ::kill(-pid, SIGKILL);
  while (!status) status = WaitUntil(pid, std::chrono::steady_clock::now() + kTermGrace);
  return *status;
}

void SetExit(int status, ProcessExit* exit) {
  exit->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + exit->signal;
}

bool StartsWithAny(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](auto prefix) { return name.starts_with(prefix); });
}

bool IsLeftBehind(std::string_view name) {
  if (name == "SLURM_CONF") return false;
  if (StartsWithAny(name, {"SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "PMI",
                           "PMIX_", "OMPI_", "MPI_", "MV2_", "WANDB_", "MLFLOW_", "COMET_",
                           "COEVAL_", "TORCHELASTIC_", "_SLURM_"})) {
    return true;
  }
  constexpr std::string_view kExact[] = {"RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_RANK",
                                         "LOCAL_WORLD_SIZE",
                                         "GROUP_RANK",
                                         "NODE_RANK",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "CUDA_VISIBLE_DEVICES",
                                         "GPU_DEVICE_ORDINAL",
                                         "ROCR_VISIBLE_DEVICES",
                                         "TMPDIR"};
  return std::find(std::begin(kExact), std::end(kExact), name) != std::end(kExact);
}

}  // namespace

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Environment ScrubbedEnvironment(const Environment& from) {
  Environment kept;
  for (const auto& [name, value] : from) {
    if (!IsLeftBehind(name)) kept.emplace(name, value);
  }
  return kept;
}

Result<ProcessExit> RunProcess(const ProcessSpec& spec, Milliseconds timeout) {
  const Instant deadline = std::chrono::steady_clock::now() + timeout;
  Pipe in, out, err;
  if (!in.Open() || !out.Open() || !err.Open())
    return Fail(StartError(spec.argv.empty() ? "" : spec.argv[0], errno));
  // A child that does not read its input must not end us: writes are non-blocking, SIGPIPE is off.
  ::fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, nullptr, &before);
  if (before.sa_handler == SIG_DFL) ::sigaction(SIGPIPE, &ignore, nullptr);

  const auto pid = Start(spec, Wiring{in.read.get(), out.write.get(), err.write.get()});
  if (!pid) return Fail(pid.error());
  in.read.Close();
  out.write.Close();
  err.write.Close();
  if (spec.stdin_text.empty()) in.write.Close();

  ProcessExit exit;
  std::optional<int> status;
  if (Converse(spec.stdin_text, &in.write, &out.read, &err.read, &exit, deadline))
    status = WaitUntil(*pid, deadline);
  if (!status) {
    exit.timed_out = true;
    status = EndGroup(*pid);
  }
  SetExit(*status, &exit);
  return exit;
}

Result<pid_t> StartProcess(const ProcessSpec& spec) { return Start(spec, Wiring{}); }

}  // namespace coeval
