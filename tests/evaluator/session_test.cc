#include "evaluator/worker/session.h"

#include <gtest/gtest.h>

namespace coeval::evaluator {
namespace {

constexpr Milliseconds kLong{30000};
Tick GoOn() { return Tick::kGoOn; }

// A harness in a few lines: chats on stdout, answers on the descriptor.
const char kHarness[] = R"py(
import json, os, sys, time
link = os.fdopen(int(os.environ["COEVAL_FD"]), "r+b", buffering=0)
print("chatter that must break nothing", flush=True)
link.write(b'{"ready": true}\n')
for line in link:
    ask = json.loads(line)
    kind = ask["kind"]
    if kind == "die": sys.exit(3)
    if kind == "hang": time.sleep(600)
    if kind == "stray": link.write(b'not json\n{"id": "other", "ok": true}\n')
    reply = {"id": ask["id"], "ok": kind != "no"}
    if kind == "no": reply["error"] = "cannot"
    if kind == "odd": reply = {"id": ask["id"], "ok": 1, "error": {"code": 7}}
    link.write((json.dumps(reply) + "\n").encode())
)py";

Result<std::unique_ptr<Session>> Start(const std::string& program = kHarness) {
  ProcessSpec spec;
  spec.argv = {"/usr/bin/python3", "-c", program};
  spec.environment = {{"PATH", "/usr/bin:/bin"}};
  spec.stdout_path = spec.stderr_path = "/dev/null";
  return Session::Start(spec, "key", kLong, GoOn);
}

std::string Ask(const std::string& kind) { return R"({"id":"1","kind":")" + kind + "\"}"; }

TEST(Session, IsFedManyPiecesOfWork) {
  auto session = Start();
  ASSERT_TRUE(session) << session.error().message;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE((*session)->Ask("1", Ask("work"), kLong, GoOn));
  EXPECT_TRUE((*session)->Ask("1", Ask("stray"), kLong, GoOn)) << "other lines are passed over";
}

TEST(Session, ANoIsOnesOwnAndTheSessionGoesOn) {
  auto session = Start();
  const auto no = (*session)->Ask("1", Ask("no"), kLong, GoOn);
  EXPECT_EQ(no.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(no.error().message, "cannot");
  EXPECT_TRUE((*session)->Ask("1", Ask("work"), kLong, GoOn));
}

TEST(Session, AnswersOfAnotherTypeAreANoAndNoCrash) {
  auto session = Start();
  EXPECT_EQ((*session)->Ask("1", Ask("odd"), kLong, GoOn).error().message, R"({"code":7})");
  EXPECT_TRUE((*session)->Ask("1", Ask("work"), kLong, GoOn));
}

TEST(Session, NoticesDeathAndSilence) {
  auto dead = Start();
  EXPECT_EQ((*dead)->Ask("1", Ask("die"), kLong, GoOn).error().code, ErrorCode::kUnavailable);
  auto silent = Start();
  EXPECT_EQ((*silent)->Ask("1", Ask("hang"), Milliseconds{50}, GoOn).error().code,
            ErrorCode::kUnknownOutcome);
}

TEST(Session, WantsToHearThatTheHarnessIsReady) {
  EXPECT_FALSE(Start("raise SystemExit(1)"));
  EXPECT_FALSE(
      Start("import os; os.write(int(os.environ['COEVAL_FD']), b'hello\\n'); import time; "
            "time.sleep(60)"));
}

}  // namespace
}  // namespace coeval::evaluator
