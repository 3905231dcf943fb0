#include "evaluator/worker/stage_command.h"

#include <gtest/gtest.h>

namespace coeval::evaluator {
namespace {

ProcessSpec Shell(const std::string& script) {
  ProcessSpec spec;
  spec.argv = {"sh", "-c", script};
  spec.environment = {{"PATH", "/usr/bin:/bin"}};
  return spec;
}
Tick GoOn() { return Tick::kGoOn; }

TEST(RunStageCommand, GivesTheExitCode) {
  EXPECT_EQ(RunStageCommand(Shell("exit 75"), Milliseconds{30000}, GoOn)->code, 75);
  EXPECT_EQ(RunStageCommand(Shell("kill -9 $$"), Milliseconds{30000}, GoOn)->code, 137);
  EXPECT_FALSE(
      RunStageCommand({{"/no/such/program"}, {}, {}, {}, {}, {}, -1}, Milliseconds{1000}, GoOn));
}

TEST(RunStageCommand, EndsAChildThatRunsTooLong) {
  EXPECT_EQ(RunStageCommand(Shell("exec sleep 600"), Milliseconds{10}, GoOn)->kind,
            CommandExit::Kind::kTimedOut);
}

TEST(RunStageCommand, StopsWhenToldTo) {
  int ticks = 0;
  const auto exit = RunStageCommand(Shell("exec sleep 600"), Milliseconds{60000},
                                    [&] { return ++ticks > 2 ? Tick::kStop : Tick::kGoOn; });
  EXPECT_EQ(exit->kind, CommandExit::Kind::kStopped);
}

TEST(WithPrelude, PutsItsLinesBeforeTheCommandInOneShell) {
  const auto argv = WithPrelude({"export GREETING=hi", "cd /"},
                                {"sh", "-c", "echo $GREETING $PWD \"$1\"", "x", "a b"});
  ProcessSpec spec = Shell("");
  spec.argv = argv;
  EXPECT_EQ(RunProcess(spec, Milliseconds{30000})->out, "hi / a b\n");
  spec.argv = WithPrelude({"false"}, {"echo", "never"});
  EXPECT_NE(RunProcess(spec, Milliseconds{30000})->code, 0)
      << "a prelude that fails stops the stage";
  EXPECT_EQ(WithPrelude({}, {"a"}), (std::vector<std::string>{"a"}));
}

}  // namespace
}  // namespace coeval::evaluator
