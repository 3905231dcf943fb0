// The deciding half of a cycle: what the ledger and Slurm must be told, given what was seen.
//
// Runs on the event loop and touches nothing but the ledger; what it wants of Slurm it returns as
// actions, whose outcomes come back through Record. Each submission's row is in the ledger before
// the submission happens, under a unique key that the job's comment carries: after a crash or a
// timeout the job is found by its key and not submitted twice (field cases G26, E19).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "evaluator/service/config.h"
#include "evaluator/service/gather.h"
#include "evaluator/suite/suite_folder.h"

namespace coeval::evaluator {

struct Action {
  enum class Kind { kSubmit, kCancel, kLiftNodelist } kind = Kind::kSubmit;
  std::string key;      // kSubmit
  slurm::BatchJob job;  // kSubmit
  cluster::JobId id;    // The others.
  std::string reason;
};

struct ActionOutcome {
  Action action;
  Result<cluster::JobId> result;  // Of kSubmit; the others' error, if any.
};

/// Why work waits although there is some.
struct Held {
  std::int64_t count = 0;
  std::string why;
};

/// What the API shows besides the ledger.
struct Picture {
  Gathered gathered;
  std::vector<Held> held;
  bool fresh = false;  // False until the first cycle is over.
};

class Reconciler {
 public:
  Reconciler(const EvaluatorConfig& config, Ledger& ledger, SuiteFolder& suites,
             std::string address_file, std::string worker, Environment environment);

  /// What to look at next.
  Result<GatherRequest> Request();
  /// Brings the ledger up to what was seen and says what to do.
  Result<std::vector<Action>> Reconcile(Gathered gathered, TimePoint now);
  Result<> Record(const ActionOutcome& outcome, TimePoint now);

  const Picture& Current() const { return picture_; }
  /// A precursor's word; true: keep the copy.
  bool NoteStaging(const std::string& node, const std::string& fingerprint,
                   const std::string& state);
  /// Jobs to be cancelled at the next cycle because someone asked.
  void CancelJob(const std::string& job_id) { cancel_requested_.insert(job_id); }
  /// Enters the work of a campaign, when someone submits it or when its checkpoint has become
  /// complete. Only who asks now (`retry_failed`) has failed work tried again.
  Result<int> EnterCampaign(const CampaignRow& campaign, const SeenCheckpoint& seen,
                            bool retry_failed, TimePoint now);

 private:
  Result<> FollowJobs(const Gathered& gathered, TimePoint now);
  Result<> FollowJob(const JobRow& row, const Gathered& gathered, TimePoint now);
  Result<> EnterWork(const Gathered& gathered, TimePoint now);
  Result<int> EnterCheckpoint(const std::string& owner, const std::vector<std::string>& suites,
                              const std::string& run, const SeenCheckpoint& seen, bool retry_failed,
                              TimePoint earliest, TimePoint now);
  Result<> PlanTrials(TimePoint now, std::vector<Action>* actions);
  Result<> PlanMetrics(TimePoint now, std::vector<Action>* actions);
  Result<> PlanCancels(TimePoint now, std::vector<Action>* actions);
  Result<> AddSubmission(JobKind kind, const std::string& fingerprint, const Place& place,
                         slurm::BatchJob job, TimePoint now, std::vector<Action>* actions);
  Result<> AddPrecursor(const CheckpointRow& checkpoint, const Place& place, TimePoint now,
                        std::vector<Action>* actions);
  struct Room {
    std::uint32_t gpus = 0, trials = 0;  // trials: those there are.
    std::vector<Place> places;
  };
  Room CurrentRoom() const;
  std::string WhyNoTrial(const Outstanding& work, const Room& room, TimePoint now) const;
  std::string WhyNoJob(const std::string& kind) const;
  std::optional<Place> TakePlace(const Outstanding& work, Room* room) const;
  Result<> AddTrial(const Outstanding& work, const CheckpointRow& checkpoint, const Place& place,
                    TimePoint now, std::vector<Action>* actions);
  void NoteNeeded(const std::vector<Outstanding>& outstanding);
  slurm::BatchJob NewJob(JobKind kind, const JobDirectives& directives) const;
  std::vector<std::string> WorkerArguments(const std::string& stage) const;
  bool IsStaged(const std::string& node, const std::string& fingerprint) const;

  const EvaluatorConfig& config_;
  Ledger& ledger_;
  SuiteFolder& suites_;
  std::string address_file_, worker_;
  Environment environment_;
  Picture picture_;
  std::vector<JobRow> jobs_;       // Not ended; read once a cycle.
  std::set<std::string> entered_;  // owner, fingerprint, suite stamp: already in the ledger.
  std::map<std::string, TimePoint> submitted_at_;  // By key.
  std::set<std::string> needed_;                   // Fingerprints with inference left.
  std::map<std::string, std::string> staging_;     // "node fingerprint" -> state
  std::set<std::string> cancel_requested_;
  std::map<std::string, std::string> failed_staging_;
  TimePoint no_submissions_before_{};  // Back-off after Slurm said "later".
  std::string submit_fault_;
};

}  // namespace coeval::evaluator
