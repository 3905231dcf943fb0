#include "common/base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

namespace coeval {
namespace {

constexpr Milliseconds kLong{30000};

ProcessSpec Shell(const std::string& script) {
  ProcessSpec spec;
  spec.argv = {"sh", "-c", script};
  spec.environment = {{"PATH", "/usr/bin:/bin"}};
  return spec;
}

TEST(RunProcess, CapturesBothStreamsAndTheExitCode) {
  const auto exit = RunProcess(Shell("echo out; echo err >&2; exit 75"), kLong);
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 75);
  EXPECT_EQ(exit->out, "out\n");
  EXPECT_EQ(exit->err, "err\n");
}

TEST(RunProcess, FeedsInputLargerThanAPipe) {
  ProcessSpec spec = Shell("wc -c");
  spec.stdin_text = std::string(300000, 'x');
  EXPECT_EQ(RunProcess(spec, kLong)->out, "300000\n");
}

TEST(RunProcess, SurvivesAChildThatIgnoresItsInput) {
  ProcessSpec spec = Shell("exec true");
  spec.stdin_text = std::string(1000000, 'x');
  EXPECT_EQ(RunProcess(spec, kLong)->code, 0);
}

TEST(RunProcess, InheritsNothingFromOurEnvironment) {
  setenv("COEVAL_LEAK", "1", 1);
  EXPECT_EQ(RunProcess(Shell("echo ${COEVAL_LEAK-none}"), kLong)->out, "none\n");
}

TEST(RunProcess, EndsTheWholeGroupWhenTimeIsUp) {
  const auto exit = RunProcess(Shell("sleep 600 & sleep 600"), Milliseconds{50});
  ASSERT_TRUE(exit);
  EXPECT_TRUE(exit->timed_out);
  EXPECT_EQ(exit->signal, SIGTERM);
}

TEST(RunProcess, KeepsAtMostOneMebibyteOfOutput) {
  const auto exit = RunProcess(Shell("head -c 3000000 /dev/zero"), kLong);
  EXPECT_EQ(exit->code, 0);
  EXPECT_EQ(exit->out.size(), std::size_t{1} << 20);
}

TEST(RunProcess, SaysWhichProgramCannotBeStarted) {
  ProcessSpec spec = Shell("");
  spec.argv = {"no-such-program"};
  const auto exit = RunProcess(spec, kLong);
  ASSERT_FALSE(exit);
  EXPECT_EQ(exit.error().code, ErrorCode::kNotFound);
  EXPECT_NE(exit.error().message.find("no-such-program"), std::string::npos);
}

TEST(StartProcess, LeadsItsOwnGroup) {
  const auto pid = StartProcess(Shell("exec sleep 600"));
  ASSERT_TRUE(pid);
  EXPECT_EQ(getpgid(*pid), *pid);
  kill(-*pid, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(*pid, &status, 0), *pid);
}

TEST(ScrubbedEnvironment, DropsWhatAnAllocationLeftAndKeepsCaches) {
  const Environment scrubbed = ScrubbedEnvironment({{"SLURM_JOB_ID", "1"},
                                                    {"SBATCH_QOS", "x"},
                                                    {"RANK", "0"},
                                                    {"MASTER_ADDR", "h"},
                                                    {"PMIX_RANK", "0"},
                                                    {"WANDB_RUN_ID", "r"},
                                                    {"COEVAL_ROLE", "pretrain"},
                                                    {"SLURM_CONF", "/c"},
                                                    {"HF_HOME", "/h"},
                                                    {"PATH", "/bin"}});
  EXPECT_EQ(scrubbed, (Environment{{"SLURM_CONF", "/c"}, {"HF_HOME", "/h"}, {"PATH", "/bin"}}));
}

}  // namespace
}  // namespace coeval
