#include "common/http/session_auth.h"

#include <gtest/gtest.h>

namespace coeval::http {
namespace {

const TimePoint kNow{Milliseconds{1'000'000}};
const Peer kAlice{1001, 1001, "alice"};

std::string Authorization(const SessionTable::Opened& opened, std::uint64_t counter,
                          std::string_view method, std::string_view target, std::string_view body) {
  return "Coeval session=" + opened.session + ",counter=" + std::to_string(counter) +
         ",signature=" + Signature(opened.key, method, target, counter, body);
}

TEST(SessionTable, KnowsWhoSigned) {
  SessionTable table;
  const auto opened = table.Open(kAlice, kNow);
  const auto peer =
      table.Verify(Authorization(opened, 1, "GET", "/v1/runs", ""), "GET", "/v1/runs", "", kNow);
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->uid, 1001u);
}

TEST(SessionTable, RefusesAnythingAltered) {
  SessionTable table;
  const auto opened = table.Open(kAlice, kNow);
  const std::string good = Authorization(opened, 1, "POST", "/v1/cancel", "{}");
  EXPECT_FALSE(table.Verify(good, "GET", "/v1/cancel", "{}", kNow));
  EXPECT_FALSE(table.Verify(good, "POST", "/v1/other", "{}", kNow));
  EXPECT_FALSE(table.Verify(good, "POST", "/v1/cancel", "{ }", kNow));
  EXPECT_TRUE(table.Verify(good, "POST", "/v1/cancel", "{}", kNow));
}

TEST(SessionTable, RefusesReplays) {
  SessionTable table;
  const auto opened = table.Open(kAlice, kNow);
  const std::string second = Authorization(opened, 2, "GET", "/", "");
  EXPECT_TRUE(table.Verify(second, "GET", "/", "", kNow));
  EXPECT_FALSE(table.Verify(second, "GET", "/", "", kNow));
  EXPECT_FALSE(table.Verify(Authorization(opened, 1, "GET", "/", ""), "GET", "/", "", kNow));
}

TEST(SessionTable, ForgetsAtTheEndOfALifetime) {
  SessionTable table(Seconds{10});
  const auto opened = table.Open(kAlice, kNow);
  const std::string header = Authorization(opened, 1, "GET", "/", "");
  EXPECT_EQ(table.Verify(header, "GET", "/", "", kNow + Seconds{10}).error().code,
            ErrorCode::kUnauthenticated);
}

TEST(SessionTable, RefusesWhatIsNoCredential) {
  SessionTable table;
  for (const char* header :
       {"", "Munge x", "Coeval", "Coeval session", "Coeval session=a,counter=x,signature=b",
        "Coeval session=a,counter=1,signature=b"}) {
    EXPECT_EQ(table.Verify(header, "GET", "/", "", kNow).error().code, ErrorCode::kUnauthenticated)
        << header;
  }
}

TEST(SessionTable, MakesRoomByForgettingTheIdlest) {
  SessionTable table;
  const auto first = table.Open(kAlice, kNow);
  for (int i = 1; i <= 4096; ++i) table.Open(kAlice, kNow + Milliseconds{i});
  EXPECT_FALSE(table.Verify(Authorization(first, 1, "GET", "/", ""), "GET", "/", "", kNow));
}

TEST(Munge, SaysThatMungedIsAway) {
  const auto credential = MungeEncode("x", "/nonexistent/munge.socket");
  ASSERT_FALSE(credential);
  EXPECT_EQ(credential.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace coeval::http
