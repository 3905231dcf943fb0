#include "evaluator/suite/placeholders.h"

#include <algorithm>
#include <functional>

namespace coeval::evaluator {
namespace {

// Calls `literal` and `placeholder` for the parts of the text, in order.
Result<> Walk(std::string_view text, const std::function<void(std::string_view)>& literal,
              const std::function<Result<>(std::string_view)>& placeholder) {
  while (!text.empty()) {
    const auto brace = text.find_first_of("{}");
    literal(text.substr(0, brace));
    if (brace == std::string_view::npos) return {};
    const bool doubled = brace + 1 < text.size() && text[brace + 1] == text[brace];
    if (doubled) {
      literal(text.substr(brace, 2));
      text.remove_prefix(brace + 2);
      continue;
    }
    const auto close = text.find('}', brace);
    if (text[brace] == '}' || close == std::string_view::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  std::string("stray '") + text[brace] + "'; write it twice for a brace");
    }
    if (auto done = placeholder(text.substr(brace + 1, close - brace - 1)); !done) return done;
    text.remove_prefix(close + 1);
  }
  return {};
}

}  // namespace

const std::vector<std::string_view>& KnownPlaceholders() {
  static const std::vector<std::string_view> kNames = {
      "checkpoint", "staged",    "step", "run",  "dataset", "shard", "shards",
      "first_item", "last_item", "out",  "gpus", "port",    "url",   "seed"};
  return kNames;
}

Result<> CheckPlaceholders(std::string_view text, const std::vector<std::string_view>& allowed) {
  return Walk(
      text, [](std::string_view) {},
      [&](std::string_view name) -> Result<> {
        if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) return {};
        std::string list;
        for (const auto known : allowed) list += " {" + std::string(known) + "}";
        return Fail(ErrorCode::kInvalidArgument,
                    "unknown placeholder {" + std::string(name) + "}; known here:" + list);
      });
}

std::string Expand(std::string_view text, const PlaceholderValues& values) {
  std::string out;
  const auto literal = [&](std::string_view part) {
    out += part == "{{" ? "{" : part == "}}" ? "}" : part;
  };
  const auto walked = Walk(text, literal, [&](std::string_view name) -> Result<> {
    const auto found = values.find(name);
    out += found != values.end() ? found->second : "{" + std::string(name) + "}";
    return {};
  });
  return walked ? out : std::string(text);
}

std::vector<std::string> Expand(const std::vector<std::string>& texts,
                                const PlaceholderValues& values) {
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(Expand(text, values));
  return out;
}

}  // namespace coeval::evaluator
