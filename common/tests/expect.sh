#!/usr/bin/env bash
# expect.sh CODE REGEX COMMAND...: runs the command and checks its exit code and what it prints, both streams. REGEX may
# be several lines: each must match a line of what is printed.
# Exits 3 (CTest: skipped) where the command says that there is no usable GPU, or that the shape does not fit it,
# unless that is what is expected.
set -uo pipefail
code=$1 regex=$2
shift 2
output=$("$@" 2>&1)
got=$?
if ((got == 3 && code != 3)) || ((got == 2 && code == 0)) && [[ $output =~ (no usable|of device memory) ]]; then
  echo "$output"
  exit 3
fi
printf '%s\n' "$output"
if ((got != code)); then
  echo "expect.sh: exit code $got, expected $code: $*"
  exit 1
fi
while IFS= read -r line; do
  grep -qE -- "$line" <<<"$output" && continue
  echo "expect.sh: nothing printed matches '$line': $*"
  exit 1
done <<<"$regex"
