#include "common/cluster/tag.h"

#include <gtest/gtest.h>

namespace coeval::cluster {
namespace {

TEST(Tag, SurvivesARoundTrip) {
  const std::string text =
      R"({"coeval":1,"role":"pretrain","run":"r7","checkpoints":"/c","suite":"a,b",)"
      R"("lend":{"cpus":16,"mem_mb":204800},"deadline_s":600,"recover":-1})";
  const auto tag = ParseTag(text);
  ASSERT_TRUE(tag && *tag);
  EXPECT_EQ((*tag)->role, Role::kPretrain);
  EXPECT_EQ((*tag)->suites, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((*tag)->lend->mem_mb, 204800u);
  EXPECT_EQ(FormatTag(**tag), text);
}

TEST(Tag, IsAbsentWhereTextIsNotOurs) {
  for (const char* text : {"", "hello", "{}", R"({"other":1})", "{broken", "[1]"}) {
    const auto tag = ParseTag(text);
    ASSERT_TRUE(tag) << text;
    EXPECT_FALSE(tag->has_value()) << text;
  }
}

TEST(Tag, IsCorruptWhereItClaimsToBeOurs) {
  for (const char* text :
       {R"({"coeval":1,"role":"boss"})", R"({"coeval":1,"lend":"all"})",
        R"({"coeval":1,"deadline_s":"soon"})", R"({"coeval":1,"lend":{"cpus":-1}})",
        R"({"coeval":1,"recover":1.5})", R"({"coeval":1,"role":"ev)"}) {
    const auto tag = ParseTag(text);
    ASSERT_FALSE(tag) << text;
    EXPECT_EQ(tag.error().code, ErrorCode::kCorrupt);
  }
}

TEST(Tag, IgnoresKeysOfALaterCoeval) {
  EXPECT_TRUE(ParseTag(R"({"coeval":2,"role":"eval","colour":"blue"})")->has_value());
}

}  // namespace
}  // namespace coeval::cluster
