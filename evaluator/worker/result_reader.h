// Reading the score that a harness wrote, and refusing what is no score.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace coeval::evaluator {

/// A checked score as the evaluator takes it:
/// `{"primary":"acc","value":0.61,"metrics":{"acc":0.61,"acc_stderr":0.01},"items":500}`.
/// NaN, infinity, a missing primary, fewer items than `items_asked` (when that is not 0) or no file
/// at all is kInvalidArgument: a failure, never a score.
Result<std::string> ReadScore(const std::string& reader, const std::filesystem::path& folder,
                              std::int64_t items_asked, const std::string& dataset);

/// The names a suite may give as `result:`.
std::vector<std::string> ResultReaders();

}  // namespace coeval::evaluator
