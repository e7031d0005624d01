#!/usr/bin/env bash
# counts_test.sh CONDITION COMMAND...: runs a stage under the simulator with --format csv and checks an awk condition
# for every verified variant. In the condition the columns of the CSV stand by their names, and `size` for the bytes
# of an element. The copy is left out.
set -uo pipefail
condition=$1
shift
csv=$("$@" --device sim --format csv --section heading,rows) || {
  echo "counts_test.sh: exit code $?: $*"
  grep ',wrong,' <<<"$csv"
  exit 1
}
program=$condition
column=0
while IFS= read -r name; do
  column=$((column + 1))
  program=$(sed -E "s/(^|[^A-Za-z_\"])$name([^A-Za-z_\"(]|\$)/\1\$$column\2/g; s/(^|[^A-Za-z_\"])$name([^A-Za-z_\"(]|\$)/\1\$$column\2/g" <<<"$program")
done < <(head -n 1 <<<"$csv" | tr ',' '\n')

failed=$(grep ',verified,' <<<"$csv" | awk -F, '
  function abs(x) { return x < 0 ? -x : x }
  { size = $3 == "f32" ? 4 : 2; ++checked }
  !('"$program"') { print }
  END { exit !checked }') || {
  echo "counts_test.sh: nothing was counted: $*"
  exit 1
}
[[ $failed ]] || exit 0

# Where: the first of them again, counted by source line.
printf 'not so: %s\n%s\n' "$condition" "$failed"
IFS=, read -r _ variant dtype op rows cols _ <<<"$failed"
SIM_REPORT=lines "$1" --device sim --verify-only --variant "$variant" --dtype "$dtype" --op "$op" --rows "$rows" --cols "$cols" 2>&1
exit 1
