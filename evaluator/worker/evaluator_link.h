// The worker's line to its evaluator.
//
// The evaluator's address is read from a file in the shared work folder, again after each failure:
// it may have restarted elsewhere. Every call is retried with back-off until a deadline; leases and
// renewals are safe to repeat, and so is a report (the evaluator knows a token's outcome).
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/http/client.h"
#include "evaluator/worker/lease.h"

namespace coeval::evaluator {

struct WorkerIdentity {
  std::string stage, job_id, node, worker, fingerprint;
};

/// Blocks; one thread at a time.
class EvaluatorLink {
 public:
  /// Once `stop` is set nothing is waited for any more; it must outlive the link.
  EvaluatorLink(std::filesystem::path address_file, std::string munge_socket,
                const std::atomic<bool>& stop)
      : address_file_(std::move(address_file)),
        munge_socket_(std::move(munge_socket)),
        stop_(stop) {}

  Result<LeaseAnswer> AskForWork(const WorkerIdentity& who, Milliseconds patience);
  /// kFailedPrecondition: the lease is lost. kUnavailable after one try: go on, try again later.
  Result<> Renew(std::int64_t item_id, std::int64_t token);
  Result<> Deliver(const Report& report, Milliseconds patience);
  Result<> GiveBack(std::int64_t item_id, std::int64_t token, const std::string& reason);
  /// A POST with a JSON body, once.
  Result<std::string> Post(const std::string& path, const std::string& body);

 private:
  Result<std::string> PostUntil(const std::string& path, const std::string& body,
                                Milliseconds patience);
  Result<> Connect();

  std::filesystem::path address_file_;
  std::string munge_socket_;
  const std::atomic<bool>& stop_;
  std::string address_;
  std::unique_ptr<http::Client> client_;
};

}  // namespace coeval::evaluator
