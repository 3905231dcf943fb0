// Reading a policy from YAML; every fault is named by file and line (coeval-policy(5)).
#pragma once

#include <filesystem>
#include <string>

#include "common/base/result.h"
#include "scheduler/policy/policy.h"

namespace coeval::scheduler {

Result<Policy> ParsePolicy(const std::string& text, const std::string& file);
Result<Policy> LoadPolicy(const std::filesystem::path& file);

}  // namespace coeval::scheduler
