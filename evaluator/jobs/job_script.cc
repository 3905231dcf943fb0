#include "evaluator/jobs/job_script.h"

namespace coeval::evaluator {

std::string ShellQuote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string JobScript(const JobScriptSpec& spec) {
  std::string script = "#!/bin/bash\n# Written by coeval-evaluator.\nset -euo pipefail\n";
  for (const auto& [name, value] : spec.environment) {
    script += "export " + name + "=" + ShellQuote(value) + "\n";
  }
  script += "exec " + ShellQuote(spec.worker);
  for (const std::string& argument : spec.arguments) script += " " + ShellQuote(argument);
  return script + "\n";
}

}  // namespace coeval::evaluator
