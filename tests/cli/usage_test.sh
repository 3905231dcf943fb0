#!/usr/bin/env bash
# coeval's exit codes and messages without any daemon, and its completion script.
set -euo pipefail
coeval=$1
export COEVAL_EVALUATOR=unix:/nonexistent/evaluator.sock COEVALD_SOCKET=/nonexistent/coevald.sock
failures=0
expect() {  # expect STATUS TEXT ARG…
  local wanted=$1 text=$2 status=0 output
  shift 2
  output=$("$coeval" "$@" 2>&1) || status=$?
  if [[ $status != "$wanted" || $output != *"$text"* ]]; then
    echo "coeval $*: status $status instead of $wanted, or no '$text' in: $output"
    failures=$((failures + 1))
  fi
}
expect 0 "coeval 0." --version
expect 0 "Subcommands" --help
expect 2 "subcommand" # none
expect 2 "nonsense" nonsense
expect 2 "--suite" eval /some/checkpoint
expect 2 "--interval" watch --interval 0
expect 1 "start it with 'coeval-evaluator --config FILE'" status
expect 1 "name another with --evaluator or COEVAL_EVALUATOR" results
expect 1 "name another with --coevald or COEVALD_SOCKET" explain 1
expect 2 "no completion for 'zsh'" completion zsh
bash -n <("$coeval" completion bash)
shellcheck -s bash <("$coeval" completion bash)
exit $((failures > 0))
