// The evaluator's cycle against the in-memory Slurm: what it submits, and what it does when Slurm
// refuses, loses replies or forgets jobs.
#include "evaluator/service/reconcile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/slurm/twin_gateway.h"
#include "evaluator/service/evaluation_spec.h"

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;
using slurm::TwinGateway;

const char kSuite[] = R"(suite: core
stages:
  inference: {argv: [run, "{checkpoint}", "{dataset}", "{out}"], gpus: 1}
  metric: {argv: [score, "{out}"]}
datasets:
  - {name: a, priors: {inference_s: 10}}
  - {name: b, priors: {inference_s: 10}}
)";

class ReconcileTest : public ::testing::Test {
 protected:
  ReconcileTest() {
    std::string pattern = ::testing::TempDir() + "reconcile.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    fs::create_directories(folder_ / "suites");
    std::ofstream(folder_ / "suites/core.yaml") << kSuite;
    config_.work_dir = folder_ / "work";
    config_.staging = false;
    config_.load_s = 100;
    cluster::Node node;
    node.name = "n1";
    node.cpus = 64;
    node.gpus = 8;
    node.real_memory_mb = 1'000'000;
    twin_.AddNode(node);
    suites_ = std::make_unique<SuiteFolder>(folder_ / "suites");
    EXPECT_TRUE(suites_->Refresh()->empty());
    Restart();
  }
  ~ReconcileTest() override { fs::remove_all(folder_); }

  // As after kill -9: the ledger is opened again, everything in memory is new.
  void Restart() {
    reconciler_.reset();
    ledger_.reset();
    ledger_ = std::move(*Ledger::Open(folder_ / "ledger.db"));
    reconciler_ = std::make_unique<Reconciler>(config_, *ledger_, *suites_, "/w/evaluator.url",
                                               "/bin/coeval-worker", Environment{});
  }

  Gathered See() {
    Gathered gathered;
    gathered.time = clock_.Now();
    gathered.runs = {{"r7", "me", "running", "/ckpt", {"core"}, std::nullopt}};
    for (const auto& [path, fingerprint] : checkpoints_) {
      SeenCheckpoint seen;
      seen.found.path = path;
      seen.found.step = 10;
      seen.found.layout = "hf_safetensors";
      seen.found.complete = true;
      seen.found.changed = clock_.Now();
      seen.fingerprint = fingerprint;
      gathered.run_checkpoints["r7"].push_back(seen);
    }
    gathered.capacity.gpus = gpus_offered_;
    gathered.capacity.reason = "the test says so";
    if (auto jobs = twin_.LoadJobs()) gathered.jobs = *jobs;
    return gathered;
  }

  // One whole cycle, with time passing. Returns the actions.
  std::vector<Action> Cycle() {
    clock_.Advance(Seconds{1});
    Gathered gathered = See();
    clock_.Advance(Milliseconds{10});
    auto actions = reconciler_->Reconcile(std::move(gathered), clock_.Now());
    EXPECT_TRUE(actions) << actions.error().message;
    for (const Action& action : *actions) {
      ActionOutcome outcome{action, Result<cluster::JobId>(action.id)};
      if (action.kind == Action::Kind::kSubmit) outcome.result = twin_.Submit(action.job);
      if (action.kind == Action::Kind::kCancel) {
        EXPECT_TRUE(twin_.Cancel(action.id));
      }
      if (action.kind == Action::Kind::kLiftNodelist) {
        EXPECT_TRUE(twin_.Update(action.id, {.req_nodes = std::vector<std::string>{}}));
      }
      EXPECT_TRUE(reconciler_->Record(outcome, clock_.Now()));
    }
    return *actions;
  }
  std::size_t TrialsInSlurm() {
    std::size_t count = 0;
    const auto jobs = *twin_.LoadJobs();
    for (const auto& job : jobs) count += job.name == "coeval-trial" ? 1 : 0;
    return count;
  }
  std::string WhyHeld() {
    const auto& held = reconciler_->Current().held;
    return held.empty() ? "" : held.front().why;
  }

  ManualClock clock_{TimePoint{Milliseconds{1'700'000'000'000}}};
  TwinGateway twin_{clock_};
  fs::path folder_;
  EvaluatorConfig config_;
  std::map<std::string, std::string> checkpoints_ = {{"/ckpt/step_10", "f10"}};
  std::uint32_t gpus_offered_ = 4;
  std::unique_ptr<SuiteFolder> suites_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Reconciler> reconciler_;
};

TEST_F(ReconcileTest, OneTrialForACheckpointWhoseWorkIsNotWorthTwo) {
  EXPECT_EQ(Cycle().size(), 1u);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Cycle().empty()) << "scanning again queues nothing again";
  const slurm::BatchJob& job = twin_.Submitted().at(0);
  EXPECT_EQ(job.gpus, 1u);
  EXPECT_EQ(job.tag.checkpoint, "/ckpt/step_10");
  EXPECT_NE(job.script.find("--fingerprint' 'f10'"), std::string::npos) << job.script;
}

TEST_F(ReconcileTest, MoreTrialsWhereTheyAreWorthTheirLoad) {
  config_.load_s = 1;
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 2u) << "never more than pieces of work";
}

TEST_F(ReconcileTest, NeverMoreThanTheOfferAndSaysSo) {
  config_.load_s = 1;
  gpus_offered_ = 1;
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
  EXPECT_EQ(WhyHeld(), "no GPUs for evaluation now: the test says so");
  gpus_offered_ = 0;
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
}

TEST_F(ReconcileTest, HoldsBackBeyondTheJobLimit) {
  config_.jobs_max = 1;
  config_.load_s = 1;
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
  EXPECT_EQ(WhyHeld(), "trials wait: job limit 1, 1 used (caps.jobs_max)");
}

TEST_F(ReconcileTest, ALostReplyIsLookedForAndNotSubmittedAgain) {
  twin_.Inject("submit", TwinGateway::Fault::kDropReply);
  Cycle();
  for (int i = 0; i < 5; ++i) Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
  EXPECT_EQ(ledger_->Jobs(false)->at(0).state, "submitted") << "found by its key";
}

TEST_F(ReconcileTest, ALostRequestIsRepeatedOnceItIsCertain) {
  twin_.Inject("submit", TwinGateway::Fault::kDropRequest);
  Cycle();
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 0u) << "it may still arrive";
  clock_.Advance(Seconds{120});
  Cycle();
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
}

TEST_F(ReconcileTest, ARefusalIsTriedLaterAndShown) {
  twin_.Inject("submit", TwinGateway::Fault::kLimit);
  Cycle();
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 0u);
  EXPECT_NE(WhyHeld().find("QOSMaxSubmitJobPerUserLimit"), std::string::npos);
  clock_.Advance(Seconds{20});
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
}

TEST_F(ReconcileTest, AdoptsItsJobsAfterAKill) {
  Cycle();
  Restart();
  for (int i = 0; i < 3; ++i) Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
}

TEST_F(ReconcileTest, FindsAJobWhoseSubmissionItDidNotLiveToSee) {
  clock_.Advance(Seconds{1});
  auto actions = reconciler_->Reconcile(See(), clock_.Now());
  ASSERT_EQ(actions->size(), 1u);
  ASSERT_TRUE(twin_.Submit(actions->at(0).job));  // Submitted, and then killed before Record.
  Restart();
  for (int i = 0; i < 3; ++i) Cycle();
  EXPECT_EQ(TrialsInSlurm(), 1u);
}

TEST_F(ReconcileTest, WorkOfAnEndedJobGoesBackAndGetsAnotherTrial) {
  Cycle();
  twin_.Schedule();
  Cycle();
  const std::string job_id = ledger_->Jobs(false)->at(0).job_id;
  ASSERT_TRUE(*ledger_->Lease(WorkStage::kInference, "f10", job_id, "n1", "w", Seconds{3600},
                              clock_.Now()));
  twin_.Finish({static_cast<std::uint32_t>(std::stoul(job_id))}, cluster::JobState::kPreempted);
  Cycle();
  clock_.Advance(Seconds{10});
  Cycle();
  EXPECT_EQ(TrialsInSlurm(), 2u);
  EXPECT_TRUE(
      *ledger_->Lease(WorkStage::kInference, "f10", "2", "n1", "w", Seconds{30}, clock_.Now()));
}

TEST_F(ReconcileTest, ActsOnNothingWhileSlurmIsAway) {
  twin_.Inject("load", TwinGateway::Fault::kBusy);
  EXPECT_TRUE(Cycle().empty());
  EXPECT_EQ(Cycle().size(), 1u);
}

TEST_F(ReconcileTest, CancelsWhatCanNeverStart) {
  Cycle();
  twin_.MutableJob({1})->state_reason = "BadConstraints";
  const auto actions = Cycle();
  ASSERT_FALSE(actions.empty());
  EXPECT_EQ(actions[0].kind, Action::Kind::kCancel);
  EXPECT_EQ(actions[0].reason, "can never start: BadConstraints");
}

TEST_F(ReconcileTest, LiftsANodeListThatIsWaitedForTooLong) {
  Cycle();
  twin_.MutableJob({1})->req_nodes = {"n1"};
  clock_.Advance(config_.placement_patience + Seconds{5});
  const auto actions = Cycle();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].kind, Action::Kind::kLiftNodelist);
  EXPECT_TRUE(Cycle().empty());
}

TEST_F(ReconcileTest, MetricJobsFollowPendingMetrics) {
  Cycle();
  auto leased =
      *ledger_->Lease(WorkStage::kInference, "f10", "1", "n1", "w", Seconds{30}, clock_.Now());
  ASSERT_TRUE(leased);
  FinishedWork done{leased->work, leased->token, WorkOutcome::kDone, 1, "/o", "", "", {}};
  ASSERT_TRUE(ledger_->Finish(done, config_.retries, clock_.Now()));
  const auto actions = Cycle();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].job.name, "coeval-metric");
  EXPECT_EQ(actions[0].job.gpus, 0u);
}

TEST_F(ReconcileTest, PutsMetricsOnLentCpusFirst) {
  Cycle();
  auto leased =
      *ledger_->Lease(WorkStage::kInference, "f10", "1", "n1", "w", Seconds{30}, clock_.Now());
  FinishedWork done{leased->work, leased->token, WorkOutcome::kDone, 1, "/o", "", "", {}};
  ASSERT_TRUE(ledger_->Finish(done, config_.retries, clock_.Now()));
  Gathered gathered = See();
  gathered.capacity.from_coevald = true;
  gathered.capacity.places = {{"n3", "gpu", "idle", 4, 32, 1000},
                              {"n1", "lend", "lent", 0, 16, 200000}};
  const auto actions = reconciler_->Reconcile(std::move(gathered), clock_.Now());
  ASSERT_EQ(actions->size(), 1u);
  EXPECT_EQ(actions->at(0).job.partition, "lend");
  EXPECT_EQ(actions->at(0).job.req_nodes, (std::vector<std::string>{"n1"}));
}

TEST_F(ReconcileTest, AVanishedCheckpointFailsWithThatReason) {
  Cycle();
  Gathered gathered = See();
  gathered.run_checkpoints.clear();
  gathered.gone_paths = {"/ckpt/step_10"};
  ASSERT_TRUE(reconciler_->Reconcile(std::move(gathered), clock_.Now()));
  EXPECT_EQ(ledger_->Failures("", "")->at(0).error,
            "the checkpoint /ckpt/step_10 was deleted before it was evaluated");
}

TEST_F(ReconcileTest, NamesASuiteThatNobodyKnows) {
  Gathered gathered = See();
  gathered.runs[0].suites = {"cor"};
  ASSERT_TRUE(reconciler_->Reconcile(std::move(gathered), clock_.Now()));
  EXPECT_NE(WhyHeld().find("unknown suite 'cor'; known: core"), std::string::npos);
}

TEST_F(ReconcileTest, ARestartTriesNoFailedWorkAgainUnlessSomeoneAsks) {
  CampaignRow campaign{0, "", clock_.Now(), {"core"}, {"/ckpt/step_10"}, false};
  campaign.id = *ledger_->InsertCampaign(campaign);
  SeenCheckpoint seen = See().run_checkpoints["r7"][0];
  EXPECT_EQ(*reconciler_->EnterCampaign(campaign, seen, true, clock_.Now()), 2);
  ASSERT_TRUE(ledger_->FailCheckpoint("f10", "broken"));
  Restart();
  EXPECT_EQ(*reconciler_->EnterCampaign(campaign, seen, false, clock_.Now()), 0);
  Restart();
  EXPECT_EQ(*reconciler_->EnterCampaign(campaign, seen, true, clock_.Now()), 2);
}

TEST_F(ReconcileTest, ALeaseCarriesAllThatAWorkerNeeds) {
  Cycle();
  const auto leased =
      *ledger_->Lease(WorkStage::kInference, "f10", "1", "n1", "w", Seconds{30}, clock_.Now());
  const auto lease =
      nlohmann::json::parse(LeaseJson(*leased, {"/w/items", Seconds{30}})).at("lease");
  const std::string out = lease.at("out");
  EXPECT_EQ(lease.at("argv"), nlohmann::json({"run", "/ckpt/step_10", leased->dataset, out}));
  EXPECT_TRUE(out.starts_with("/w/items/f10/core/" + leased->dataset + "-")) << out;
  EXPECT_EQ(lease.at("result_reader"), "") << "the metric brings the result";
}

}  // namespace
}  // namespace coeval::evaluator
