#!/usr/bin/env bash
# exports_test.sh TOOLKIT SIMULATOR: every function of a library of the toolkit is one of the simulator's in its place. Where there
# is a GPU, the driver itself is found: what it has for debuggers and for windows is in no header of the toolkit's own.
set -euo pipefail
functions() { nm --dynamic --defined-only "$1" | awk '$2 == "T" || $2 == "W" { sub(/@.*/, "", $3); print $3 }' | grep -vE '^(cudbg|cuE?GL|cuVDPAU|cuGraphics(E?GL|VDPAU|ResourceGetMappedEgl))' | LC_ALL=C sort; }
wanted=$(functions "$1")
(($(wc -l <<<"$wanted") > 100)) || { echo "$1 has hardly any functions"; exit 1; }
missing=$(LC_ALL=C comm -23 <(echo "$wanted") <(functions "$2"))
[[ -z $missing ]] || { printf 'missing: %s\n' $missing; exit 1; }
