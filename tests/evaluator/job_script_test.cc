#include "evaluator/jobs/job_script.h"

#include <gtest/gtest.h>

#include "common/base/process.h"

namespace coeval::evaluator {
namespace {

JobScriptSpec Nasty() {
  return {"/opt/co eval/worker",
          {"--checkpoint", "/c/it's $(rm -rf x) `y` \"z\" \\ *", "--fingerprint", "a\nb"},
          {{"HF_HOME", "/h $HOME 'q'"}}};
}

ProcessExit Feed(std::vector<std::string> argv, const std::string& input) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.environment = {{"PATH", "/usr/bin:/bin"}};
  spec.stdin_text = input;
  return *RunProcess(spec, Milliseconds{30000});
}

// SC2016 asks whether a $ in single quotes is meant; it is.
TEST(JobScript, PassesBashAndShellcheck) {
  EXPECT_EQ(Feed({"bash", "-n"}, JobScript(Nasty())).code, 0);
  const auto checked = Feed({"shellcheck", "--exclude=SC2016", "-"}, JobScript(Nasty()));
  EXPECT_EQ(checked.code, 0) << checked.out;
}

TEST(JobScript, HandsEveryWordOverAsItIs) {
  JobScriptSpec spec = Nasty();
  spec.worker = "/usr/bin/printf";
  spec.arguments.insert(spec.arguments.begin(), "%s|");
  const auto run = Feed({"bash"}, JobScript(spec));
  EXPECT_EQ(run.out, "--checkpoint|/c/it's $(rm -rf x) `y` \"z\" \\ *|--fingerprint|a\nb|");
}

}  // namespace
}  // namespace coeval::evaluator
