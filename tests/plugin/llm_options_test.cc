#include "plugin/llm_options.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

namespace {

using Texts = std::array<std::string, kLlmOptionCount>;

int OptionNamed(const std::string& name) {
  for (int i = 0; i < kLlmOptionCount; ++i) {
    if (kLlmOptionTexts[i].name == "llm-" + name) return i;
  }
  return kLlmOptionCount;
}

// The message, empty when the options are good. `options` is as in cases.tsv.
std::string Check(const std::string& options, bool from_environment = false) {
  Texts texts;
  std::array<LlmValue, kLlmOptionCount> values = {};
  std::istringstream words(options);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const int option = OptionNamed(word.substr(0, equals));
    if (option == kLlmOptionCount) return "no option " + word;
    texts[option] = word.substr(equals + 1);
    values[option] = {texts[option].c_str(), from_environment};
  }
  char message[kLlmMessageSize] = "";
  return LlmCheck(values.data(), message) ? "" : message;
}

TEST(LlmOptionsTest, AgreesWithTheSharedCases) {
  std::ifstream file(COEVAL_CASES);
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto tab = line.find('\t');
    const std::string options = line.substr(0, tab), expected = line.substr(tab + 1);
    const std::string message = Check(options);
    ++cases;
    if (expected[0] == '!')
      EXPECT_NE(message.find(expected.substr(1)), std::string::npos) << options << ": " << message;
    else
      EXPECT_EQ(message, "") << options;
  }
  EXPECT_GT(cases, 80);
}

TEST(LlmOptionsTest, NamesTheVariableWhenTheValueIsFromTheEnvironment) {
  EXPECT_EQ(Check("recover=maybe", true),
            "COEVAL_RECOVER=maybe: no restart budget; use off, on or a count of 0 to 1000");
}

TEST(LlmOptionsTest, AMessageIsOneBoundedLine) {
  LlmValue values[kLlmOptionCount] = {};
  const std::string text = "/a\nb" + std::string(3000, 'x');
  values[kLlmCheckpoint].text = text.c_str();
  char message[kLlmMessageSize];
  ASSERT_FALSE(LlmCheck(values, message));
  EXPECT_EQ(std::string(message).find('\n'), std::string::npos);
  EXPECT_NE(std::string(message).find("rename the folder"), std::string::npos);
}

TEST(LlmOptionsTest, APathHasALimit) {
  LlmValue values[kLlmOptionCount] = {};
  const std::string longest = "/" + std::string(4094, 'x'), longer = longest + "x";
  char message[kLlmMessageSize];
  values[kLlmCheckpoint].text = longest.c_str();
  EXPECT_TRUE(LlmCheck(values, message));
  values[kLlmCheckpoint].text = longer.c_str();
  EXPECT_FALSE(LlmCheck(values, message));
}

TEST(LlmOptionsTest, NothingGivenIsFine) { EXPECT_EQ(Check(""), ""); }

TEST(LlmOptionsTest, EveryOptionHasHelpThatNamesUs) {
  for (const LlmOptionText& text : kLlmOptionTexts)
    EXPECT_EQ(std::string(text.usage).rfind("[coeval] ", 0), 0u) << text.name;
}

}  // namespace
