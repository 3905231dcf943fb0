#include "common/yaml/reader.h"

#include <gtest/gtest.h>

namespace coeval::yaml {
namespace {

Document Parse(const std::string& text) {
  auto document = Document::FromText(text, "p.yaml");
  EXPECT_TRUE(document) << document.error().message;
  return *document;
}

std::string FirstFault(const Document& document) {
  const auto sound = document.Check();
  return sound ? "" : sound.error().message;
}

TEST(Reader, ReadsTypedValues) {
  const Document document = Parse(
      "n: 3\nx: 0.5\non: true\nname: a\nlist: [a, b]\nlimit: 0:10:00\nttl_s: 5\nmem: 2G\nenv: {A: "
      "b}\n");
  Map top = document.Root().AsMap();
  EXPECT_EQ(top.Int("n", 0, 10, 1), 3);
  EXPECT_EQ(top.Double("x", 0, 1, 0), 0.5);
  EXPECT_TRUE(top.Bool("on", false));
  EXPECT_EQ(top.RequireString("name"), "a");
  EXPECT_EQ(top.Strings("list"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(top.Duration("limit", Seconds{1}, Seconds{3600}, Seconds{1}), Seconds{600});
  EXPECT_EQ(top.Duration("ttl_s", Seconds{1}, Seconds{3600}, Seconds{1}), Seconds{5});
  EXPECT_EQ(top.Size("mem", Bytes{}), Mebibytes(2048));
  EXPECT_EQ(top.StringMap("env").at("A"), "b");
  EXPECT_EQ(top.Int("absent", 0, 10, 7), 7);
  top.Finish();
  EXPECT_EQ(FirstFault(document), "");
}

TEST(Reader, NamesLineValueAndRangeOfAWrongNumber) {
  const Document document = Parse("a: 1\nn: 99\n");
  Map top = document.Root().AsMap();
  top.Int("n", 0, 10, 1);
  EXPECT_EQ(FirstFault(document), "p.yaml:2: n is 99; must be 0..10");
}

TEST(Reader, RefusesWrongTypes) {
  const char* const texts[] = {"n: [1]", "n: {a: 1}", "n: three",
                               "n: 1.5", "n: ",       "n: 99999999999999999999"};
  for (const char* text : texts) {
    const Document document = Parse(text);
    Map top = document.Root().AsMap();
    top.Int("n", 0, 10, 1);
    EXPECT_TRUE(FirstFault(document).starts_with("p.yaml:1: n is ")) << text;
  }
}

TEST(Reader, SuggestsTheKeyThatWasMeant) {
  const Document document = Parse("gpu_quota: 1\ngpu_quata: 2\n");
  Map top = document.Root().AsMap();
  top.Int("gpu_quota", 0, 10, 1);
  top.Finish();
  EXPECT_EQ(FirstFault(document), "p.yaml:2: unknown key 'gpu_quata'; did you mean 'gpu_quota'?");
}

TEST(Reader, ListsAllowedKeysWhenNoneIsNear) {
  const Document document = Parse("zebra: 1\n");
  Map top = document.Root().AsMap();
  top.Int("alpha", 0, 10, 1);
  top.Finish();
  EXPECT_EQ(FirstFault(document), "p.yaml:1: unknown key 'zebra'; allowed here: alpha");
}

TEST(Reader, NamesAMissingKeyAndAWrongChoice) {
  const Document missing = Parse("a: 1\n");
  Map top = missing.Root().AsMap();
  top.RequireString("name");
  EXPECT_EQ(FirstFault(missing), "p.yaml:1: 'name' is missing");

  const Document wrong = Parse("mode: fast\n");
  Map other = wrong.Root().AsMap();
  other.Choice("mode", {"on", "off"}, "on");
  EXPECT_EQ(FirstFault(wrong), "p.yaml:1: mode is 'fast'; must be one of on, off");
}

TEST(Reader, KeepsTheFirstOfSeveralFaults) {
  const Document document = Parse("n: x\nm: y\n");
  Map top = document.Root().AsMap();
  top.Int("n", 0, 1, 0);
  top.Int("m", 0, 1, 0);
  EXPECT_TRUE(FirstFault(document).starts_with("p.yaml:1:"));
}

TEST(Reader, RefusesRepeatedKeysAnywhere) {
  const auto document = Document::FromText("a:\n  - {b: 1}\n  - b: 1\n    b: 2\n", "p.yaml");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().message, "p.yaml:4: 'b' is given twice; keep one");
}

TEST(Reader, SaysWhereTextIsNoYaml) {
  const auto document = Document::FromText("a: 1\nb: [1, 2\n", "p.yaml");
  ASSERT_FALSE(document);
  EXPECT_TRUE(document.error().message.starts_with("p.yaml:")) << document.error().message;
}

TEST(Reader, EmptyFileIsNoMapping) {
  const Document document = Parse("");
  document.Root().AsMap();
  EXPECT_EQ(FirstFault(document),
            "p.yaml:1: the file is empty; must be a mapping of keys to values");
}

TEST(Reader, BoundsNesting) {
  EXPECT_FALSE(Document::FromText(std::string(200, '[') + std::string(200, ']'), "p.yaml"));
}

}  // namespace
}  // namespace coeval::yaml
