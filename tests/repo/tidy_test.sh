#!/usr/bin/env bash
# Layout rules: no line over 100 columns, every test file in a list, shell scripts pass shellcheck,
# scheduler and evaluator never include each other.
set -euo pipefail
cd "$1"
status=0
complain() {
  echo "$1"
  status=1
}
mapfile -t sources < <(find common plugin scheduler evaluator cli tests \( -name '*.cc' -o -name '*.h' -o -name '*.c' \))
for file in "${sources[@]}"; do
  long=$(LC_ALL=C awk '{ gsub(/[\200-\277]/, ""); if (length > 100) print FNR }' "$file" | head -n 1)
  [[ -z $long ]] || complain "$file:$long: longer than 100 columns"
done
while read -r test; do
  name=$(basename "$test")
  grep -qwE "$name|${name%.*}|${name%_test.*}" "${test%/*}/CMakeLists.txt" "${test%/*/*}/CMakeLists.txt" 2>/dev/null ||
    complain "$test is in no CMakeLists.txt"
done < <(find tests -name '*_test.*' -type f)
mapfile -t scripts < <(grep -rlE '^#!(/bin/sh|/usr/bin/env bash|/bin/bash)' .ci scripts tests --include='*' 2>/dev/null | grep -v '\.py$')
shellcheck "${scripts[@]}" || complain "shellcheck found faults"
if grep -rn '#include "evaluator/' scheduler common cli || grep -rn '#include "scheduler/' evaluator common cli; then
  complain "the layer rule is broken by the above"
fi
if grep -rnE '#include "(scheduler|evaluator|cli)/' common; then complain "common includes a part"; fi
exit $status
