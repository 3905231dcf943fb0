#include "scheduler/policy/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace coeval::scheduler {
namespace {

TEST(GlobMatches, KnowsStarsAndQuestionMarks) {
  EXPECT_TRUE(GlobMatches("eval*", "eval-mmlu"));
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("a?c", "abc"));
  EXPECT_TRUE(GlobMatches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(GlobMatches("eval", "evaluate"));
  EXPECT_FALSE(GlobMatches("a?c", "ac"));
  EXPECT_FALSE(GlobMatches("", "x"));
}

TEST(GlobMatches, StaysQuickOnHostilePatterns) {
  EXPECT_FALSE(GlobMatches("a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace coeval::scheduler
