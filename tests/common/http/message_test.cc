#include "common/http/message.h"

#include <gtest/gtest.h>

namespace coeval::http {
namespace {

Error Read(int status, const char* body) { return ErrorOf(Response{status, body}); }

TEST(ErrorOf, ReadsWhatErrorResponseWrote) {
  const Error error = ErrorOf(ErrorResponse({ErrorCode::kAlreadyExists, "it is there"}));
  EXPECT_EQ(error.code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(error.message, "it is there");
}

TEST(ErrorOf, TakesTheCodeFromTheStatusWhenTheBodyHasValuesOfOtherTypes) {
  for (const char* body :
       {R"({"error":{"code":7,"message":[1]}})", R"({"error":{"code":null,"message":{}}})",
        R"({"error":{}})", R"({"error":"no"})", R"({"error":null})", "[]", "7", "", "{"}) {
    EXPECT_EQ(Read(404, body).code, ErrorCode::kNotFound) << body;
    EXPECT_EQ(Read(503, body).code, ErrorCode::kUnavailable) << body;
  }
}

}  // namespace
}  // namespace coeval::http
