#!/usr/bin/env bash
# Tests ./run, ./test and their set-up in a fake checkout, without a GPU, a compiler or a network:
#   bash common/tests/scripts_test.sh [SOURCE_DIR]
# PATH holds a few real tools and stubs of the others; every stub writes the line "name arguments" to calls.
set -uo pipefail

source_dir=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}" && pwd)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
failures=0
checks=0

# stub NAME [BODY]: an executable that records its call, then runs BODY.
stub() {
  printf '#!%s\nprintf "%%s\\n" "%s $*" >>"%s/calls"\n%s\n' "$(command -v bash)" "$1" "$top" "${2:-}" >"$top/bin/$1"
  chmod +x "$top/bin/$1"
}

# A fresh checkout of three stages on a machine that has every tool and no GPU (touch gpu: it has one).
# What a stage should exit with is in the file code.STAGE.
fresh_checkout() {
  local tool stage
  rm -rf "${top:?}"/*
  mkdir -p "$top/bin" "$top/checkout/common/tools"
  for tool in bash chmod cp env sed sort grep dirname cat mkdir rmdir mktemp rm mv ln head paste nproc awk flock sleep; do
    ln -s "$(type -P "$tool")" "$top/bin/$tool"
  done
  cd "$top/checkout" || exit 1
  cp "$source_dir/run" "$source_dir/test" .
  cp "$source_dir"/common/tools/{setup.sh,cuda-wheels.txt,requirements.txt} common/tools/
  # This machine's own toolkit and GPU must not show.
  sed -i "s#/usr/local/cuda#$top/no_toolkit#" common/tools/setup.sh
  echo 'has_gpu() { [[ -e gpu ]]; }' >>common/tools/setup.sh
  for stage in 01_first 02_second 03_third; do
    mkdir "$stage"
    touch "$stage/main.cu"
  done
  mkdir 04_not_a_stage
  echo '# The first idea' >01_first/README.md
  stub id 'echo 1000'
  stub g++
  stub ninja
  stub nvcc 'echo "Cuda compilation tools, release 12.4, V12.4.99"'
  stub cmake "$cmake_body"
  : >"$top/calls"
}

# shellcheck disable=SC2016  # these bodies are for the stubs' shells
cmake_body='case $1 in
  --version) echo "cmake version ${fake_cmake_version:-3.25.1}" ;;
  --preset)
    [[ ! -e configure_fails ]] || exit 1
    mkdir -p build
    echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/CMakeCache.txt
    for option; do case $option in -D*) echo "${option#-D}" | sed "s/=/:BOOL=/" >>build/CMakeCache.txt ;; esac; done
    case $* in *Makefiles*) >build/Makefile ;; *) >build/build.ninja ;; esac
    echo "configure chatter" ;;
  -D*)
    echo "${1#-D}" | sed "s/=/:BOOL=/" >>build/CMakeCache.txt ;;
  --build)
    echo "build chatter"
    [[ ! -e build_fails ]] || exit 1
    while [[ $1 != --target ]]; do shift; done
    for target in "${@:2}"; do
      printf "%s\n" "#!$BASH" "printf \"%s\n\" \"$target \$*\" >>\"$PWD/../calls\"" \
        "echo table of $target" "exit \$(cat code.$target 2>/dev/null || echo 0)" >"build/$target"
      chmod +x "build/$target"
    done ;;
esac'

fail() {
  printf 'FAILED: %s\n' "$*"
  sed 's/^/  stdout: /' "$top/out"
  sed 's/^/  stderr: /' "$top/err"
  failures=$((failures + 1))
}

# check MESSAGE CONDITION...
check() {
  checks=$((checks + 1))
  "${@:2}" || fail "$described: $1"
}
not() { ! "$@"; }

# expect CODE COMMAND... runs it in the checkout with nothing of this machine's environment.
expect() {
  local code=0
  described="${*:2}"
  : >"$top/calls"
  env -i PATH="$top/bin" HOME="$top" "${@:2}" >"$top/out" 2>"$top/err" </dev/null || code=$?
  check "exit code $code, expected $1" test "$code" == "$1"
}

# What the command of the last expect printed (out or err), and which stubs it called.
says() { check "std$1 does not say: $2" grep -qF -e "$2" "$top/$1"; }
lacks() { check "std$1 should not say: $2" not grep -qF -e "$2" "$top/$1"; }
one_line() { check 'stderr is not one line' test "$(wc -l <"$top/err")" == 1; }
called() { check "no call of: $1" grep -q -e "^$1" "$top/calls"; }
not_called() { check "unwanted call of: $1" not grep -q -e "^$1" "$top/calls"; }

# climbed LINE...: exactly these stages ran, in this order, with these options.
climbed() {
  local ran
  ran=$(grep '^0' "$top/calls" | sed 's/ *$//')
  check "the stages ran as: $ran" test "$ran" == "$(printf '%s\n' "$@")"
}

# summed_up LINE...: exactly these lines follow the summary of ./test.
summed_up() {
  local lines
  lines=$(sed '1,/^Summary/d' "$top/out")
  check "the summary says: $lines" test "$lines" == "$(printf '%s\n' "$@")"
}

# tool PATH is in .tools, or no_tool is; nothing half-made lies there either way.
nothing_partial() { check "left behind: $(echo .tools/partial*)" not compgen -G '.tools/partial*'; }
tool() { nothing_partial && check "no .tools/$1" test -e ".tools/$1"; }
no_tool() { nothing_partial && check "unwanted .tools/$1" test ! -e ".tools/$1"; }

# --- Help and usage errors need no tool and build nothing.
fresh_checkout
expect 0 ./run --help
says out '01_first                 The first idea'
says out '03_third'
lacks out '04_not_a_stage'
not_called 'cmake'
expect 0 ./test --help
not_called 'cmake'
for bad in 9 08 0 third 03_thir 04_not_a_stage; do
  expect 2 ./run "$bad"
  says err "there is no stage '$bad'; the stages are 01_first 02_second 03_third"
  one_line
done
# Nothing that is merely like a name or a number is taken for one, and nothing is echoed that a terminal would obey.
for bad in 'sweep plot' ' sweep' 18446744073709551619 4294967297 "$(printf '0%.0s' {1..40})4"; do
  expect 2 ./run "$bad"
  says err "there is no stage '$bad'"
  one_line
done
expect 0 ./run 0000000000000000000000000000000003 --help
expect 2 ./run $'\e[31m3'
says err "there is no stage \$'\\E[31m3'"
lacks err $'\e'
# Help, and an option that no stage has, do not wait for a build.
for stage in '' 3; do
  # shellcheck disable=SC2086
  expect 0 ./run $stage --help
  says out 'Usage: ./run'
  for bad in --colums -x --row=4 --section-heading; do
    # shellcheck disable=SC2086
    expect 2 ./run $stage --rows -1 "$bad"
    says err "unknown option '${bad%%=*}'; accepted: --rows --cols"
    one_line
    not_called 'cmake'
  done
done
# Sub-commands are tools of their own, and build what they need themselves.
expect 2 ./run exercise 03 --hint
says err 'this needs Python 3.8 or newer as python3'
one_line
# shellcheck disable=SC2016  # for the stub's shell; -c asks for the version
stub python3 '[[ $1 == -c ]] || exit 7'
expect 7 ./run exercise 03 --hint
called 'python3 common/tools exercise 03 --hint$'
expect 7 ./run doctor
called 'python3 common/tools doctor *$'
not_called 'cmake'
rm "$top/bin/python3"
touch gpu
for bad in '--variant x' '--variant=x' '--profile' '--rows 4 --format json' '--format=json'; do
  # shellcheck disable=SC2086  # several options
  expect 2 ./run $bad
  says err 'needs a stage'
  one_line
  not_called 'cmake'
done

# --- Without a GPU the stages run on the simulator; who insists on a GPU is refused before anything is built.
fresh_checkout
for arguments in '--device gpu' '3 --device=gpu' '--format csv --device gpu'; do
  # shellcheck disable=SC2086
  expect 3 ./run $arguments
  says err 'no NVIDIA GPU here'
  one_line
  not_called 'cmake'
done
expect 0 ./run 3
says err 'CPU simulator'
climbed '03_third'
expect 0 ./run 03 --list
climbed '03_third --list'
expect 0 ./run 3 --help  # built now: the stage says more
climbed '03_third --help'
not_called 'cmake'
expect 0 ./run 2 --list
says err '02_second names its variants itself, so it is built first'
expect 0 ./run --list
climbed '01_first --list' '02_second --list' '03_third --list'

# --- The ladder: order, one table, a clean stdout, no second configure step.
fresh_checkout
touch gpu
expect 0 ./run --rows 8 --format csv
climbed '01_first --section heading,rows --rows 8 --format csv' '02_second --section rows --rows 8 --format csv' \
  '03_third --section rows,ceiling --rows 8 --format csv'
says err 'build chatter'
lacks out 'chatter'
expect 0 ./run
not_called 'cmake --preset'
expect 0 "$top/checkout/run"
sed -i 's#INTERNAL=.*#INTERNAL=/elsewhere#' build/CMakeCache.txt
expect 0 ./run
called 'cmake --preset default --fresh'
# Built without a GPU, and later there is one.
echo built_without_gpu:INTERNAL=ON >>build/CMakeCache.txt
expect 0 ./run
not_called 'cmake --preset'
stub nvidia-smi
expect 0 ./run
called 'cmake --preset default --fresh'

# --- One stage: only that one is built.
for name in 2 02 02_second 02_second/; do
  fresh_checkout
  touch gpu
  expect 0 ./run "$name" --format json --variant x
  climbed '02_second --format json --variant x'
  called 'cmake --build .* --target 02_second$'
done
echo 4 >code.02_second
expect 4 ./run 2

# --- ./run sweep: bad usage and what is missing are told before anything is built.
fresh_checkout
expect 2 ./run sweep
says err 'this needs Python 3.8 or newer as python3'
one_line
stub python3 '[[ $* != *--colour* ]] || { echo "sweep: --colour?" >&2; exit 2; }'
expect 3 ./run sweep
says err 'sweep: there is no NVIDIA GPU here'
one_line
for arguments in --help --list '--shapes f32:8x8 --list'; do
  # shellcheck disable=SC2086
  expect 0 ./run sweep $arguments
  called "python3 common/tools sweep $arguments$"
done
touch gpu
expect 2 ./run sweep --colour
says err '--colour?'
not_called 'cmake'
expect 0 ./run sweep --shapes f32:8x8
called 'cmake --build .* --target stage_libraries$'
called 'python3 common/tools sweep --shapes f32:8x8$'
touch build_fails
expect 70 ./run sweep
not_called 'python3 common/tools sweep$'
expect 0 ./run --help
says out './run sweep'

# --- Two at once in a fresh checkout: one builds after the other, and says that it waits.
fresh_checkout
touch gpu
# shellcheck disable=SC2016
stub cmake '[[ $1 == --version ]] || mkdir busy || { echo "two at once" >>calls; exit 1; }
'"$cmake_body"'
[[ $1 == --version ]] || { sleep 0.3 && rmdir busy; }'
for n in 1 2; do
  code_of_run() { env -i PATH="$top/bin" HOME="$top" ./run "$n" >"$top/out" 2>"$top/err.$n" </dev/null; }
  code_of_run &
done
described='two at once'
for n in 1 2; do
  wait -n
  check "exit code of one: $?" test $? == 0
done
cat "$top"/err.? >"$top/err"
check 'one of them waits' test "$(grep -c 'Waiting until another build' "$top/err")" == 1
check 'both run' test "$(grep -c '^0[12]_' "$top/calls")" == 2
check 'configured once' test "$(grep -c '^cmake --preset' "$top/calls")" == 1
rm "$top/bin/flock"
expect 0 ./run 1

# --- What ends ./run or ./test ends what they have started, too.
# shellcheck disable=SC2016
lasting='sleep 60 & echo $! >lasting; wait'
ended_by() { # SIGNAL CODE COMMAND...
  local n pid code=0
  rm -f lasting
  described="$1: ${*:3}"
  env -i PATH="$top/bin" HOME="$top" "${@:3}" >"$top/out" 2>"$top/err" </dev/null &
  pid=$!
  for ((n = 0; n < 100; ++n)); do [[ ! -s lasting ]] || break; sleep 0.05; done
  kill "-$1" "$pid"
  wait "$pid" || code=$?
  check "exit code $code, expected $2" test "$code" == "$2"
  check 'what it started goes on' has_ended "$(cat lasting)"
}
has_ended() { # PID, at once or a little later; nobody may have asked for its exit code yet
  local n
  for ((n = 0; n < 100; ++n)); do
    { kill -0 "$1" && ! grep -q ') Z' "/proc/$1/stat"; } 2>/dev/null || return 0
    sleep 0.05
  done
  return 1
}
fresh_checkout
touch gpu
stub python3
stub cmake "[[ \$1 != --build ]] || { $lasting; }; $cmake_body"
ended_by TERM 143 ./run 1
ended_by HUP 129 ./run
ended_by TERM 143 ./test
stub cmake "$cmake_body"
stub ctest "$lasting"
ended_by TERM 143 ./test
expect 0 ./run 1
printf '%s\n' "#!$BASH" "$lasting" >build/01_first
sed -i 's/--build)/--build) exit 0/' "$top/bin/cmake"
ended_by TERM 143 ./run
rm "$top/bin/python3"

# --- A path that CMake, nvcc or make cannot take is refused at once; other odd ones are none of our business.
# shellcheck disable=SC2016
for name in "it's" 'a"b' 'a;b' 'a$b' 'a#b' 'a,b' 'a\b' 'a[b' 'a]b' 'a`b' $'a\nb'; do
  fresh_checkout
  touch gpu
  mkdir -p "$top/odd/$name"
  mv "$top/checkout" "$top/odd/$name"
  cd "$top/odd/$name/checkout" || exit 1
  expect 2 ./run 1
  says err 'CMake and nvcc cannot build in'
  one_line
  not_called 'cmake'
done
for name in 'a b' 'a:b' 'a&b' 'a(b)' 'ä' 'a%b' 'a*b' '~' 'a=b'; do
  fresh_checkout
  touch gpu
  mkdir -p "$top/odd/$name"
  mv "$top/checkout" "$top/odd/$name"
  cd "$top/odd/$name/checkout" || exit 1
  expect 0 ./run 1
done
rm "$top/bin/ninja"
stub make
rm -rf build
mkdir "$top/odd/c:d"
mv "$PWD" "$top/odd/c:d/checkout"
cd "$top/odd/c:d/checkout" || exit 1
expect 2 ./run 1
says err 'make cannot build in'
one_line

# --- Exit codes of the ladder.
fresh_checkout
touch gpu
echo 1 >code.01_first
expect 1 ./run
climbed '01_first --section heading,rows' '02_second --section rows' '03_third --section rows,ceiling'
says err 'failed: 01_first (exit code 1)'
echo 4 >code.02_second
echo 1 >code.03_third
expect 4 ./run
says err 'failed: 01_first (exit code 1), 02_second (exit code 4), 03_third (exit code 1)'
for code in 2 3; do
  echo "$code" >code.01_first
  expect "$code" ./run
  climbed '01_first --section heading,rows'
done
touch build_fails
expect 70 ./run
climbed
stub python3
expect 70 ./test
fresh_checkout
touch gpu configure_fails
expect 70 ./run 1
fresh_checkout
touch gpu build  # where nothing can be written
expect 2 ./run 1
says err 'is this checkout read-only, or the disk full?'
one_line

# --- Set-up: what is missing is installed by root on Debian; else the command to type is printed.
fresh_checkout
touch gpu
rm "$top/bin/ninja" "$top/bin/g++"
expect 2 ./run 1
says err 'missing: g++ ninja-build; install these'
stub pacman
expect 2 ./run 1
says err 'sudo pacman -S gcc ninja'
stub dnf
expect 2 ./run 1
says err 'sudo dnf install gcc-c++ ninja-build'
stub apt-get
expect 2 ./run 1
says err 'sudo apt-get install --no-install-recommends g++ ninja-build'
one_line
not_called 'apt-get'
stub id 'echo 0'
# shellcheck disable=SC2016
stub apt-get '[[ $1 == update ]] || { cd "${0%/*}"; for tool in g++ ninja; do printf "#!/bin/sh\n" >$tool; chmod +x $tool; done; }'
expect 0 ./run 1
called 'apt-get install .* g++ ninja-build$'
expect 0 ./run 1
not_called 'apt-get'

fresh_checkout
touch gpu
rm "$top/bin/ninja"
stub make
expect 0 ./run 1
called 'cmake --preset .*Unix Makefiles'
expect 0 ./run 1
lacks err 'missing'

# --- Set-up: the toolkit and a newer CMake from wheels.
# shellcheck disable=SC2016
pip_body='[[ $* != *--version ]] || exit 0
while [[ $1 != --target ]]; do shift; done
mkdir -p "$2/nvidia/cu13/bin" "$2/nvidia/cu13/lib" "$2/cmake/data/bin"
[[ ! -e no_network ]] || { echo "ERROR: no route" >&2; exit 1; }
>"$2/nvidia/cu13/lib/libcudart.so.13"
printf "%s\n" "#!$BASH" "echo release 13.0, V13.0.88" >"$2/nvidia/cu13/bin/nvcc"
cp_cmake() { sed "s/3\.[0-9]*\.1/3.31.0/" "${0%/*}/cmake" >"$2/cmake/data/bin/cmake"; }
cp_cmake "$@"
chmod +x "$2"/*/*/bin/*'

fresh_checkout
touch gpu no_network
stub nvcc 'echo "Cuda compilation tools, release 11.8, V11.8.89"'  # too old: as good as none
stub python3 "$pip_body"
expect 2 ./run 1
says err 'pip: ERROR: no route'
says err 'the CUDA toolkit is missing and could not be fetched: install CUDA 12.4 or newer'
no_tool cuda
rm no_network
mkdir .tools/partial.killed
expect 0 ./run 1
called 'python3 -m pip install .*--require-hashes'
tool cuda/lib64/libcudart.so
expect 0 ./run 1
not_called 'python3'

fresh_checkout
touch gpu
rm "$top/bin/nvcc"
stub python3 "$pip_body"
stub nvidia-smi 'echo 535.12'
expect 2 ./run 1
says err 'driver 535.12 is too old'
one_line
not_called 'python3'

fresh_checkout
touch gpu
stub cmake "${cmake_body/3.25.1/3.22.1}"
stub python3 "$pip_body"
expect 0 ./run 1
says err 'CMake 3.22.1 is older than 3.25'
expect 0 ./run 1
not_called 'python3'

# --- ./run plot and ./run report build nothing; they fetch Python packages where there are none, and pass options on.
# shellcheck disable=SC2016
python_body='case $* in
  "common/tools draw") [[ -e .tools/python || -e has_packages ]] || { echo "draw.py: matplotlib is missing" >&2; exit 2; } ;;
  *pip*) '"$pip_body"' ;;
  *bad_file*) exit 1 ;;
esac'
fresh_checkout
stub python3 "$python_body"
touch no_network
for command in plot report; do
  expect 2 ./run $command
  says err 'matplotlib and Jinja are missing and could not be fetched: repeat this with a network'
  no_tool python
  not_called "python3 common/tools $command"
  expect 0 ./run $command --help
  called "python3 common/tools $command --help$"
  not_called 'python3 -m pip'
done
rm no_network
expect 0 ./run plot --out 'a folder'
called 'python3 -m pip install .*--require-hashes'
called 'python3 common/tools plot --out a folder$'
not_called 'cmake'
tool python
expect 1 ./run report --results bad_file
called 'python3 common/tools report --results bad_file$'
not_called 'python3 -m pip'
fresh_checkout
stub python3 "$python_body"
touch has_packages
expect 0 ./run report
not_called 'python3 -m pip'
no_tool python
# The pinned packages are for Python 3.10 and newer: an older one with packages of its own will do.
stub python3 "case \$* in *'(3, 10)'*) exit 1 ;; esac; $python_body"
expect 0 ./run report
rm has_packages
expect 2 ./run report
says err 'need Python 3.10 or newer'
one_line
not_called 'python3 -m pip'

# --- ./test sums up what CTest wrote; nothing may be skipped where there is a GPU.
# shellcheck disable=SC2016
ctest_body='for file; do :; done
[[ ! -e no_tests ]] || exit 0
{
  echo "<testcase name=\"host\" status=\"run\"><system-out></system-out>"
  echo "</testcase>"
  skipped=gpu
  [[ ! -e optional_tool_missing ]] || skipped=host.charts
  for name in $skipped $(cat more_skipped 2>/dev/null); do
    echo "<testcase name=\"$name\" status=\"notrun\">"
    echo "<skipped message=\"SKIP_RETURN_CODE=3\"/>"
    [[ $name == other.* ]] && echo "<system-out>no tool" || echo "<system-out>$name: no device &lt;0&gt;"
    echo "</system-out>"
    echo "</testcase>"
  done
} >"$file"
[[ ! -e one_fails ]] || { printf "%s\n" "<testcase name=\"bad\" status=\"fail\">" "</testcase>" >>"$file"; exit 8; }'
fresh_checkout
stub ctest "$ctest_body"
expect 2 ./test
says err 'this needs Python 3.8 or newer as python3'
one_line
stub python3
expect 0 ./test -R some
called 'ctest --test-dir build --output-on-failure .* -R some'
called 'cmake --preset default --fresh -G Ninja -DSOFTMAX_TESTS=ON$'
called 'cmake --build .* --target all$'
says err 'no GPU: the GPU tests will be skipped'
says out 'Summary: 1 passed, 0 failed, 1 skipped.'
summed_up '  1 skipped: no device <0>' '    gpu'
not_called 'cmake -D'
# A reader's build has no tests; ./test adds them, once, and ./run goes on with that folder.
rm build/*
expect 0 ./run 1
not_called 'cmake .*SOFTMAX_TESTS'
expect 0 ./test
called 'cmake -DSOFTMAX_TESTS=ON build$'
for command in ./test './run 1' ./test; do
  # shellcheck disable=SC2086
  expect 0 $command
  not_called 'cmake -D'
  not_called 'cmake --preset'
done
touch one_fails
expect 1 ./test
says out 'Summary: 1 passed, 1 failed, 1 skipped.'
summed_up '  failed: bad' '  1 skipped: no device <0>' '    gpu'
rm one_fails
# Each reason once, with every test that was skipped for it, 110 columns at the most.
x50=$(printf 'x%.0s' {1..50})
y51=$(printf 'y%.0s' {1..51})
echo "$x50 other.one $y51 z other.two" >more_skipped
expect 0 ./test
says out 'Summary: 1 passed, 0 failed, 6 skipped.'
summed_up '  4 skipped: no device <0>' "    gpu $x50 $y51" '    z' '  2 skipped: no tool' '    other.one other.two'
rm more_skipped
touch gpu
stub nvidia-smi 'echo NVIDIA H200'
expect 1 ./test
says err 'GPU: NVIDIA H200'
says err 'a GPU is present, so no test that uses it may be skipped'
touch optional_tool_missing
expect 0 ./test
says out '    host.charts'
rm optional_tool_missing
touch no_tests
expect 1 ./test
says err 'no test ran'

printf '%d checks, %d failed\n' "$checks" "$failures"
((failures == 0))
