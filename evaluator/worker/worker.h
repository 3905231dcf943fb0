// The worker: lease, run, report, until nothing is left or it is told to go.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "common/base/process.h"
#include "evaluator/worker/evaluator_link.h"
#include "evaluator/worker/session.h"

namespace coeval::evaluator {

struct WorkerOptions {
  WorkerIdentity identity;
  std::filesystem::path staging_root;  // Empty: no staging.
  Milliseconds idle{5000};             // How long to wait for more work before leaving.
  Milliseconds patience{300000};       // How long an absent evaluator is waited for.
  Environment environment;             // What stages start from.
};

/// One process, one thread. `stop` is set by a signal handler; it must outlive the worker.
class Worker {
 public:
  Worker(WorkerOptions options, EvaluatorLink& link, const std::atomic<bool>& stop)
      : options_(std::move(options)), link_(link), stop_(stop) {}

  /// Runs to the end. kUnavailable when the evaluator stayed away.
  Result<> Run();

 private:
  Report RunLease(const Lease& lease);
  Report RunCommand(const Lease& lease, const ProcessSpec& spec, const OnTick& on_tick);
  Report RunSession(const Lease& lease, ProcessSpec spec, const OnTick& on_tick);
  Result<ProcessSpec> Prepare(const Lease& lease);
  OnTick Heartbeat(const Lease& lease);

  WorkerOptions options_;
  EvaluatorLink& link_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<Session> session_;
  bool lease_lost_ = false;
};

}  // namespace coeval::evaluator
