// The `session` adapter: one long-lived harness process that is fed pieces of work.
//
// One JSON object a line on the descriptor named in COEVAL_FD (a socket pair), so that a harness's
// chatter on its standard output breaks nothing. The harness says {"ready":true} first; then a
// request {"id":…,"dataset":…,…} is answered by {"id":…,"ok":true} or
// {"id":…,"ok":false,"error":…}.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "common/base/process.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "evaluator/worker/stage_command.h"

namespace coeval::evaluator {

/// Ends its process with itself. Not thread-safe.
class Session {
 public:
  /// Starts the harness and waits until it is ready. `key` tells sessions apart.
  static Result<std::unique_ptr<Session>> Start(ProcessSpec spec, std::string key,
                                                Milliseconds limit, const OnTick& on_tick);
  ~Session();

  /// One piece of work. kUnavailable: the harness is dead (its exit is in the message);
  /// kUnknownOutcome: out of time or told to stop. Either way the session is of no more use.
  Result<> Ask(const std::string& id, const std::string& request_json, Milliseconds limit,
               const OnTick& on_tick);
  const std::string& Key() const { return key_; }

 private:
  Session(pid_t pid, int fd, std::string key) : pid_(pid), fd_(fd), key_(std::move(key)) {}
  Result<std::string> ReadLine(Milliseconds limit, const OnTick& on_tick);

  pid_t pid_;
  int fd_;
  std::string key_, buffer_;
};

}  // namespace coeval::evaluator
