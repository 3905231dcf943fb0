#!/usr/bin/env bash
# Every program's options stand in its man page, and every key of the sample files is documented.
set -euo pipefail
cd "$1"
bin=$2
status=0
complain() {
  echo "$1"
  status=1
}
page_has() {  # page_has FILE WORD
  sed 's/\\-/-/g' "$1" | grep -qF -- "$2"
}
check_options() {  # check_options PROGRAM PAGE [SUBCOMMAND…]
  local program=$1 page=$2 option
  shift 2
  while read -r option; do
    page_has "$page" "$option" || complain "$page does not mention $option of $program $*"
  done < <("$bin/$program" "$@" --help | grep -oE -- '--[a-z][a-z-]+' | sort -u)
}
check_options coevald docs/man/coevald.8
check_options coeval-evaluator docs/man/coeval-evaluator.8
check_options coeval-worker docs/man/coeval-worker.8
check_options coeval docs/man/coeval.1
for command in status watch results eval cancel explain jobs suites policy doctor completion; do
  check_options coeval docs/man/coeval.1 "$command"
  page_has docs/man/coeval.1 "$command" || complain "docs/man/coeval.1 does not mention $command"
done
check_keys() {  # check_keys YAML PAGE
  local key
  while read -r key; do
    page_has "$2" "$key" || complain "$2 does not mention the key $key of $1"
  done < <(sed 's/#.*//' "$1" | grep -oE '[a-z_]+:( |$)' | tr -d ': ' | sort -u)
}
check_keys configs/policies/eval-first.yaml docs/man/coeval-policy.5
check_keys configs/evaluator.yaml docs/man/coeval-evaluator.8
while read -r metric; do
  grep -qF "\`$metric\`" docs/metrics.md || complain "docs/metrics.md does not list $metric"
done < <(grep -rhoE '"coeval_(scheduler|evaluator)_[a-z_]+"' scheduler evaluator | tr -d '"' | sort -u)
exit $status
