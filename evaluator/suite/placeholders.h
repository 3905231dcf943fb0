// `{dataset}`, `{out}`, … in the argument lists, environment and paths of a suite.
//
// `{{` and `}}` stand for braces. Which placeholders exist is part of the harness contract
// (docs/harness-contract.md); a suite that names another one is refused when it is loaded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace coeval::evaluator {

using PlaceholderValues = std::map<std::string, std::string, std::less<>>;

/// All placeholders of the contract.
const std::vector<std::string_view>& KnownPlaceholders();

/// kInvalidArgument naming the placeholder that is not among `allowed`, or the stray brace.
Result<> CheckPlaceholders(std::string_view text, const std::vector<std::string_view>& allowed);

/// The text with its placeholders replaced; one without a value stays as it is, for the worker
/// fills in what only it knows (`{staged}`, `{port}`, `{url}`).
std::string Expand(std::string_view text, const PlaceholderValues& values);
std::vector<std::string> Expand(const std::vector<std::string>& texts,
                                const PlaceholderValues& values);

}  // namespace coeval::evaluator
