#!/usr/bin/env bash
# The plugin exports its hooks and nothing else, and needs only what the oldest supported spank.h
# (Slurm 22.05) declares. usage: check_symbols.sh spank_coeval.so SPANK_H
set -euo pipefail
library=$1 header=$2

expected="plugin_name plugin_type plugin_version slurm_spank_init slurm_spank_init_post_opt"
expected+=" spank_plugin_version"
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | LC_ALL=C sort | xargs)
if [[ $exported != "$expected" ]]; then
  echo "exports: $exported" >&2
  echo "wanted:  $expected" >&2
  exit 1
fi
status=0
for symbol in $(nm -D --undefined-only "$library" | awk '$1 == "U" {print $2}'); do
  case $symbol in
  *@GLIBC_*) ;;
  *) grep -q "\b$symbol *(" "$header" || { echo "needs $symbol, which spank.h does not have" >&2; status=1; } ;;
  esac
done
exit "$status"
