"""./run, ./test and their set-up in a fake checkout of three stages, without a GPU, a compiler or a network."""

import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from fake_programs import BASH, Programs, check_signal_ends, lasting

ROOT = Path(__file__).resolve().parents[2]

CMAKE = r"""case $1 in
  --version) echo "cmake version VERSION" ;;
  --preset | -D*)
    [[ ! -e configure_fails ]] || { echo "CMake's complaint" >&2; exit 1; }
    mkdir -p build
    if [[ $1 == --preset ]]; then
      echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/CMakeCache.txt
      case $* in *Makefiles*) >build/Makefile ;; *) >build/build.ninja ;; esac
    fi
    printf "%s\n" "$@" | sed -n "s/^-D\(.*\)=/\1:BOOL=/p" >>build/CMakeCache.txt
    echo "configure chatter" ;;
  --build)
    echo "build chatter"
    [[ ! -e build_fails ]] || exit 1
    while [[ $1 != --target ]]; do shift; done
    [[ -e keep_targets ]] || for target in "${@:2}"; do cp "${0%/*}/table" "build/$target"; done ;;
esac"""
TABLE = 'echo "table of ${0##*/}"\nexit "$(cat "code.${0##*/}" 2>/dev/null || echo 0)"'  # a stage's script

# A pip that unpacks a toolkit, a newer CMake and Python packages, and keeps the list of the packages.
PIP = r"""[[ $* != *--version ]] || exit 0
while [[ $1 != --target ]]; do shift; done
cat "$4" >asked
mkdir -p "$2/nvidia/cu13/bin" "$2/nvidia/cu13/lib" "$2/cmake/data/bin"
[[ ! -e no_network ]] || { echo "ERROR: no route" >&2; exit 1; }
>"$2/nvidia/cu13/lib/libcudart.so.13"
printf "%s\n" "#!$BASH" "echo release 13.0, V13.0.88" >"$2/nvidia/cu13/bin/nvcc"
sed "s/3\.[0-9]*\.1/3.31.0/" "${0%/*}/cmake" >"$2/cmake/data/bin/cmake"
chmod +x "$2"/*/*/bin/*"""

LADDER = ["01_first --section heading,rows", "02_second --section rows", "03_third --section rows,ceiling"]


@dataclass
class Done:
    code: int
    out: str
    err: str
    calls: list[str]

    def called(self, pattern: str) -> bool:
        return any(re.match(pattern, call) for call in self.calls)

    @property
    def climbed(self) -> list[str]:
        """The stages that ran, in their order, and their options."""
        return [call.rstrip() for call in self.calls if call.startswith("0")]


class Checkout:
    """On a machine that has every tool but Python, and no GPU; with a file `gpu` it has one. A stage's exit code is
    in the file code.STAGE."""

    def __init__(self, top: Path, programs: Programs) -> None:
        self.path = top / "checkout"
        shutil.copytree(ROOT / "common/tools", self.path / "common/tools", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("run", "test"):
            shutil.copy(ROOT / name, self.path)
        # This machine's own toolkit and GPU must not show.
        setup = self.path / "common/tools/setup.sh"
        text = setup.read_text(encoding="utf-8").replace("/usr/local/cuda", f"{top}/no_toolkit")
        setup.write_text(text + "has_gpu() { [[ -e gpu ]]; }\n", encoding="utf-8")
        for stage in ("01_first", "02_second", "03_third"):
            self.write(f"{stage}/main.cu")
        self.write("01_first/README.md", "# The first idea\n")
        (self.path / "04_not_a_stage").mkdir()
        self.programs = programs
        programs.real(*"bash cat chmod cp dirname env flock grep head ln mkdir mktemp mv nproc paste".split())
        programs.real(*"rm rmdir sed sleep sort".split())
        programs.fake("g++", "ninja")
        programs.fake("id", body="echo 1000")
        programs.fake("table", body=TABLE)
        programs.fake("nvcc", body='echo "Cuda compilation tools, release 12.4, V12.4.99"')
        self.cmake()

    def cmake(self, version: str = "3.25.1", before: str = "", after: str = "") -> None:
        self.programs.fake("cmake", body=f"{before}\n{CMAKE.replace('VERSION', version)}\n{after}")

    def write(self, file: str, text: str = "") -> None:
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def remove(self, file: str) -> None:
        (self.path / file).unlink()

    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.programs.folder), "HOME": str(self.path.parent)}

    def expect(self, code: int, command: str | list[str], said: str = "") -> Done:
        """Runs it with nothing of this machine's environment; `said` is in its text on stderr."""
        self.programs.log.write_text("")
        words = command.split() if isinstance(command, str) else command
        ran = subprocess.run(words, cwd=self.path, env=self.environment(), stdin=subprocess.DEVNULL, text=True,
                             capture_output=True, check=False)  # fmt: skip
        calls = self.programs.log.read_text(encoding="utf-8").splitlines()
        done = Done(ran.returncode, ran.stdout, ran.stderr, calls)
        assert (done.code, said in done.err) == (code, True), (words, said, done)
        return done

    def refused(self, code: int, command: str | list[str], said: str) -> Done:
        """In one line, before anything is built, installed or fetched."""
        done = self.expect(code, command, said)
        assert done.err.count("\n") == 1 and not done.called("cmake|apt-get|python3 -m pip"), done
        return done

    def check_tool(self, name: str, is_here: bool) -> None:
        """The tool is in .tools or not, and nothing half-made is next to it either way."""
        tools = self.path / ".tools"
        assert ((tools / name).exists(), list(tools.glob("partial*"))) == (is_here, [])

    def asked(self) -> list[str]:
        """The packages on pip's last list, each of them with a hash."""
        return re.findall(r"^(\S+)==.*\n    --hash=sha256:", (self.path / "asked").read_text(), re.M)


@pytest.fixture
def checkout(tmp_path: Path, programs: Programs) -> Checkout:
    return Checkout(tmp_path.resolve(), programs)


@pytest.fixture
def with_gpu(checkout: Checkout) -> Checkout:
    checkout.write("gpu")
    return checkout


# ---- Help and bad usage


def test_help_needs_no_build(checkout: Checkout) -> None:
    for command in ("./run --help", "./run 3 -h", "./run 0000000000000000000000000000000003 --help"):
        done = checkout.expect(0, command)
        assert "Usage: ./run" in done.out and "  01_first                 The first idea\n" in done.out
        assert "03_third" in done.out and "04_not_a_stage" not in done.out and not done.called("cmake")
        for command in "exercise doctor sweep profile plot report".split():
            assert f"./run {command}" in done.out
        assert " --section " in done.out
    assert not checkout.expect(0, "./test --help").called("cmake")


NOT_STAGES = "9 08 0 third 03_thir 04_not_a_stage 18446744073709551619 4294967297".split()
NOT_STAGES += ["sweep plot", " sweep", 40 * "0" + "4"]
NEED_A_STAGE = ["--variant x", "--variant=x", "--profile", "--rows 4 --format json", "--format=json"]
NEED_A_GPU = ["--device gpu", "3 --device=gpu", "--format csv --device gpu", "sweep"]
REFUSED = [
    # Nothing that is merely like a name or a number is taken for one, and nothing is echoed that a terminal would obey.
    *[(2, [name], f"no stage '{name}'; the stages are 01_first 02_second 03_third") for name in NOT_STAGES],
    (2, ["\x1b[31m3"], "no stage $'\\E[31m3'; "),
    *[
        (2, [*stage, "--rows", "-1", bad], f"unknown option '{bad.split('=')[0]}'; accepted: --rows --cols")
        for stage in ([], ["3"]) for bad in ("--colums", "-x", "--row=4", "--section-heading")
    ],
    *[(2, options.split(), "needs a stage") for options in NEED_A_STAGE],
    *[(3, options.split(), "there is no NVIDIA GPU here") for options in NEED_A_GPU],
]  # fmt: skip


@pytest.mark.parametrize("code, arguments, said", REFUSED)
def test_refused(checkout: Checkout, code: int, arguments: list[str], said: str) -> None:
    checkout.programs.fake("python3")
    assert "\x1b" not in checkout.refused(code, ["./run", *arguments], said).err


@pytest.mark.parametrize("command", ["./run exercise 03", "./run doctor", "./run sweep", "./run plot", "./test"])
def test_python_is_missing_or_old(checkout: Checkout, command: str) -> None:
    checkout.refused(2, command, "this needs Python 3.10 or newer as python3")
    old = '-c "import sys; sys.version_info = (3, 9, 9); exec(sys.argv[1])"'
    checkout.programs.fake("python3", body=f'exec {sys.executable} {old} "$2"')
    checkout.refused(2, command, "this needs Python 3.10 or newer as python3")


@pytest.mark.parametrize("command", ["exercise 03 --hint", "doctor"])
def test_commands_that_build_for_themselves(checkout: Checkout, command: str) -> None:
    checkout.programs.fake("python3", body="[[ $1 == -c ]] || exit 7")  # -c checks the version
    done = checkout.expect(7, f"./run {command}")
    assert done.called(f"python3 common/tools {command}$") and not done.called("cmake")


# ---- Stages and the ladder


def test_without_a_gpu(checkout: Checkout) -> None:
    assert checkout.expect(0, "./run 3", "CPU simulator").climbed == ["03_third"]
    assert checkout.expect(0, "./run 03 --list").climbed == ["03_third --list"]
    done = checkout.expect(0, "./run 3 --help")  # built now: the stage says more
    assert done.climbed == ["03_third --help"] and not done.called("cmake")
    checkout.expect(0, "./run 2 --list", "02_second names its variants itself, so it is built first")
    assert checkout.expect(0, "./run --list").climbed == ["01_first --list", "02_second --list", "03_third --list"]


def test_the_ladder_is_one_table(with_gpu: Checkout) -> None:
    done = with_gpu.expect(0, "./run --rows 8 --format csv", "build chatter")
    assert done.climbed == [f"{line} --rows 8 --format csv" for line in LADDER] and "chatter" not in done.out


def test_configured_once_and_again_where_needed(with_gpu: Checkout) -> None:
    cache = with_gpu.path / "build/CMakeCache.txt"
    fresh = "cmake --preset default --fresh"
    assert with_gpu.expect(0, "./run").called(fresh)
    assert not with_gpu.expect(0, "./run").called("cmake --preset")
    assert not with_gpu.expect(0, str(with_gpu.path / "run")).called("cmake --preset")
    cache.write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
    assert with_gpu.expect(0, "./run").called(fresh)
    # Built without a GPU, and later there is one.
    cache.write_text(cache.read_text() + "built_without_gpu:INTERNAL=ON\n")
    assert not with_gpu.expect(0, "./run").called("cmake --preset")
    with_gpu.programs.fake("nvidia-smi")
    assert with_gpu.expect(0, "./run").called(fresh)


def test_the_first_rows_come_before_the_other_stages_are_built(with_gpu: Checkout) -> None:
    def order(done: Done) -> list[str]:
        return [call.split("--target ")[-1].split(" --section")[0] for call in done.calls if "--target" in call or call.startswith("0")]

    done = with_gpu.expect(0, "./run", "Building the missing parts: about")
    assert order(done) == ["01_first 02_second", "01_first", "02_second", "03_third", "03_third"]
    assert done.err.count("Building the missing parts") == 1
    assert order(with_gpu.expect(0, "./run"))[:2] == ["01_first 02_second 03_third", "01_first"]


@pytest.mark.parametrize("name", ["2", "02", "02_second", "02_second/"])
def test_one_stage_alone_is_built(with_gpu: Checkout, name: str) -> None:
    done = with_gpu.expect(0, f"./run {name} --format json --variant x")
    assert done.climbed == ["02_second --format json --variant x"]
    assert done.called("cmake --build .* --target 02_second$")


def test_exit_codes(with_gpu: Checkout) -> None:
    with_gpu.write("code.01_first", "1\n")
    assert with_gpu.expect(1, "./run", "failed: 01_first (exit code 1)").climbed == LADDER
    with_gpu.write("code.02_second", "4\n")
    with_gpu.write("code.03_third", "1\n")
    with_gpu.expect(4, "./run", "failed: 01_first (exit code 1), 02_second (exit code 4), 03_third (exit code 1)")
    with_gpu.expect(4, "./run 2")
    for code in (2, 3):  # would be the same of all
        with_gpu.write("code.01_first", f"{code}\n")
        assert with_gpu.expect(code, "./run").climbed == LADDER[:1]
    with_gpu.write("build_fails")
    assert with_gpu.expect(70, "./run").climbed == []
    with_gpu.programs.fake("python3")
    with_gpu.expect(70, "./test")


def test_messages_that_are_lost_stop_nothing(checkout: Checkout) -> None:
    checkout.cmake(after='echo "a warning"')
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run(["./run", "1"], cwd=checkout.path, env=checkout.environment(), stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=full, check=False)  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "table of 01_first\n")


def test_no_build_folder(with_gpu: Checkout) -> None:
    with_gpu.write("build")  # a file in its place
    done = with_gpu.expect(2, "./run 1", "is this checkout read-only, or the disk full?")
    assert done.err.count("\n") == 1
    with_gpu.remove("build")
    with_gpu.write("configure_fails")
    with_gpu.expect(70, "./run 1")


RECORDED = "GPU\n01_first a f32 softmax 1 1 99.0\n"


def test_recorded_percentages_without_a_gpu(checkout: Checkout) -> None:
    checkout.write("common/results/gpu.json")
    checkout.programs.fake("python3", body=f"[[ ! -e damaged ]] || exit 2\nprintf '{RECORDED}'")
    done = checkout.expect(0, "./run --rows 8")
    assert done.climbed == [f"{line} --recorded build/recorded.txt --rows 8" for line in LADDER]
    assert (checkout.path / "build/recorded.txt").read_text() == RECORDED
    again = checkout.expect(0, "./run 2")
    assert again.climbed == ["02_second --recorded build/recorded.txt"] and not again.called("python3")
    (checkout.path / "build/recorded.txt").unlink()
    checkout.write("damaged")
    assert checkout.expect(0, "./run 2").climbed == ["02_second"]
    checkout.remove("damaged")
    checkout.write("gpu")
    assert checkout.expect(0, "./run 2").climbed == ["02_second"]


def test_what_comes_next(checkout: Checkout) -> None:
    checkout.write("02_second/exercise/one/hints.md")
    checkout.expect(0, "./run", "Next: ./run exercise")
    checkout.expect(0, "./run 2", "Next: read 02_second/README.md, then ./run exercise 02.")
    checkout.expect(0, "./run 3", "Next: read 03_third/README.md.")
    checkout.write("code.03_third", "1\n")
    checkout.expect(1, "./run 3", "Next: read")
    checkout.write("code.03_third", "4\n")
    assert "Next" not in checkout.expect(4, "./run 3").err
    for options in ("--format csv", "--format=json", "--verify-only", "--list", "--profile"):
        assert "Next" not in checkout.expect(0, f"./run 2 {options}").err


def test_first_build(with_gpu: Checkout) -> None:
    with_gpu.cmake(before='[[ $1 != --build ]] || printf "[1/2] Building x\\n-- Configuring done\\nx.cu: warning: unused\\nninja: no work to do.\\n"')
    first = with_gpu.expect(0, "./run 1", "Building the missing parts: about").err
    assert "Meanwhile read 01_first/README.md" in first and "x.cu: warning: unused\n" in first
    assert not re.search(r"configure chatter|\[1/2\]|Configuring|no work to do", first)
    assert "Building the missing parts" not in with_gpu.expect(0, "./run 1").err
    with_gpu.write("configure_fails")
    shutil.rmtree(with_gpu.path / "build")
    with_gpu.expect(70, "./run 1", "CMake's complaint\n./run: CMake could not configure")


def test_what_to_read_while_an_exercise_builds(checkout: Checkout) -> None:
    """The lesson of the exercise: of the primer, too."""
    checkout.write("common/primer/exercise/one/starter.cu", "// Exercise 00.1, write it, 5 minutes: a title\n")
    checkout.programs.fake("python3", body=f'exec {sys.executable} "$@"')
    said = checkout.expect(2, "./run exercise 00.1").err  # there is no check
    assert "Meanwhile read common/primer/README.md." in said, said


def test_did_you_mean(checkout: Checkout) -> None:
    checkout.programs.fake("python3", body=f'exec {sys.executable} "$@"')
    for word, meant in {"secnd": "02_second", "thirdd": "03_third", "exercize": "exercise"}.items():
        checkout.refused(2, f"./run {word}", f"there is no stage '{word}'; did you mean {meant}?; the stages are")
    checkout.refused(2, "./run --colums 3", "unknown option '--colums'; did you mean --cols?; accepted: ")


def test_what_was_renumbered_is_told(with_gpu: Checkout) -> None:
    for old, now in {"12_fusion": "12_cross_entropy and 13_masked_softmax", "13_dispatch/": "14_dispatch"}.items():
        with_gpu.refused(2, f"./run {old}", f"{old.rstrip('/')} is now {now}; the stages are 01_first 02_second 03_third\n")
    with_gpu.programs.fake("python3")
    with_gpu.refused(2, "./run exercise 12.2", "exercise 12.2 is now exercise 13.1\n")
    for stage in ("13_masked", "14_dispatch"):
        with_gpu.write(f"{stage}/main.cu")
    commands = ("./run 3", "./run 14_dispatch", "./run 13", "./run 13", "./run 14")
    told = ["13_dispatch is now 14_dispatch" in with_gpu.expect(0, command).err for command in commands]
    assert told == [False, False, True, False, False]


# ---- Two at once, and signals


def test_two_at_once_build_one_after_the_other(with_gpu: Checkout) -> None:
    with_gpu.cmake(
        before='[[ $1 == --version ]] || mkdir busy || { echo "two at once" >>calls; exit 1; }',
        after="[[ $1 == --version ]] || { sleep 0.3 && rmdir busy; }",
    )
    both = [
        subprocess.Popen(["./run", stage], cwd=with_gpu.path, env=with_gpu.environment(), stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        for stage in "12"
    ]
    said = "".join(process.communicate(timeout=60)[1] for process in both)
    calls = with_gpu.programs.log.read_text(encoding="utf-8")
    assert [process.returncode for process in both] == [0, 0], said
    assert said.count("Waiting until another build") == 1, said
    assert (len(re.findall("^0[12]_", calls, re.M)), calls.count("cmake --preset")) == (2, 1), calls
    with_gpu.programs.remove("flock")
    with_gpu.expect(0, "./run 1")


# The program of each command that still runs when the signal comes.
ENDED = [("cmake", "./run 1"), ("cmake", "./run"), ("cmake", "./test"), ("ctest", "./test"), ("stage", "./run")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what, command", ENDED)
def test_a_signal_ends_what_was_started(with_gpu: Checkout, what: str, command: str, number: signal.Signals) -> None:
    started = with_gpu.path / "started"
    with_gpu.programs.fake("python3")
    with_gpu.programs.fake("ctest", body=lasting(started))
    if what == "cmake":
        with_gpu.cmake(before=f"[[ $1 != --build ]] || {{ {lasting(started)} }}")
    elif what == "stage":
        with_gpu.expect(0, "./run 1")
        with_gpu.write("build/01_first", f"#!{BASH}\n{lasting(started)}")
        with_gpu.write("keep_targets")
    check_signal_ends(number, command.split(), started, cwd=with_gpu.path, env=with_gpu.environment())


# ---- Paths


def moved(checkout: Checkout, name: str) -> Checkout:
    """The checkout in a folder of that name."""
    place = checkout.path.parent / "odd" / name
    place.mkdir(parents=True)
    checkout.path = checkout.path.rename(place / "checkout")
    return checkout


@pytest.mark.parametrize("name", ["it's", *[f"a{taken}b" for taken in "\";$#,\\[]`\n"]])
def test_paths_that_cmake_or_nvcc_cannot_take(with_gpu: Checkout, name: str) -> None:
    moved(with_gpu, name).refused(2, "./run 1", "CMake and nvcc cannot build in")


@pytest.mark.parametrize("name", ["a b", "a:b", "a&b", "a(b)", "ä", "a%b", "a*b", "~", "a=b"])
def test_other_odd_paths(with_gpu: Checkout, name: str) -> None:
    assert moved(with_gpu, name).expect(0, "./run 1").climbed == ["01_first"]


# ---- Set-up


def test_what_is_missing_is_installed_by_root_or_the_command_is_said(with_gpu: Checkout) -> None:
    programs = with_gpu.programs
    programs.remove("ninja", "g++")
    with_gpu.refused(2, "./run 1", "missing: g++ ninja-build; install these")
    for manager, command in {
        "pacman": "sudo pacman -S gcc ninja",
        "dnf": "sudo dnf install gcc-c++ ninja-build",
        "apt-get": "sudo apt-get install --no-install-recommends g++ ninja-build",
    }.items():
        programs.fake(manager)
        with_gpu.refused(2, "./run 1", command)
    programs.fake("id", body="echo 0")
    new = 'for tool in g++ ninja; do printf "#!/bin/sh\\n" >$tool; chmod +x $tool; done'
    programs.fake("apt-get", body=f'[[ $1 == update ]] || {{ cd "${{0%/*}}"; {new}; }}')
    assert with_gpu.expect(0, "./run 1").called("apt-get install .* g\\+\\+ ninja-build$")
    assert not with_gpu.expect(0, "./run 1").called("apt-get")


def test_make_in_place_of_ninja(with_gpu: Checkout) -> None:
    with_gpu.programs.remove("ninja")
    with_gpu.programs.fake("make")
    assert with_gpu.expect(0, "./run 1").called("cmake --preset .*Unix Makefiles")
    assert "missing" not in with_gpu.expect(0, "./run 1").err
    moved(with_gpu, "c:d").refused(2, "./run 1", "make cannot build in")


def test_the_toolkit_is_fetched(with_gpu: Checkout) -> None:
    with_gpu.programs.fake("nvcc", body='echo "Cuda compilation tools, release 11.8, V11.8.89"')  # as good as none
    with_gpu.programs.fake("python3", body=PIP)
    with_gpu.write("no_network")
    done = with_gpu.expect(2, "./run 1", "pip: ERROR: no route")
    assert "the CUDA toolkit is missing and could not be fetched: install CUDA 12.4 or newer" in done.err
    with_gpu.check_tool("cuda", False)
    with_gpu.remove("no_network")
    (with_gpu.path / ".tools/partial.killed").mkdir()
    assert with_gpu.expect(0, "./run 1").called("python3 -m pip install .*--require-hashes")
    with_gpu.check_tool("cuda/lib64/libcudart.so", True)
    assert len(with_gpu.asked()) == 7 and all(name.startswith("nvidia-") for name in with_gpu.asked())
    assert not with_gpu.expect(0, "./run 1").called("python3")


def test_a_driver_too_old_for_the_toolkit(with_gpu: Checkout) -> None:
    with_gpu.programs.remove("nvcc")
    with_gpu.programs.fake("python3", body=PIP)
    with_gpu.programs.fake("nvidia-smi", body="echo 535.12")
    done = with_gpu.expect(2, "./run 1", "driver 535.12 is too old")
    assert done.err.count("\n") == 1 and not done.called("python3")


def test_a_newer_cmake_is_fetched(with_gpu: Checkout) -> None:
    with_gpu.cmake("3.22.1")
    with_gpu.programs.fake("python3", body=PIP)
    with_gpu.expect(0, "./run 1", "CMake 3.22.1 is older than 3.25")
    assert with_gpu.asked() == ["cmake"]
    assert not with_gpu.expect(0, "./run 1").called("python3")


def test_the_lock_file_has_the_versions_of_pyproject() -> None:
    """If they differ, common/tools/lock.sh has to run again. The file names no package index."""
    tools = ROOT / "common/tools"
    groups = (tools / "pyproject.toml").read_text(encoding="utf-8").split("[dependency-groups]\n")[1].split("\n[tool.")[0]
    wanted = {name: set(re.findall(r'"(\S+==\S+)"', text)) for name, text in re.findall(r"^(\w+) = (\[[^]]*\])", groups, re.M)}
    locked = (tools / "wheels.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^# \[(\w+)\]$", locked, flags=re.M)
    sections = {name: set(re.findall(r"^\S+==\S+", text, re.M)) for name, text in zip(parts[::2], parts[1::2])}
    assert wanted.keys() == sections.keys() and all(wanted[name] and wanted[name] <= sections[name] for name in wanted)
    scripts = "".join((ROOT / script).read_text(encoding="utf-8") for script in ("common/tools/setup.sh", ".ci/run"))
    fetched = set(re.findall(r"fetch_wheels ([a-z_]+)", scripts))
    assert {"pytest", "checkers"} <= fetched <= sections.keys() and "://" not in locked


# ---- Commands that Python programs do


def test_sweep_builds_what_it_needs_when_all_is_well(checkout: Checkout) -> None:
    checkout.programs.fake("python3", body='[[ $* != *--colour* ]] || { echo "sweep: --colour?" >&2; exit 2; }')
    for arguments in ("--help", "--list", "--shapes f32:8x8 --list"):
        assert checkout.expect(0, f"./run sweep {arguments}").called(f"python3 common/tools sweep {arguments}$")
    checkout.write("gpu")
    checkout.refused(2, "./run sweep --colour", "--colour?")
    done = checkout.expect(0, "./run sweep --shapes f32:8x8")
    assert done.called("cmake --build .* --target stage_libraries$")
    assert done.called("python3 common/tools sweep --shapes f32:8x8$")
    checkout.write("build_fails")
    assert not checkout.expect(70, "./run sweep").called("python3 common/tools sweep$")


def test_profile_builds_the_stages_that_it_lists(checkout: Checkout) -> None:
    checkout.programs.fake("python3", body='[[ $* != *--list ]] || echo "01_first 03_third"')
    done = checkout.expect(0, "./run profile 1 3")
    assert done.called("cmake --build .* --target 01_first 03_third$")
    assert done.called("python3 common/tools profile 1 3$")
    assert not checkout.expect(0, "./run profile --help").called("cmake")


# A Python without the packages of the charts, until they are fetched or a file says that it has them.
PYTHON = f"""case $* in
  "common/tools draw") [[ -e .tools/python || -e has_packages ]] || {{ echo "draw: missing" >&2; exit 2; }} ;;
  *pip*) {PIP} ;;
  *bad_file*) exit 1 ;;
esac"""


def test_packages_of_the_charts_are_fetched(checkout: Checkout) -> None:
    checkout.programs.fake("python3", body=PYTHON)
    checkout.write("no_network")
    checkout.write("has_packages")
    assert not checkout.expect(0, "./run report").called("python3 -m pip")
    checkout.remove("has_packages")
    for command in ("plot", "report"):
        said = "matplotlib and Jinja are missing and could not be fetched: repeat this with a network"
        assert not checkout.expect(2, f"./run {command}", said).called(f"python3 common/tools {command}")
        checkout.check_tool("python", False)
        done = checkout.expect(0, f"./run {command} --help")
        assert done.called(f"python3 common/tools {command} --help$") and not done.called("python3 -m pip")
    checkout.remove("no_network")
    done = checkout.expect(0, ["./run", "plot", "--out", "a folder"])
    assert {"matplotlib", "jinja2", "numpy"} <= set(checkout.asked()) and "pytest" not in checkout.asked()
    assert done.called("python3 -m pip install .*--require-hashes") and not done.called("cmake")
    assert done.called("python3 common/tools plot --out a folder$")
    checkout.check_tool("python", True)
    done = checkout.expect(1, "./run report --results bad_file")
    assert done.called("python3 common/tools report --results bad_file$") and not done.called("python3 -m pip")


# ---- ./test sums up what CTest wrote


# The status that CTest writes, and why it says that a test did not run.
STATUS = {"passed": ("run", ""), "failed": ("fail", ""), "skipped": ("notrun", "SKIP_RETURN_CODE=3"),
          "missing": ("notrun", "Unable to find executable"), "disabled": ("disabled", "Disabled")}  # fmt: skip

OWN_PYTHON = f'[[ $* != "common/tools test_summary "* ]] || exec {sys.executable} -B "$@"'


@pytest.fixture
def tested(checkout: Checkout) -> Checkout:
    """With a Python for ./test's own use, and a CTest that writes `results` and fails if one is not a success."""
    checkout.programs.fake("python3", body=OWN_PYTHON)
    copy = "[[ ! -e results ]] || cp results ${@: -1}\n! grep -qs 'status=.fail' results"
    checkout.programs.fake("ctest", body=copy)
    return checkout


def results(checkout: Checkout, *cases: str) -> None:
    """The file that CTest writes for these: STATUS NAME, and the output of the test."""
    text = ""
    for result, name, *printed in (case.split(" ", 2) for case in cases):
        status, why = STATUS[result]
        inside = f'<skipped message="{why}"/>' * bool(why) + f"<system-out>{escape(''.join(printed))}\n</system-out>"
        text += f'<testcase name="{name}" classname="{name}" status="{status}">{inside}</testcase>\n'
    checkout.write("results", f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="t">\n{text}</testsuite>\n')


X50, Y51 = 50 * "x", 51 * "y"
SUMMARIES = {
    "one fails": (
        ["passed host.a", "skipped gpu gpu: no device <0>", "failed bad"],
        1, "1 passed, 1 failed, 1 skipped.\n  failed: bad\n  1 skipped: no device <0>\n    gpu\n",
    ),
    # Each reason once, with every test that was skipped for it, 110 columns at the most.
    "many are skipped": (
        ["passed host.a", *(f"skipped {name} no device" for name in ("gpu", X50, Y51, "z")),
         "skipped o.one .s   [100%]\n1 passed, 1 skipped in 0.24s\nno tool", "skipped o.two no tool"],
        0, f"1 passed, 0 failed, 6 skipped.\n  4 skipped: no device\n    gpu {X50} {Y51}\n    z\n"
        "  2 skipped: no tool\n    o.one o.two\n",
    ),
    "no reason, disabled, and could not be started": (
        ["passed host.a", "skipped a", "disabled b", "missing c"],
        1, "1 passed, 1 failed, 2 skipped.\n  failed: c\n  2 skipped: no reason given\n    a b\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("cases, code, summary", SUMMARIES.values(), ids=SUMMARIES)
def test_summary(tested: Checkout, cases: list[str], code: int, summary: str) -> None:
    results(tested, *cases)
    done = tested.expect(code, "./test", "no GPU: the GPU tests will be skipped")
    assert done.out.partition("\nSummary: ")[2] == summary


@pytest.mark.parametrize("name", ["gpu.fences", "liars.honest", "01_naive.tiny", "exercises.on_gpu"])
def test_nothing_may_be_skipped_where_there_is_a_gpu(tested: Checkout, name: str) -> None:
    tested.write("gpu")
    tested.programs.fake("nvidia-smi", body="echo NVIDIA H200")
    results(tested, "passed host.a", "skipped host.charts", f"skipped {name}")
    done = tested.expect(1, "./test", "./test: a GPU is present, so no test that uses it may be skipped")
    assert "GPU: NVIDIA H200" in done.err
    results(tested, "passed host.a", "skipped host.charts")  # lacks an optional tool
    assert "    host.charts\n" in tested.expect(0, "./test").out


LONG = "The long tests were left out; ./test --all runs them, too."


@pytest.mark.parametrize("arguments, chosen, is_all", [("", "-LE ^long$ ", False), (" --all", "", True), (" -R some", "-R some ", True),
                                                       (" --all -j 3", "-j 3 ", True)])  # fmt: skip
def test_long_tests_run_if_asked_for(tested: Checkout, arguments: str, chosen: str, is_all: bool) -> None:
    results(tested, "passed host.a")
    done = tested.expect(0, f"./test{arguments}")
    assert done.called(rf"ctest .*--parallel [0-9]+ {re.escape(chosen)}--output-junit ")
    assert (LONG in done.err) != is_all


def test_packages_of_the_long_tests_are_fetched(tested: Checkout) -> None:
    results(tested, "passed host.a")
    tested.programs.fake("python3", body=f"{OWN_PYTHON}\n[[ $* == *pip* ]] || exit 0\n{PIP}")
    tested.write("no_network")
    assert not tested.expect(0, "./test").called("python3 -m pip")
    done = tested.expect(0, "./test --all", ".tools/python is missing and could not be fetched: tests of charts and pages")
    assert done.called("ctest") and sum("pip install" in call for call in done.calls) == 1  # it does not try the others
    tested.check_tool("python", False)
    tested.remove("no_network")
    assert tested.expect(0, "./test -j 3 --all", "into .tools (90 MB): python browser_driver axe ...\n").called("ctest")
    for name in ("python", "browser_driver", "axe"):
        tested.check_tool(name, True)
    assert tested.asked() == ["axe-playwright-python"]
    assert not tested.expect(0, "./test --all").called("python3 -m pip")
    shutil.rmtree(tested.path / ".tools/browser_driver")
    tested.expect(0, "./test --all", "into .tools (90 MB): browser_driver ...\n")
    assert set(tested.asked()) == {"greenlet", "playwright"}


@pytest.mark.parametrize("cases", [None, [], ["skipped gpu"]])
def test_no_test_ran(tested: Checkout, cases: list[str] | None) -> None:
    if cases is not None:
        results(tested, *cases)
    tested.expect(1, "./test", "./test: no test ran")


def test_damaged_results(tested: Checkout) -> None:
    tested.write("results", "<testsuite>")
    assert "Traceback" not in tested.expect(1, "./test", "build/test-results.xml: no element found").err


def test_what_test_builds(tested: Checkout) -> None:
    results(tested, "passed host.a")
    done = tested.expect(0, "./test -R some")
    assert done.called("ctest --test-dir build --output-on-failure .* -R some")
    assert done.called("cmake --preset default --fresh -G Ninja -DSOFTMAX_TESTS=ON$")
    assert done.called("cmake --build .* --target all exercises$") and not done.called("cmake -D")
    assert tested.expect(0, "./test").called("cmake --build .* --target all$")
    # A reader's build has no tests; ./test adds them, once, and ./run goes on with that folder.
    shutil.rmtree(tested.path / "build")
    assert not tested.expect(0, "./run 1").called("cmake .*SOFTMAX_TESTS")
    assert tested.expect(0, "./test").called("cmake -DSOFTMAX_TESTS=ON build$")
    for command in ("./test", "./run 1", "./test"):
        assert not tested.expect(0, command).called("cmake -D|cmake --preset")
