#!/usr/bin/env bash
# The pure libraries use no clock, file, socket, environment, log or randomness: their symbols say so.
set -euo pipefail
forbidden='(clock_gettime|gettimeofday|chrono::_V2::(system|steady)_clock::now|localtime|\btime$|\bopen(64)?$|fopen|'
forbidden+='basic_[io]?fstream|basic_filebuf|filesystem::|\bsocket$|\bconnect$|getenv|spdlog|coeval::log|\brand$|random_device|getrandom|\bfork$|execv)'
status=0
for library in "$@"; do
  if nm -uC "$library" | sed 's/^ *U //' | grep -E "$forbidden"; then
    echo "$library is not pure: it uses the above"
    status=1
  fi
done
exit $status
