#!/usr/bin/env bash
# fits_the_screen.sh COMMAND...: no line of what it prints is wider than the screen, whatever its width; and it prints a table.
set -euo pipefail
for COLUMNS in 80 100 120; do
  export COLUMNS
  "$@" | awk -v most="$COLUMNS" '
    length > most { print "wider than " most ": " $0; failed = 1 }
    END { if (NR < 8) print "no table"; exit failed || NR < 8 }'
done
