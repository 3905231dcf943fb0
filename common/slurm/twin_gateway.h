// A tiny Slurm in memory: what tests and the simulator use where daemons use the real one.
//
// It starts pending jobs by priority where they fit, ends them when told or when their time is up,
// and can refuse, delay, drop and lie. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/slurm/gateway.h"

namespace coeval::slurm {

class TwinGateway final : public Gateway {
 public:
  /// The clock must outlive the twin.
  explicit TwinGateway(const Clock& clock) : clock_(clock) {}

  /// What the next call of a verb does instead of working. Faults queue up.
  enum class Fault {
    kRefuse,       // kPermissionDenied, nothing done.
    kBusy,         // kUnavailable, nothing done.
    kLimit,        // kResourceExhausted, nothing done.
    kDropReply,    // Done, but kUnknownOutcome is returned.
    kDropRequest,  // Not done, and kUnknownOutcome is returned.
    kStale,        // Load only: answers with the previous snapshot again.
  };
  /// `verb`: `load`, `submit`, `update`, `cancel`, `requeue` or `ping`.
  void Inject(const std::string& verb, Fault fault);

  void AddNode(cluster::Node node);
  void AddPartition(cluster::Partition partition);
  void AddReservation(cluster::Reservation reservation);
  /// Adds a job as it is (a pending one without an id gets one) and returns its id.
  cluster::JobId AddJob(cluster::Job job);
  /// The live record, to arrange a test; nullptr when unknown.
  cluster::Job* MutableJob(cluster::JobId id);
  cluster::Node* MutableNode(const std::string& name);

  /// One scheduling pass: ends what has run its time, then starts pending jobs, highest priority
  /// first, where CPUs, GPUs and memory allow.
  void Schedule();
  void Finish(cluster::JobId id, cluster::JobState state, std::uint32_t exit_code = 0);

  /// How often a verb was called.
  int Calls(const std::string& verb) const;
  const std::vector<BatchJob>& Submitted() const { return submitted_; }

  Result<cluster::Snapshot> Load() override;
  Result<std::vector<cluster::Job>> LoadJobs() override;
  Result<cluster::JobId> Submit(const BatchJob& job) override;
  Result<> Update(cluster::JobId id, const JobUpdate& update) override;
  Result<> Cancel(cluster::JobId id) override;
  Result<> Requeue(const std::string& display_id) override;
  Result<std::string> Ping() override;

 private:
  std::optional<Fault> NextFault(const std::string& verb);
  void Release(const cluster::Job& job);
  bool TryStart(cluster::Job& job);

  const Clock& clock_;
  cluster::Snapshot state_, previous_;
  std::uint32_t next_id_ = 1;
  std::map<std::string, std::deque<Fault>> faults_;
  std::map<std::string, int> calls_;
  std::vector<BatchJob> submitted_;
};

}  // namespace coeval::slurm
