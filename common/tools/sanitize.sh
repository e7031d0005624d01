#!/usr/bin/env bash
# Runs every stage under NVIDIA's compute-sanitizer: memcheck, initcheck, synccheck and racecheck.
#
#   common/tools/sanitize.sh [-j JOBS] [--logs DIR] BUILD_DIR [STAGE...]
#
# JOBS runs go on at once (4 by default). Logs and reports stay in DIR, by default BUILD_DIR/sanitizer.
#
# A run counts as clean only when the tool exits with 0, prints its own summary with no finding, and
# every variant that can run on this GPU was verified under it: a tool that never started, or shapes
# that skip a variant, must not look like a success.
#
# Exit codes: 0 clean, 1 a finding or a failure, 2 bad usage, 3 no compute-sanitizer or no usable GPU.
set -uo pipefail

# Small shapes around the edges that kernels get wrong: one row, odd counts, a warp, a pack and a
# block more or less, rows that end unaligned, and a row too long for registers.
edge_shapes=(--rows "1,2,7" --cols "1,3,31,32,33,100,128,129,1000,1024,1025,5001"
  --dtype all --op all --input "normal,neg_inf_prefix")
# racecheck is many times slower. Races depend on how threads share a row, so one op and one input
# are enough; the check below makes sure that these shapes still reach every variant.
race_shapes=(--rows "1,2" --cols "32,33,128,1000,1024,5001" --dtype all --op softmax --input normal)

tools=(racecheck memcheck initcheck synccheck) # the slowest first, so that it is not waited for at the end
sanitizer=${COMPUTE_SANITIZER:-compute-sanitizer}
finding_exit_code=97 # not one of the stages' own exit codes
run_timeout_s=900

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

jobs=4
logs=
build=
stages=()
while (($#)); do
  case $1 in
    -j | --logs)
      (($# > 1)) || usage
      if [[ $1 == -j ]]; then jobs=$2; else logs=$2; fi
      shift
      ;;
    -*) usage ;;
    *) if [[ -z $build ]]; then build=$1; else stages+=("$1"); fi ;;
  esac
  shift
done
[[ -n $build && $jobs =~ ^[1-9][0-9]*$ ]] || usage

if ((${#stages[@]} == 0)); then
  for main in "$root"/[0-9][0-9]_*/main.cu; do
    [[ -e $main ]] && stages+=("$(basename "$(dirname "$main")")")
  done
fi
for stage in "${stages[@]}"; do
  if [[ ! -x $build/$stage ]]; then
    echo "sanitize.sh: not built: $build/$stage" >&2
    exit 2
  fi
done

if ! command -v "$sanitizer" >/dev/null; then
  echo "sanitize.sh: '$sanitizer' is not here: install it or set COMPUTE_SANITIZER" >&2
  exit 3
fi

logs=${logs:-$build/sanitizer}
mkdir -p "$logs" || exit 2

# The variants that a JSON report shows as verified at least once, sorted.
verified_variants() {
  python3 -SE -c '
import json, sys
results = json.load(open(sys.argv[1], encoding="utf-8"))["results"]
for name in sorted({r["variant"] for r in results if r["stage"] and r["status"] == "verified"}):
    print(name)' "$1"
}

# First without a tool: is there a GPU, and which variants does it run?
for stage in "${stages[@]}"; do
  plain=$logs/$stage-plain
  timeout --kill-after=10 "$run_timeout_s" "$build/$stage" --device gpu --verify-only --format json "${edge_shapes[@]}" \
    >"$plain.json" 2>"$plain.err"
  code=$?
  if ((code == 3)); then
    echo "sanitize.sh: $(tail -n 1 "$plain.err")" >&2
    exit 3
  elif ((code != 0)); then
    echo "FAIL  $stage without a tool: exit code $code. $(tail -n 1 "$plain.err")"
    exit 1
  fi
  if ! verified_variants "$plain.json" >"$plain.variants" || [[ ! -s $plain.variants ]]; then
    echo "FAIL  $stage without a tool: its report shows no verified variant"
    exit 1
  fi
done

# Why a finished run is not clean, or nothing. Arguments: exit code, tool, stage.
complaint() {
  local code=$1 tool=$2 stage=$3 log=$logs/$3-$2 clean summary missing
  summary=$(grep -E '(ERROR|RACECHECK) SUMMARY:' "$log.log" | tail -n 1)
  if [[ $tool == racecheck ]]; then
    clean='RACECHECK SUMMARY: 0 hazards displayed'
  else
    clean='ERROR SUMMARY: 0 errors'
  fi
  if ((code == 124)); then
    echo "took longer than $run_timeout_s s"
  elif ((code != 0)); then
    echo "exit code $code. ${summary:-$(tail -n 1 "$log.err")}"
  elif [[ -z $summary ]]; then
    echo "the tool printed no summary"
  elif [[ $summary != *"$clean"* ]]; then
    echo "${summary#"${summary%%[!= ]*}"}"
  elif ! verified_variants "$log.json" >"$log.variants" 2>/dev/null; then
    echo "the stage's report cannot be read"
  else
    missing=$(comm -23 "$logs/$stage-plain.variants" "$log.variants" | paste -sd ' ')
    [[ -z $missing ]] || echo "these shapes never ran: $missing"
  fi
}

run_one() {
  local tool=$1 stage=$2 log=$logs/$2-$1 start=$SECONDS verdict=ok why
  local -a shapes=("${edge_shapes[@]}")
  [[ $tool == racecheck ]] && shapes=("${race_shapes[@]}")
  : >"$log.log"
  timeout --kill-after=10 "$run_timeout_s" "$sanitizer" --tool "$tool" --error-exitcode "$finding_exit_code" --log-file "$log.log" \
    "$build/$stage" --device gpu --verify-only --format json "${shapes[@]}" >"$log.json" 2>"$log.err"
  why=$(complaint $? "$tool" "$stage")
  [[ -z $why ]] || verdict=FAIL
  printf '%-4s  %-10s %-24s %4d s%s\n' "$verdict" "$tool" "$stage" $((SECONDS - start)) "${why:+  $why}" | tee -a "$logs/runs"
}

start=$SECONDS
: >"$logs/runs"
total=$((${#tools[@]} * ${#stages[@]}))
for tool in "${tools[@]}"; do
  for stage in "${stages[@]}"; do
    while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
    run_one "$tool" "$stage" &
  done
done
wait
failed=$(grep -c '^FAIL' "$logs/runs")
if ((failed > 0)); then
  echo "sanitize.sh: $failed of $total runs not clean, $((SECONDS - start)) s; logs in $logs"
  if grep -qs "Device not supported" "$logs"/*.log "$logs"/*.err; then
    echo "sanitize.sh: compute-sanitizer does not work with this GPU" >&2
    exit 3
  fi
  exit 1
fi
echo "sanitize.sh: $total runs clean, $((SECONDS - start)) s"
