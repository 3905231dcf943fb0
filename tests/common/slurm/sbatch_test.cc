#include "common/slurm/sbatch.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace coeval::slurm {
namespace {

bool Has(const std::vector<std::string>& arguments, const std::string& wanted) {
  return std::find(arguments.begin(), arguments.end(), wanted) != arguments.end();
}

ProcessExit Exit(int code, std::string out, std::string err) {
  ProcessExit exit;
  exit.code = code;
  exit.out = std::move(out);
  exit.err = std::move(err);
  return exit;
}

TEST(SbatchArguments, SaysTheJobInSbatchsWords) {
  BatchJob job;
  job.key = "trial-1";
  job.qos = "eval";
  job.gpus = 2;
  job.mem_mb = 100;
  job.time_limit = Seconds{3600};
  job.req_nodes = {"n1", "n2"};
  job.signal_before_end = Seconds{60};
  job.tag.role = cluster::Role::kEval;
  job.tag.checkpoint = "/c/step 1";
  const auto arguments = SbatchArguments(job);
  for (const char* wanted :
       {"--parsable", "--comment=coeval:trial-1", "--qos=eval", "--gres=gpu:2", "--mem=100M",
        "--time=01:00:00", "--nodelist=n1,n2", "--signal=B:TERM@60", "--open-mode=append",
        "--no-requeue", "--llm-role=eval", "--llm-checkpoint=/c/step 1"}) {
    EXPECT_TRUE(Has(arguments, wanted)) << wanted;
  }
}

TEST(SbatchArguments, LeavesOutWhatTheSiteSays) {
  BatchJob job;
  job.gpus = 2;
  job.mem_mb = 100;
  job.qos = "eval";
  job.extra_args = {"--gpus-per-node=2", "--mem-per-cpu=4G", "--qos=other"};
  const auto arguments = SbatchArguments(job);
  EXPECT_FALSE(Has(arguments, "--gres=gpu:2"));
  EXPECT_FALSE(Has(arguments, "--mem=100M"));
  EXPECT_FALSE(Has(arguments, "--qos=eval"));
  EXPECT_TRUE(Has(arguments, "--gpus-per-node=2"));
}

TEST(SbatchArguments, HasNoLlmOptionsWithoutThePlugin) {
  BatchJob job;
  job.tag.role = cluster::Role::kEval;
  job.use_llm_options = false;
  for (const std::string& argument : SbatchArguments(job))
    EXPECT_FALSE(argument.starts_with("--llm")) << argument;
}

TEST(ReadSbatchAnswer, TakesAnIdWhateverWasComplained) {
  EXPECT_EQ(ReadSbatchAnswer(Exit(0, "17\n", "sbatch: error: retrying\n"))->value, 17u);
  EXPECT_EQ(ReadSbatchAnswer(Exit(0, "17;cluster\n", ""))->value, 17u);
}

TEST(ReadSbatchAnswer, TellsWhatMayBeDoneNext) {
  const std::pair<const char*, ErrorCode> cases[] = {
      {"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
       ErrorCode::kUnknownOutcome},
      {"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
       "failure)",
       ErrorCode::kUnavailable},
      {"sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: "
       "Job violates accounting/QOS policy",
       ErrorCode::kResourceExhausted},
      {"sbatch: error: Batch job submission failed: Unable to contact slurm controller (send "
       "failure)",
       ErrorCode::kUnknownOutcome},
      {"sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
       ErrorCode::kUnknownOutcome},
      {"sbatch: error: QOSGrpSubmitJobsLimit\nsbatch: error: Batch job submission failed: Job "
       "violates accounting/QOS policy",
       ErrorCode::kResourceExhausted},
      {"sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: Batch job submission failed: "
       "Job violates accounting/QOS policy",
       ErrorCode::kInvalidArgument},
      {"sbatch: error: Batch job submission failed: Invalid qos specification",
       ErrorCode::kInvalidArgument},
      {"sbatch: error: Batch job submission failed: Access/permission denied",
       ErrorCode::kPermissionDenied}};
  for (const auto& [text, code] : cases)
    EXPECT_EQ(ReadSbatchAnswer(Exit(1, "", text)).error().code, code) << text;
}

TEST(ReadSbatchAnswer, DoesNotGuessWithoutAnId) {
  EXPECT_EQ(ReadSbatchAnswer(Exit(0, "", "")).error().code, ErrorCode::kUnknownOutcome);
  ProcessExit late = Exit(143, "", "");
  late.timed_out = true;
  EXPECT_EQ(ReadSbatchAnswer(late).error().code, ErrorCode::kUnknownOutcome);
}

TEST(ReadSbatchAnswer, RecognisesSlurmBug15857) {
  const auto answer = ReadSbatchAnswer(Exit(1, "",
                                            "sbatch: error: Batch job submission failed: Requested "
                                            "node configuration is not available\n"));
  EXPECT_NE(answer.error().message.find("15857"), std::string::npos);
}

}  // namespace
}  // namespace coeval::slurm
