"""Shows that a refactoring changed nothing: compares the kernels of two build folders, and their counts.

    python3 common/tools same_code BEFORE AFTER [--rows LIST] [--cols LIST] [--only NAME...]

Kernels are matched by their names without namespaces, even if they have moved to another file. Kernels with the same PTX have
the same machine code. If the PTX differs, ptxas assembles it for compute capability 9.0, and the machine code is compared.
Then every stage runs on the simulator, and each row of its CSV, with all counters, is compared with the row of the same
variant, even if that variant has moved to another stage.

Exit codes: 0 nothing differs except names and places; 1 something differs; 2 bad usage.
"""

import csv
import hashlib
import os
import re
import struct
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from command import Parser, ToolError, Usage, folder_to_read, output_of

PTX = re.compile(rb"\.version \d+\.\d+\n\.target [^\0]*")
KERNEL = re.compile(r"^(?:\.weak |\.visible )?\.entry (\w+)\(.*?^}$", re.M | re.S)
MANGLED = re.compile(r"_Z\w+?(?=_param_\d+\b|\b)")
# Lines for a debugger, and numbers that depend on the rest of the file.
NOT_CODE = re.compile(r"^\s*(?:\.loc|\.file|//).*\n|^\$L__tmp\d+:\n", re.M)
NUMBERED = re.compile(r"(\$L__BB|__local_depot|\$L__func_(?:begin|end))\d+")
COUNTED_BY = ("variant", "op", "dtype", "rows", "cols", "input")
ARCHITECTURE = "sm_90"

Hashes = dict[str, set[str]]  # of each kernel: one hash, unless kernels of the same name differ


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Names as C++ writes them, without namespaces and without the parts that tell two files apart."""
    names = sorted(set(names))
    printed = subprocess.run(["c++filt"], input="\n".join(names), text=True, stdout=subprocess.PIPE, check=True).stdout
    without = re.compile(r"\(anonymous namespace\)::|\b_INTERNAL_\w+::|\b[A-Za-z_]\w*::")
    return {name: without.sub("", line) for name, line in zip(names, printed.splitlines(), strict=True)}


def programs(build: Path, only: list[str]) -> list[Path]:
    """The executables of the stages, and the object files of libraries that have kernels."""
    found = [path for path in build.iterdir() if path.is_file() and os.access(path, os.X_OK)]
    found += build.glob("**/rowwise*.dir/**/*.o")
    return sorted(path for path in found if not only or path.name in only)


def modules(build: Path, only: list[str]) -> Iterator[str]:
    for path in programs(build, only):
        for text in PTX.findall(path.read_bytes()):
            yield text.decode()


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def kernels(build: Path, only: list[str]) -> tuple[Hashes, dict[str, tuple[str, str]]]:
    """Hashes of PTX by name; and of each kernel a module that has it, with its name there."""
    hashes: Hashes = defaultdict(set)
    found_in: dict[str, tuple[str, str]] = {}
    plain: dict[str, str] = {}
    for module in modules(build, only):
        plain.update(demangled(MANGLED.findall(module)))
        for entry in KERNEL.finditer(module):
            code = NUMBERED.sub(r"\1", NOT_CODE.sub("", entry[0]))
            code = MANGLED.sub(lambda name: plain[name[0]], re.sub(r"^(\.weak |\.visible )", "", code))
            name = plain.get(entry[1], entry[1])
            hashes[name].add(digest(code))
            found_in[name] = (module, entry[1])
    return hashes, found_in


def machine_code(module: str, kernel: str) -> str:
    """A hash of the kernel's section in the module that ptxas has compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        source.write_text(module, encoding="utf-8")
        if output_of("ptxas", f"-arch={ARCHITECTURE}", "--entry", kernel, source, "-o", cubin) is None:
            raise ToolError(f"ptxas does not assemble {kernel} for {ARCHITECTURE}")
        elf = cubin.read_bytes()
    headers, size, count, names = struct.unpack_from("<Q10xHHH", elf, 40)
    sections = [struct.unpack_from("<IIQQQQ", elf, headers + i * size) for i in range(count)]
    start_of_names = sections[names][4]
    for name, _, _, _, offset, length in sections:
        begin = start_of_names + name
        if elf[begin : elf.index(0, begin)].decode() == f".text.{kernel}":
            return digest(elf[offset : offset + length])
    raise ToolError(f"ptxas made no machine code of {kernel}")


def compare_kernels(before: Path, after: Path, only: list[str]) -> bool:
    (old, old_modules), (new, new_modules) = kernels(before, only), kernels(after, only)
    if not old or not new:
        raise ToolError(f"{before if not old else after} has no executable with kernels")
    both = sorted(old.keys() & new.keys())
    other_ptx = [name for name in both if old[name] != new[name]]
    other_code = [name for name in other_ptx if machine_code(*old_modules[name]) != machine_code(*new_modules[name])]
    print(f"kernels: {len(old)} before, {len(new)} after, {len(both)} in both; PTX differs in {len(other_ptx)},"
          f" machine code in {len(other_code)}")  # fmt: skip
    for what, names in (("differs", other_code), ("gone", sorted(old.keys() - new.keys())), ("new", sorted(new.keys() - old.keys()))):
        for name in names:
            print(f"  {what}: {name}")
    return other_code == [] and old.keys() == new.keys()


Rows = dict[tuple[str, ...], set[tuple[tuple[str, str], ...]]]


def counts(build: Path, options: list[str], only: list[str]) -> tuple[Rows, dict[tuple[str, str], list[str]]]:
    """Rows of CSV, by variant, operation and shape; and for each variant and operation the stages that have it."""
    rows: Rows = defaultdict(set)
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted(build.glob("[0-9][0-9]_*")):
        if not os.access(path, os.X_OK) or path.is_dir() or path.name.endswith("_processes") or (only and path.name not in only):
            continue
        command = [str(path), "--device", "sim", *options, "--format", "csv"]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise ToolError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        for row in csv.DictReader(done.stdout.splitlines()):
            rows[tuple(row[column] for column in COUNTED_BY)].add(tuple(row.items()))
            if path.name not in places[row["variant"], row["op"]]:
                places[row["variant"], row["op"]].append(path.name)
    return rows, places


def compare_counts(before: Path, after: Path, options: list[str], only: list[str]) -> bool:
    (old, old_places), (new, new_places) = counts(before, options, only), counts(after, options, only)
    differs = sorted(key for key in old.keys() & new.keys() if old[key] != new[key])
    print(f"rows of CSV: {len(old)} before, {len(new)} after; {len(differs)} differ")
    changes: Counter[tuple[str, ...]] = Counter()
    for key in differs:
        for was, now in zip(sorted(old[key] - new[key]), sorted(new[key] - old[key]), strict=False):
            changes.update((key[0], name, value, other) for (name, value), (_, other) in zip(was, now, strict=False) if value != other)
    for (variant, name, value, other), times in sorted(changes.items()):
        print(f"  {variant}, {name}: {value!r}, now {other!r} ({times} rows)")
    for variant, op in sorted(old_places.keys() | new_places.keys()):
        before_it, after_it = old_places.get((variant, op), ["nowhere"]), new_places.get((variant, op), ["nowhere"])
        if before_it != after_it:
            print(f"  moved: {variant} ({op}): {' '.join(before_it)} -> {' '.join(after_it)}")
    return not differs


def main(argv: list[str]) -> int:
    parser = Parser("common/tools same_code", __doc__)
    parser.add_argument("builds", nargs="*", type=folder_to_read, metavar="BEFORE AFTER", help="two build folders")
    parser.add_argument("--rows", default="0,3,70", help="rows of the runs that are compared (default: %(default)s)")
    parser.add_argument("--cols", default="1,33,1000,1024,4096,5001", help="their columns (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="executables to compare (default: all)")
    options = parser.parse_args(argv)
    if len(options.builds) != 2:
        raise Usage(f"BEFORE AFTER: {len(options.builds)} folders are not accepted; accepted: two build folders")
    before, after = options.builds
    runs = ["--rows", options.rows, "--cols", options.cols, "--dtype", "all", "--op", "all"]
    same = compare_kernels(before, after, options.only)
    return 0 if compare_counts(before, after, runs, options.only) and same else 1
