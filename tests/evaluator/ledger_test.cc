#include "evaluator/ledger/ledger.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <fstream>
#include <random>

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;

const RetryLimits kLimits{2, 3, Seconds{10}};
constexpr Seconds kLease{30};

NewEvaluation Evaluation(const std::string& dataset, int shards = 1, bool metric = true) {
  NewEvaluation evaluation;
  evaluation.dataset = dataset;
  evaluation.settings = "settings";
  evaluation.items = 10 * shards;
  evaluation.run = "r";
  evaluation.spec = R"({"inference":{"gpus":1,"cpus":2,"mem_mb":3}})";
  for (int i = 0; i < shards; ++i) evaluation.shards.push_back({10 * i, 10 * i + 9, 5});
  if (metric) evaluation.metric_cost_s = 1;
  return evaluation;
}

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() {
    std::string pattern = ::testing::TempDir() + "ledger.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    Reopen();
  }
  ~LedgerTest() override { fs::remove_all(folder_); }

  void Reopen() {
    ledger_.reset();
    auto opened = Ledger::Open(folder_ / "ledger.db");
    ASSERT_TRUE(opened) << opened.error().message;
    ledger_ = std::move(*opened);
  }
  void Enter(const std::string& fingerprint, const std::vector<NewEvaluation>& list,
             const std::string& owner = "run:r") {
    CheckpointRow row{fingerprint, "/c/" + fingerprint, 10, "hf_safetensors", Bytes{8}, now_};
    ASSERT_TRUE(ledger_->EnterCheckpoint(row, now_));
    ASSERT_TRUE(ledger_->EnsureEvaluations(owner, fingerprint, "core", list, false, now_));
  }
  std::optional<LeasedWork> Lease(WorkStage stage = WorkStage::kInference) {
    return *ledger_->Lease(stage, "", "job1", "n1", "w", kLease, now_);
  }
  FinishedWork Done(const LeasedWork& leased) {
    FinishedWork finished{leased.work,
                          leased.token,
                          WorkOutcome::kDone,
                          2.0,
                          "/out/" + std::to_string(leased.token),
                          "",
                          "",
                          {}};
    if (leased.stage == WorkStage::kMetric)
      finished.score = Score{"acc", 0.5, R"({"acc":0.5})", 10};
    return finished;
  }
  Result<> Finish(FinishedWork finished) { return ledger_->Finish(finished, kLimits, now_); }
  FinishedWork With(const LeasedWork& leased, WorkOutcome outcome) {
    FinishedWork finished{leased.work, leased.token, outcome, 1.0, "", "why", "tail", {}};
    return finished;
  }
  Progress Only() { return ledger_->ProgressOfAll()->at(0); }

  TimePoint now_{Milliseconds{1'000'000'000}};
  fs::path folder_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(LedgerTest, InferenceThenMetricThenAResultWithItsFeedbackDelay) {
  Enter("f", {Evaluation("a")});
  EXPECT_FALSE(Lease(WorkStage::kMetric)) << "the metric waits for its predictions";
  const auto inference = Lease();
  ASSERT_TRUE(inference);
  ASSERT_TRUE(Finish(Done(*inference)));
  const auto metric = Lease(WorkStage::kMetric);
  ASSERT_TRUE(metric);
  EXPECT_EQ(metric->predictions,
            (std::vector<std::string>{"/out/" + std::to_string(inference->token)}));
  now_ += Seconds{7};
  ASSERT_TRUE(Finish(Done(*metric)));
  const auto results = *ledger_->Results("run:r", "core");
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].value, 0.5);
  EXPECT_DOUBLE_EQ(results[0].feedback_delay_s, 7);
  EXPECT_EQ(results[0].inference->job_id, "job1");
  EXPECT_EQ(Only().done, 1);
}

TEST_F(LedgerTest, EnteringTwiceQueuesNothingTwice) {
  Enter("f", {Evaluation("a"), Evaluation("b")});
  EXPECT_EQ(*ledger_->EnsureEvaluations("run:r", "f", "core", {Evaluation("a"), Evaluation("b")},
                                        false, now_),
            0);
  EXPECT_EQ(*ledger_->EnsureEvaluations("campaign:1", "f", "core",
                                        {Evaluation("a"), Evaluation("c")}, false, now_),
            1);
  EXPECT_EQ(ledger_->OutstandingInference(now_)->at(0).pending, 3);
}

TEST_F(LedgerTest, MetricWaitsForAllShardsInOrder) {
  Enter("f", {Evaluation("a", 3)});
  const auto one = Lease(), two = Lease(), three = Lease();
  ASSERT_TRUE(Finish(Done(*three)));
  ASSERT_TRUE(Finish(Done(*one)));
  EXPECT_FALSE(Lease(WorkStage::kMetric));
  ASSERT_TRUE(Finish(Done(*two)));
  const auto metric = Lease(WorkStage::kMetric);
  ASSERT_TRUE(metric);
  EXPECT_EQ(metric->predictions.size(), 3u);
  EXPECT_EQ(metric->predictions[0], "/out/" + std::to_string(one->token));
  EXPECT_FALSE(Lease(WorkStage::kMetric)) << "exactly one merges";
}

TEST_F(LedgerTest, AStaleTokenIsRefusedWhateverItBrings) {
  Enter("f", {Evaluation("a")});
  const auto first = Lease();
  now_ += kLease + Seconds{1};
  EXPECT_EQ(*ledger_->ExpireLeases(kLimits, now_), 1);
  now_ += Seconds{60};
  const auto second = Lease();
  ASSERT_TRUE(second);
  EXPECT_GT(second->token, first->token);
  EXPECT_EQ(Finish(Done(*first)).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(ledger_->Renew(first->work, first->token, kLease, now_).error().code,
            ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(ledger_->Renew(second->work, second->token, kLease, now_));
  EXPECT_TRUE(Finish(Done(*second)));
}

TEST_F(LedgerTest, DeliveringTheSameOutcomeTwiceIsFine) {
  Enter("f", {Evaluation("a")});
  const auto leased = Lease();
  ASSERT_TRUE(Finish(Done(*leased)));
  EXPECT_TRUE(Finish(Done(*leased)));
  EXPECT_FALSE(Finish(With(*leased, WorkOutcome::kFailed)));
  const auto metric = Lease(WorkStage::kMetric);
  ASSERT_TRUE(Finish(Done(*metric)));
  EXPECT_TRUE(Finish(Done(*metric)));
  EXPECT_EQ(*ledger_->CountResults(), 1);
}

TEST_F(LedgerTest, FailuresBackOffAndGiveUp) {
  Enter("f", {Evaluation("a")});
  ASSERT_TRUE(Finish(With(*Lease(), WorkOutcome::kFailed)));
  EXPECT_FALSE(Lease()) << "back-off";
  now_ += Seconds{11};
  ASSERT_TRUE(Finish(With(*Lease(), WorkOutcome::kFailed)));
  EXPECT_EQ(Only().failed, 1);
  const auto failures = *ledger_->Failures("run:r", "");
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].error, "why");
  EXPECT_EQ(failures[0].log_tail, "tail");
  // A person who asks again gets it again.
  EXPECT_EQ(*ledger_->EnsureEvaluations("campaign:1", "f", "core", {Evaluation("a")}, true, now_),
            1);
  EXPECT_TRUE(Lease());
}

TEST_F(LedgerTest, AFailedMetricRunsAgainWithoutInference) {
  Enter("f", {Evaluation("a")});
  ASSERT_TRUE(Finish(Done(*Lease())));
  ASSERT_TRUE(Finish(With(*Lease(WorkStage::kMetric), WorkOutcome::kFailed)));
  now_ += Seconds{11};
  EXPECT_FALSE(Lease()) << "no GPU is asked for";
  const auto again = Lease(WorkStage::kMetric);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->predictions.size(), 1u);
  ASSERT_TRUE(Finish(With(*again, WorkOutcome::kFailed)));
  EXPECT_FALSE(ledger_->Failures("", "")->at(0).predictions.empty()) << "says where they are";
}

TEST_F(LedgerTest, ReturnedWorkCountsAgainstNothing) {
  Enter("f", {Evaluation("a")});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Finish(With(*Lease(), WorkOutcome::kReturned)));
  EXPECT_TRUE(Lease());
}

TEST_F(LedgerTest, AWorkerThatVanishesForEverEndsInAFailure) {
  Enter("f", {Evaluation("a")});
  for (int i = 0; i < kLimits.lost_max; ++i) {
    ASSERT_TRUE(Lease()) << i;
    EXPECT_EQ(*ledger_->ReleaseJob("job1", kLimits, now_), 1);
    now_ += Seconds{1000};
  }
  EXPECT_FALSE(Lease());
  EXPECT_EQ(Only().failed, 1);
}

TEST_F(LedgerTest, UndecoupledHarnessBringsItsResultWithInference) {
  Enter("f", {Evaluation("a", 1, false)});
  const auto leased = Lease();
  EXPECT_FALSE(Finish(Done(*leased))) << "done without a result is no success";
  FinishedWork finished = Done(*leased);
  finished.score = Score{"acc", 0.25, "{}", 10};
  ASSERT_TRUE(Finish(finished));
  EXPECT_EQ(*ledger_->CountResults(), 1);
}

TEST_F(LedgerTest, NewestCheckpointAndPlannersOrderComeFirst) {
  NewEvaluation late = Evaluation("late"), early = Evaluation("early");
  late.place = 2;
  early.place = 1;
  Enter("old", {late, early});
  now_ += Seconds{100};
  Enter("new", {late, early});
  EXPECT_EQ(Lease()->dataset, "early");
  const auto second = Lease();
  EXPECT_EQ(second->fingerprint, "new");
  EXPECT_EQ(second->dataset, "late");
  EXPECT_EQ(Lease()->fingerprint, "old");
}

TEST_F(LedgerTest, CancelsOnlyWhatNobodyElseWants) {
  Enter("f", {Evaluation("a"), Evaluation("b")});
  ASSERT_TRUE(
      ledger_->EnsureEvaluations("campaign:1", "f", "core", {Evaluation("a")}, false, now_));
  EXPECT_EQ(*ledger_->Cancel("run:r", now_), 2) << "b's inference and metric";
  EXPECT_EQ(Lease()->dataset, "a");
  EXPECT_FALSE(Lease());
}

TEST_F(LedgerTest, AVanishedCheckpointFailsOnlyWhatNeedsIt) {
  Enter("f", {Evaluation("a"), Evaluation("b")});
  ASSERT_TRUE(Finish(Done(*Lease())));
  EXPECT_GT(*ledger_->FailCheckpoint("f", "deleted"), 0);
  EXPECT_TRUE(Lease(WorkStage::kMetric)) << "what is inferred is still scored";
  EXPECT_EQ(ledger_->Failures("", "")->at(0).error, "deleted");
}

TEST_F(LedgerTest, LearnsWhatStagesCost) {
  for (const char* fingerprint : {"f1", "f2", "f3"}) Enter(fingerprint, {Evaluation("a", 2)});
  while (const auto leased = Lease()) {
    FinishedWork finished = Done(*leased);
    finished.seconds = leased->fingerprint == "f1" ? 100 : 4;
    ASSERT_TRUE(Finish(finished));
  }
  EXPECT_EQ(*ledger_->LearnedCost("a", "settings", WorkStage::kInference), 8)
      << "the median of both shards' sums";
  EXPECT_EQ(*ledger_->LearnedCost("a", "settings", WorkStage::kMetric), std::nullopt);
}

TEST_F(LedgerTest, JobsAreKnownFromIntentToEnd) {
  JobRow row;
  row.key = "k";
  row.created_at = now_;
  ASSERT_TRUE(ledger_->InsertJob(row));
  EXPECT_FALSE(ledger_->InsertJob(row)) << "a key is used once";
  Reopen();
  EXPECT_EQ(ledger_->Jobs(false)->at(0).state, "intent");
  ASSERT_TRUE(ledger_->SetJobSubmitted("k", "17"));
  ASSERT_TRUE(ledger_->ForgetJob("k"));
  EXPECT_EQ(ledger_->Jobs(false)->at(0).job_id, "17") << "only an intent can be forgotten";
  ASSERT_TRUE(ledger_->SetJobEnded("k", "COMPLETED", now_));
  EXPECT_TRUE(ledger_->Jobs(false)->empty());
  EXPECT_EQ(ledger_->Jobs(true)->at(0).outcome, "COMPLETED");
}

TEST_F(LedgerTest, RefusesFilesThatAreNoLedger) {
  std::ofstream(folder_ / "text.db")
      << "this is no database, and long enough to be looked at as one ......";
  const auto text = Ledger::Open(folder_ / "text.db");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(text.error().message.find("text.db"), std::string::npos);
  EXPECT_NE(text.error().message.find("restore it"), std::string::npos);
  EXPECT_FALSE(Ledger::Open(folder_ / "no/such/folder.db"));

  sqlite3* db = nullptr;
  sqlite3_open((folder_ / "newer.db").c_str(), &db);
  sqlite3_exec(db, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_EQ(Ledger::Open(folder_ / "newer.db").error().code, ErrorCode::kFailedPrecondition);
}

// Whatever workers do and whenever the process dies: no work is lost and no result comes twice.
TEST_F(LedgerTest, PropertyEveryEvaluationEndsExactlyOnce) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const std::string fingerprint = "f" + std::to_string(seed);
    std::vector<NewEvaluation> list;
    for (int i = 0; i < 6; ++i)
      list.push_back(
          Evaluation("d" + std::to_string(i), 1 + static_cast<int>(random() % 3), i % 3 != 0));
    Enter(fingerprint, list, "run:" + fingerprint);
    std::vector<LeasedWork> held, stale;
    const RetryLimits patient{1000, 1000, Seconds{0}};
    for (int step = 0; step < 3000; ++step) {
      now_ += Seconds{1};
      const auto stage = random() % 2 == 0 ? WorkStage::kInference : WorkStage::kMetric;
      const auto action = random() % 10;
      if (action < 4) {
        if (auto leased = *ledger_->Lease(stage, fingerprint, "j" + std::to_string(random() % 3),
                                          "n", "w", kLease, now_))
          held.push_back(*leased);
      } else if (action < 8 && !held.empty()) {
        const LeasedWork leased = held.back();
        held.pop_back();
        FinishedWork finished = Done(leased);
        if (!finished.score &&
            list[static_cast<std::size_t>(leased.dataset[1] - '0')].metric_cost_s == std::nullopt) {
          finished.score = Score{"acc", 0.5, "{}", 10};
        }
        if (action == 7) finished.outcome = static_cast<WorkOutcome>(1 + random() % 3);
        static_cast<void>(ledger_->Finish(finished, patient, now_)
                              .has_value());  // May be stale: that is the point.
        stale.push_back(leased);
      } else if (action == 8) {
        ASSERT_TRUE(ledger_->ReleaseJob("j" + std::to_string(random() % 3), patient, now_));
        ASSERT_TRUE(ledger_->ExpireLeases(patient, now_));
      } else if (!stale.empty() && random() % 2 == 0) {
        static_cast<void>(
            ledger_->Finish(Done(stale[random() % stale.size()]), patient, now_).has_value());
      } else if (step % 50 == 0) {
        Reopen();  // As after kill -9.
      }
    }
    const auto results = *ledger_->Results("run:" + fingerprint, "");
    std::map<std::string, int> count;
    for (const auto& result : results) ++count[result.dataset];
    for (const auto& evaluation : list)
      EXPECT_EQ(count[evaluation.dataset], 1) << evaluation.dataset << " seed " << seed;
    EXPECT_EQ(*ledger_->PendingMetrics(now_).map(
                  [](const MetricDemand& demand) { return demand.pending; }),
              0);
  }
}

}  // namespace
}  // namespace coeval::evaluator
