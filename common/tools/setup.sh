# shellcheck shell=bash
# shellcheck disable=SC2034  # the exit codes are used by the files that source this one
# What ./run, ./test and .ci/run share: find or fetch the tools, configure, build, look for a GPU.
# They source this file with the repository's top as the current directory.
#
# Nothing is fetched, and the network is not touched, while nothing is missing. What is missing comes
# from the distribution's packages (only as root, only with apt) or, needing no root, from the pinned
# wheels of wheels.txt into .tools/. Everything that these functions say goes to stderr, so that
# `./run --format csv > file` writes the table alone.

readonly exit_usage=2       # also: a tool is missing and could not be fetched
readonly exit_no_device=3
readonly exit_build=70      # EX_SOFTWARE; the stages' own exit codes end at 4
readonly oldest_cmake=3.25
readonly oldest_cuda=12.4
readonly wheels_driver=580  # the oldest driver that runs what the wheels' toolkit builds

# A message that is lost stops nothing.
say() { printf '%s\n' "$*" >&2 || true; }

# die CODE MESSAGE...
die() {
  say "$0: ${*:2}"
  exit "$1"
}

# did_you_mean WORD KNOWN... prints "; did you mean …?" where one of the known words is like it.
did_you_mean() {
  local closest='import difflib, sys; print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1))' found
  found=$(python3 -c "$closest" "$@" 2>/dev/null) || return 0
  printf '%s' "${found:+; did you mean $found?}"
}

# Ctrl-C ends the whole script, whatever the program in the foreground makes of it; and what `attended` started ends
# with the script.
attended_group=
end_with() {
  trap '' INT TERM HUP
  [[ ! $attended_group ]] || { kill -TERM -- "-$attended_group" && wait "$attended_group"; } 2>/dev/null || true
  exit "$1"
}
trap 'end_with 130' INT
trap 'end_with 143' TERM
trap 'end_with 129' HUP

# attended COMMAND... runs a command that starts others, such as compilers, in a process group of its own: bash would
# hear of a signal only when the command has ended, and the others not at all.
attended() {
  local code=0
  set -m
  "$@" </dev/null &
  set +m
  attended_group=$!
  wait "$attended_group" || code=$?
  attended_group=
  return "$code"
}

# One build at a time in a checkout. Descriptor 9 holds the lock, and what the build starts does not inherit it: a
# compiler cache's server would keep it.
lock_build() {
  if ! { mkdir -p build && : >>build/.lock; } 2>/dev/null; then
    die "$exit_usage" "cannot write into ${PWD@Q}/build: is this checkout read-only, or the disk full?"
  fi
  exec 9>>build/.lock
  command -v flock >/dev/null || return 0
  flock --nonblock 9 && return
  say "Waiting until another build in this checkout has ended ..."
  attended flock 9
}
unlock_build() { exec 9>&-; }

# The stages are the numbered folders that hold a main.cu: sets the array `stages`, in order.
find_stages() {
  local main
  stages=()
  for main in [0-9][0-9]_*/main.cu; do
    [[ -e $main ]] && stages+=("${main%/main.cu}")
  done
  ((${#stages[@]} > 0)) || die "$exit_usage" "this checkout holds no stage (no folder NN_name with a main.cu)"
}

# A GPU shows as a device file (under WSL as /dev/dxg), or nvidia-smi knows of one.
has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || [[ -e /dev/dxg ]] || nvidia-smi -L >/dev/null 2>&1
}

# is_at_least HAVE WANT compares version numbers.
is_at_least() { printf '%s\n' "$2" "$1" | sort -VC; }

# install_packages NAME... installs distribution packages, by their Debian names, or says what to type.
install_packages() {
  local sudo='' how="install these with your distribution's package manager"
  [[ $(id -u) == 0 ]] || sudo='sudo '
  if command -v apt-get >/dev/null; then
    if [[ ! $sudo ]]; then
      say "Installing $* ..."
      if apt-get update -qq >&2 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null; then
        return
      fi
      say "$0: apt-get could not install $* (is there a network?)"
      return 1
    fi
    how="to install, type: ${sudo}apt-get install --no-install-recommends $*"
  elif command -v dnf >/dev/null; then
    how="to install, type: ${sudo}dnf install ${*/#g++/gcc-c++}"
  elif command -v pacman >/dev/null; then
    how=" $* "
    how=${how/ g++ / gcc } how=${how/ ninja-build / ninja } how=${how/ python3-pip / python-pip }
    how="to install, type: ${sudo}pacman -S${how% }"
  fi
  say "$0: missing: $*; $how"
  return 1
}

# fetch_wheels NAME [INSIDE]: the wheels in section NAME of wheels.txt are unpacked, and their folder INSIDE becomes
# .tools/NAME. That move is the last step, so that a set-up cut short leaves nothing half-made.
fetch_wheels() (
  python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip || exit "$exit_usage"
  mkdir -p .tools
  exec {lock}>.tools/lock
  flock "$lock"                       # a second set-up in the same checkout waits for the first
  [[ ! -e .tools/$1 ]] || exit 0
  rm -rf .tools/partial.*             # from a set-up that was killed
  partial=$(mktemp -d "$PWD/.tools/partial.XXXXXX")
  trap 'rm -rf "$partial"' EXIT
  trap 'exit 130' INT TERM HUP
  sed -n "/^# \[$1]/,/^# \[/p" common/tools/wheels.txt >"$partial/wheels.txt"
  if ! TMPDIR=$partial python3 -m pip install --disable-pip-version-check --no-cache-dir --retries 2 \
    --no-user --no-deps --only-binary :all: --no-compile --require-hashes --target "$partial/wheels" \
    --requirement "$partial/wheels.txt" >/dev/null 2>"$partial/errors"; then
    say "pip: $(grep '^ERROR' "$partial/errors" | head -n 1)"
    exit 1
  fi
  if [[ $1 == cuda ]]; then
    # The wheels are cut for running programs, not for linking: give nvcc and CMake the names they look for.
    ln -s lib "$partial/wheels/$2/lib64"
    for library in "$partial/wheels/$2"/lib/lib*.so.*; do
      ln -s "${library##*/}" "${library%.so.*}.so"
    done
  fi
  mv "$partial/wheels/${2:-}" ".tools/$1"
)

# Sets and exports CUDACXX to the first nvcc that is new enough, and puts its folder on PATH.
find_nvcc() {
  local nvcc release
  for nvcc in "${CUDACXX:-}" nvcc "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" \
    /usr/local/cuda/bin/nvcc "$PWD/.tools/cuda/bin/nvcc"; do
    nvcc=$(command -v "${nvcc:-nvcc}") || continue
    release=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p') || continue
    if [[ $release ]] && is_at_least "$release" "$oldest_cuda"; then
      export CUDACXX=$nvcc PATH="${nvcc%/*}:$PATH"
      return
    fi
  done
  return 1
}

find_or_fetch_nvcc() {
  local provide="install CUDA $oldest_cuda or newer, or set CUDACXX to its nvcc" driver
  find_nvcc && return
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || true
  if [[ $driver ]] && ! is_at_least "$driver" "$wheels_driver"; then
    die "$exit_usage" "no CUDA toolkit here, and driver $driver is too old for the one that could be fetched" \
      "(it needs $wheels_driver): update the driver, or $provide"
  fi
  say "No CUDA toolkit from $oldest_cuda on here: fetching NVIDIA's wheels into .tools/cuda (110 MB, NVIDIA's licence) ..."
  if ! attended fetch_wheels cuda nvidia/cu13 || ! find_nvcc; then
    die "$exit_usage" "the CUDA toolkit is missing and could not be fetched: $provide"
  fi
}

find_or_fetch_cmake() {
  local version
  [[ ! -d .tools/cmake ]] || PATH="$PWD/.tools/cmake/bin:$PATH"
  read -r _ _ version < <(cmake --version)
  is_at_least "$version" "$oldest_cmake" && return
  say "CMake $version is older than $oldest_cmake: fetching a newer one into .tools/cmake (30 MB) ..."
  attended fetch_wheels cmake cmake/data ||
    die "$exit_usage" "CMake $oldest_cmake is missing and could not be fetched: install it and put it on PATH"
  PATH="$PWD/.tools/cmake/bin:$PATH"
}

# The Python packages of ./run plot and ./run report, where python3 does not have them already.
find_or_fetch_python_packages() {
  if python3 common/tools draw 2>/dev/null; then return; fi
  if [[ ! -d .tools/python ]]; then
    say "No matplotlib and Jinja for python3: fetching them into .tools/python (40 MB) ..."
    attended fetch_wheels python ||
      die "$exit_usage" "matplotlib and Jinja are missing and could not be fetched: repeat this with a network," \
        "or install both for python3"
  fi
  python3 common/tools draw || exit "$exit_usage"
}

# Without pytest the tests that are written in Python are reported as skipped.
fetch_pytest() {
  [[ ! -d .tools/pytest ]] && ! python3 -c 'import pytest' 2>/dev/null || return 0
  say "No pytest for python3: fetching it into .tools/pytest (2 MB) ..."
  attended fetch_wheels pytest ||
    say "pytest is missing and could not be fetched: the tests that are written in Python will be skipped."
}

# ./test --all needs more packages: the matplotlib that drew the pages' charts, even if python3 has another one, and two that
# test the pages in a browser. Without a network the tests that need them are skipped.
fetch_test_packages() {
  local name missing=()
  for name in python browser_driver axe; do
    [[ -d .tools/$name ]] || missing+=("$name")
  done
  ((${#missing[@]} > 0)) || return 0
  say "Fetching packages for the tests of charts and pages into .tools (90 MB): ${missing[*]} ..."
  for name in "${missing[@]}"; do
    attended fetch_wheels "$name" && continue
    say ".tools/$name is missing and could not be fetched: tests of charts and pages will be skipped or check less."
    return
  done
}

# CMake's lists end at a semicolon, nvcc splits its options at commas, and each has other characters that it takes for its
# own: refused before one of them fails with a message about something else.
check_path() {
  local taken=$'[][\'"`;$#,\\[:cntrl:]]'
  [[ ! $PWD =~ $taken ]] ||
    die "$exit_usage" "CMake and nvcc cannot build in ${PWD@Q}: move the checkout to where no folder has one of" \
      "' \" \` ; \$ # , \\ [ ] in its name"
  [[ $PWD != *:* ]] || command -v ninja >/dev/null ||
    die "$exit_usage" "make cannot build in ${PWD@Q}: install ninja, or move the checkout to where no folder has a colon in its name"
}

# Everything that a build needs, found or fetched, or the one line that says what to do.
set_up() {
  local missing=()
  check_path
  command -v "${CXX:-g++}" >/dev/null || command -v clang++ >/dev/null || missing+=(g++)
  command -v cmake >/dev/null || [[ -d .tools/cmake ]] || missing+=(cmake)
  command -v ninja >/dev/null || [[ -e build/Makefile ]] || missing+=(ninja-build)
  if ((${#missing[@]} > 0)) && ! install_packages "${missing[@]}"; then
    # A cluster node often has make and nothing else: good enough.
    [[ ${missing[*]} == ninja-build ]] && command -v make >/dev/null || exit "$exit_usage"
    say "Going on with make in place of ninja."
  fi
  if ! command -v "${CXX:-g++}" >/dev/null; then
    export CXX=clang++ CUDAHOSTCXX="${CUDAHOSTCXX:-clang++}"  # nvcc by itself looks only for g++
  fi
  find_or_fetch_cmake
  find_or_fetch_nvcc
}

# For the commands that Python programs do.
need_python() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    die "$exit_usage" "this needs Python 3.10 or newer as python3: install it"
}

# A build/ made without a GPU holds code for the simulator, and none for an older GPU that is here now. Not has_gpu: CMake
# asks nvidia-smi, and without its answer would make the same build again and again.
lacks_this_gpu() { grep -qx built_without_gpu:INTERNAL=ON build/CMakeCache.txt && nvidia-smi -L >/dev/null 2>&1; }

# configure [OPTION=ON...]: configures build/ once, and again for an option that is not set there; a later change of a
# CMakeLists.txt is the build's own business. A copied or moved checkout brings a build/ that belongs to the old
# place: that one is configured afresh.
# shellcheck disable=SC2120  # ./test and .ci/run give options
configure() {
  local generator=Ninja option set=1
  if [[ -e build/build.ninja || -e build/Makefile ]] &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" build/CMakeCache.txt && ! lacks_this_gpu; then
    for option; do grep -qx "${option/=/:BOOL=}" build/CMakeCache.txt || set=; done
    [[ ! $set ]] || return 0
    run_cmake "${@/#/-D}" build
    return
  fi
  command -v ninja >/dev/null || generator='Unix Makefiles'
  run_cmake --preset default --fresh -G "$generator" "${@/#/-D}"
}

# Configures; what CMake says is shown where it fails.
run_cmake() {
  mkdir -p build
  attended cmake "$@" >build/.configure.log 2>&1 9>&- && return
  cat build/.configure.log >&2
  die "$exit_build" "CMake could not configure build/ (its message is above)"
}

# Reads what a build prints: messages of compilers pass, and of the progress a terminal has one line.
show_progress() {
  local line clear='' progress='^\[ *([0-9]+/[0-9]+|[0-9]+%)\]'
  [[ ! -t 2 || ${TERM:-dumb} == dumb ]] || clear=$'\r\e[K'
  while IFS= read -r line; do
    if [[ $line =~ $progress ]]; then
      [[ ! $clear ]] || printf '%s%s' "$clear" "building: ${BASH_REMATCH[1]/\// of }" >&2
    elif [[ $line != "-- "* && $line != "ninja: no work to do." && $line != "Consolidate compiler generated"* ]]; then
      say "$clear$line"
    fi
  done
  printf '%s' "$clear" >&2
}

build_targets() { cmake --build build --parallel "$(nproc)" --target "$@" 2>&1 | show_progress; }

# say_how_long TARGET...: once, before a first build of stages or exercises. Seconds of one core, measured in 2026 on a server;
# more, where machine instructions of a GPU are made, too.
how_long_said=
say_how_long() {
  local target seconds=0 minutes
  [[ ! $how_long_said ]] || return 0
  how_long_said=1
  for target; do
    [[ -e build/$target || ! -e $target/main.cu ]] || ((seconds += 15))
    [[ $target != exercise_* || -e build/exercise/${target#exercise_} ]] || ((seconds += 20))
  done
  ((seconds > 0)) || return 0
  [[ -e build/libharness_core.a ]] || ((seconds += 110))
  ! has_gpu || ((seconds = seconds * 3 / 2))
  minutes=$((seconds / 60 / $(nproc) + 1))
  say "Building the missing parts: about $minutes minute$( ((minutes == 1)) || echo s)."
  say "Meanwhile read ${reading:-README.md}."
}

# build TARGET...
build() {
  lock_build
  say_how_long "$@"
  # shellcheck disable=SC2119
  configure
  attended build_targets "$@" 9>&- ||
    die "$exit_build" "the build failed (the compiler's message is above)"
  unlock_build
}
