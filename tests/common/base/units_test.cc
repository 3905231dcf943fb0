#include "common/base/units.h"

#include <gtest/gtest.h>

namespace coeval {
namespace {

TEST(ParseSlurmTime, ReadsEveryFormOfSbatch) {
  const std::pair<const char*, long> cases[] = {
      {"5", 300},        {"5:30", 330},      {"1:00:00", 3600},     {"2-00", 172800},
      {"1-02", 93600},   {"1-02:03", 93780}, {"1-02:03:04", 93784}, {"0:01", 1},
      {"0-00:00:01", 1}, {"120:00", 7200}};
  for (const auto& [text, seconds] : cases) {
    const auto parsed = ParseSlurmTime(text);
    ASSERT_TRUE(parsed) << text;
    ASSERT_TRUE(parsed->has_value()) << text;
    EXPECT_EQ(parsed->value().count(), seconds) << text;
  }
}

TEST(ParseSlurmTime, KnowsTheWaysToSayNoLimit) {
  for (const char* text : {"UNLIMITED", "infinite", "0", "0:00", "Unlimited"}) {
    const auto parsed = ParseSlurmTime(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_FALSE(parsed->has_value()) << text;
  }
}

TEST(ParseSlurmTime, EchoesWhatItRefuses) {
  for (const char* text : {"", "soon", "1:2:3:4", "-5", "1-", "1-2-3", "5m", "1:", ":30",
                           "99999999999", "1 2", "1-1:1:1:1"}) {
    const auto parsed = ParseSlurmTime(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find("'" + std::string(text) + "'"), std::string::npos)
        << parsed.error().message;
  }
}

TEST(ParseSlurmSize, TakesMebibytesUnlessTold) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"1", 1u << 20},    {"10K", 10u << 10},   {"200G", 200ull << 30}, {"1.5g", 3ull << 29},
      {"2T", 2ull << 40}, {"4GiB", 4ull << 30}, {"4GB", 4ull << 30},    {"0", 0}};
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseSlurmSize(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->value, bytes) << text;
  }
}

TEST(ParseSlurmSize, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "G", "-1G", "1X", "1Gi b", "nan", "inf", "1e400", "99999999T", "1 G"}) {
    EXPECT_FALSE(ParseSlurmSize(text)) << text;
  }
}

TEST(Format, PrintsDurationsAsSlurmDoes) {
  EXPECT_EQ(FormatSlurmDuration(Seconds{0}), "00:00:00");
  EXPECT_EQ(FormatSlurmDuration(Seconds{3661}), "01:01:01");
  EXPECT_EQ(FormatSlurmDuration(Seconds{93784}), "1-02:03:04");
}

TEST(Format, PrintsShortDurationsAndSizesForPeople) {
  EXPECT_EQ(FormatShortDuration(Milliseconds{8120}), "8.1s");
  EXPECT_EQ(FormatShortDuration(Milliseconds{9960}), "10s");
  EXPECT_EQ(FormatShortDuration(Milliseconds{200000}), "3m20s");
  EXPECT_EQ(FormatShortDuration(Milliseconds{7500000}), "2h05m");
  EXPECT_EQ(FormatShortDuration(Milliseconds{90000000}), "1d01h");
  EXPECT_EQ(FormatBytes(Bytes{0}), "0B");
  EXPECT_EQ(FormatBytes(Mebibytes(1536)), "1.5G");
  EXPECT_EQ(FormatBytes(Mebibytes(204800)), "200G");
}

TEST(EpochSeconds, SurvivesARoundTrip) {
  const TimePoint time{Milliseconds{1'764'592'845'123}};
  EXPECT_EQ(FromEpochSeconds(ToEpochSeconds(time)), time);
}

}  // namespace
}  // namespace coeval
