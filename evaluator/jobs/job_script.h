// The batch scripts that the evaluator submits: a few lines of bash that become coeval-worker.
//
// Pure. Every word is quoted by us, so that no path can turn into code; tests run the scripts
// through `bash -n` and shellcheck (field case E22).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace coeval::evaluator {

struct JobScriptSpec {
  std::string worker;                  // Path of coeval-worker.
  std::vector<std::string> arguments;  // Its arguments.
  std::map<std::string, std::string> environment;
};

std::string JobScript(const JobScriptSpec& spec);

/// One word for bash: `'it'\''s'`.
std::string ShellQuote(std::string_view text);

}  // namespace coeval::evaluator
