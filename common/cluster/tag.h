// What `--llm-*` options said of a job: the JSON object that job_submit.lua writes to AdminComment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval::cluster {

/// Workload types; the study's section 3 names the first four and `debug`, `other`.
enum class Role { kPretrain, kSft, kMllm, kEval, kMetric, kPrecursor, kDebug, kOther };
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

/// What each node of a job leaves for evaluation.
struct Lend {
  std::uint32_t cpus = 0;
  std::uint64_t mem_mb = 0;
};

struct Tag {
  std::optional<Role> role;
  std::string run;          // Empty: none.
  std::string checkpoints;  // Folder in which the run's checkpoints appear.
  std::vector<std::string> suites;
  std::optional<Lend> lend;
  std::string checkpoint;           // What an evaluation job evaluates.
  std::optional<Seconds> deadline;  // Wanted feedback delay.
  std::optional<int> recover;       // 0 off, -1 on with the site's budget, n restarts.
};

/// nullopt when AdminComment is not ours (empty, another tool's text); kCorrupt when it claims to
/// be ours and cannot be read.
Result<std::optional<Tag>> ParseTag(std::string_view admin_comment);
std::string FormatTag(const Tag& tag);

}  // namespace coeval::cluster
