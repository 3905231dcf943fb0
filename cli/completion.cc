#include <iostream>

#include "cli/commands.h"

namespace coeval::cli {

// The build writes it to a file, too, which packages install.
int Completion(const std::string& shell) {
  if (shell != "bash")
    return Complain(
               {ErrorCode::kInvalidArgument, "no completion for '" + shell + "'; known: bash"}),
           kUsage;
  std::cout << R"bash(# Bash completion for coeval. Install as
# /usr/share/bash-completion/completions/coeval or source it: source <(coeval completion bash)
_coeval_names() {
  coeval "$@" --json 2>/dev/null | sed -n 's/^ *"\(run\|campaign\)": "\([^"]*\)".*/\2/p' | sort -u
}
_coeval() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}
  local commands="status watch results eval cancel explain jobs suites policy doctor completion"
  local common="--json --noheader --evaluator --coevald --munge-socket --help --version"
  local words=
  if ((COMP_CWORD == 1)); then
    words="$commands --help --version"
  elif [[ $cur == -* ]]; then
    case $command in
      watch) words="$common --interval --until-done --timeout" ;;
      results) words="$common --suite --csv" ;;
      eval) words="$common --suite --name --wait" ;;
      *) words=$common ;;
    esac
  else
    case $command:$prev in
      *:--suite) words=$(coeval suites 2>/dev/null) ;;
      status:* | watch:* | results:* | cancel:*) words=$(_coeval_names status) ;;
      policy:*) words="show reload" ;;
      completion:*) words=bash ;;
      eval:*)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _coeval coeval
)bash";
  return kOk;
}

}  // namespace coeval::cli
