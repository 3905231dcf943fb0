// Running a stage's command: a child process group with a time limit that can be told to stop.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/process.h"
#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval::evaluator {

/// Asked about five times a second while a child runs; anything but kGoOn ends it.
enum class Tick { kGoOn, kStop };
using OnTick = std::function<Tick()>;

struct CommandExit {
  enum class Kind { kExited, kTimedOut, kStopped } kind = Kind::kExited;
  int code = 0;  // Exit status, or 128 + signal.
};

/// The argv with the suite's prelude in front: `bash -c 'prelude…; exec "$@"' argv…`.
std::vector<std::string> WithPrelude(const std::vector<std::string>& prelude,
                                     const std::vector<std::string>& argv);

/// Waits for a child that leads its own process group. On stop or time-out the group gets SIGTERM,
/// and SIGKILL five seconds later.
CommandExit WaitForChild(pid_t pid, Milliseconds limit, const OnTick& on_tick);

Result<CommandExit> RunStageCommand(const ProcessSpec& spec, Milliseconds limit,
                                    const OnTick& on_tick);

/// Ends a child's whole process group and reaps the child.
void EndChildGroup(pid_t pid);

}  // namespace coeval::evaluator
