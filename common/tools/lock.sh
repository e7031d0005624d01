#!/usr/bin/env bash
# Writes wheels.txt: for each group of pyproject.toml, every package with its version and the hashes of its wheels. It needs uv,
# which queries the package index that its own environment variables name. uv.lock would name that index, so it is not kept.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp pyproject.toml "$folder"
uv lock --project "$folder"
mapfile -t groups < <(sed -n '/^\[dependency-groups]/,/^\[tool/s/^\([a-z_]*\) = .*/\1/p' pyproject.toml)
{
  echo "# common/tools/lock.sh made this file from pyproject.toml: change that one. fetch_wheels in setup.sh reads one section of it."
  for group in "${groups[@]}"; do
    printf '\n# [%s]\n' "$group"
    # Every package is for the same two platforms, and pip tells by the hashes if there is no wheel for another one.
    uv export --project "$folder" --frozen --only-group "$group" --no-annotate --no-header --quiet |
      sed -E "s/ (;|and) \(+platform_machine .*sys_platform == 'linux'\)*//"
  done
} >"$folder/wheels.txt"
cp "$folder/wheels.txt" .
