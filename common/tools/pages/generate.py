"""Writes the measured tables, charts and numbers into the lessons.

    python3 common/tools generate            rewrite README.md, NN_*/README.md, the primer, common/results/*.md, charts, and
                                             the picture of stage 14's table
    python3 common/tools generate --check    change nothing; exit 1 and name the differences
    python3 common/tools generate --redraw   the charts with the same numbers, too: after a change of draw.py
    python3 common/tools generate --gpu NAME the numbers of another GPU, such as nvidia-h100-80gb-hbm3

A block is between two markers on lines of their own, a value within a line:

    <!-- generated: ladder dtype=f32 rows=49152 cols=1024 -->
    <!-- end generated -->
    It reaches <!-- value: percent stage=02_a variant=best dtype=f32 rows=49152 cols=1024 --><!-- end value -->.

Blocks and values take gpu=NAME, too. SHAPE is dtype= rows= cols=, and SHAPES is shapes=f32:49152x1024,f16:49152x1024:
    ladder SHAPE                      every variant of every stage, the copy last
    stage NAME SHAPES                 one stage's variants and the library, percent of the copy by shape
    chart FILE.svg ladder SHAPE
    chart FILE.svg change stage=NAME SHAPE                  the best of the stages before it, its own best, the library
    chart FILE.svg bandwidth dtype= rows= [stages=A,B]      at every recorded power of two
    chart FILE.svg roofline SHAPE
    chart FILE.svg heat_map wider=SHAPE,… unaligned=SHAPE,… few=SHAPE,…     stages and libraries by shape
    chart FILE.svg predicted          every variant at every shape: time predicted from its bytes, and measured
    chart FILE.svg judged             how near the library's choice comes to the fastest kernel, by share of the matrices
    chart FILE.svg table TABLE        a table of the sweep over its widths: stages and libraries
    sweep TABLE                       a published table of ./run sweep: the library and every peer's best
    libraries TABLE op=softmax_backward      the same of another operation: the library, and the best of the others
    judged                            the same in a table, by operation, with the worst matrices
    profile NAME SHAPE quantities=A,B,…      declared, counted and measured, as one number where they agree; the
                                             quantities are QUANTITIES of quantities.py, with _ for spaces
    counters NAME [SHAPE] columns=A,B,…      Nsight Compute's counts: COUNTERS of blocks.py
    counted NAME [SHAPE or SHAPES] columns=A,B,…   the simulator's counts: COUNTED of blocks.py
    hardware_table agreement          on how many counters the simulator and Nsight Compute agree, by variant
    hardware_table differences        where they differ, and why
    segments                          stage 14's picture, and in words which kernel takes which matrices
Values; variant=best is the stage's fastest:
    percent | time                                stage= variant= SHAPE   percent also with op=
    copy_time | copy_bandwidth                    SHAPE
    ratio a=STAGE/VARIANT b=STAGE/VARIANT SHAPE   time of a ÷ time of b
    counter | counted                             column= stage= variant= SHAPE   of Nsight Compute, of the simulator

Units: time µs, bandwidth GB/s (10^9 bytes/s; 2 · rows · cols · size ÷ time), percent of the copy's speed.
The numbers come from one GPU's files: of the lessons' GPU if neither --gpu nor the block names another, or else the
newest. <gpu>.json holds them, <gpu>-profile.json the profiles and counters, <gpu>-sweep.json and <gpu>-sweep-
softmax_backward.json the tables, and <gpu>-judged.json the verdicts on the library's choices; the simulator's counts are
in simulator.json. Drawing a chart needs matplotlib (./run plot fetches it); --check does not. An unknown marker, unknown
argument, missing result or unbalanced marker is an error with file and line; then nothing is written.

Exit codes: 0 fine, 1 an error or (--check) a difference, 2 bad usage, a recorded file that is damaged, or a chart is to
be drawn without matplotlib.
"""

import argparse
import re
from pathlib import Path

from command import Parser, ToolError, not_empty
from files import write_whole
from measure import choices, results
from pages import charts, draw, segments
from pages.blocks import Context, produce

PAIR = re.compile(r"<!-- (generated|value): (\S[^\n]*?) -->(.*?)<!-- end \1 -->", re.S)
# Text that looks like a marker and does not belong to a pair is a typing error.
ALIKE = re.compile(r"<!--\s*(?:end\s+)?(?:generate|value)\w*\b.*?-->", re.I | re.S)
LINE_START = re.compile(r"[\s>*+-]*(\d+[.)]\s*)?")


def regenerate(context: Context, page: Path) -> tuple[str, list[str]]:
    """One page's new text and the blocks that changed, as `file:line: marker`.

    Raises ToolError that begins with file:line.
    """
    context.page = page
    old = page.read_text(encoding="utf-8")
    pieces: list[str] = []
    changed: list[str] = []
    done = 0

    def line_of(place: int) -> str:
        return f"{page.relative_to(context.root).as_posix()}:{old.count(chr(10), 0, place) + 1}"

    def refuse_markers(begin: int, end: int) -> None:
        for found in ALIKE.finditer(old, begin, end):
            marker = " ".join(found[0].split())
            raise ToolError(f"{line_of(found.start())}: this is no marker, or none of a pair: {marker}")

    for pair in PAIR.finditer(old):
        refuse_markers(done, pair.start())
        refuse_markers(*pair.span(3))
        where, (kind, marker, inner) = line_of(pair.start()), pair.groups()
        before = old[old.rfind("\n", 0, pair.start()) + 1 : pair.start()]
        if kind == "generated" and (before or not (inner.startswith("\n") and inner.endswith("\n"))):
            raise ToolError(f"{where}: the markers of a block stand on lines of their own")
        # There CommonMark would take the comment, and the rest of the line with it, for raw HTML.
        if kind == "value" and LINE_START.fullmatch(before):
            raise ToolError(f"{where}: a value cannot begin a line: put a word of the sentence before it")
        try:
            made = produce(context, kind, marker)
        except ToolError as error:
            error.args = (f"{where}: {marker.split()[0]}: {error}",)  # and its exit code stays
            raise
        if made != inner:
            changed.append(f"{where}: {marker}")
        pieces += [old[done : pair.start(3)], made, old[pair.end(3) : pair.end()]]
        done = pair.end()
    refuse_markers(done, len(old))
    return "".join(pieces) + old[done:], changed


def run(context: Context, check: bool, redraw: bool) -> list[str]:
    """Regenerates everything in memory, then writes (unless check); returns the differences."""
    root = context.root
    pages = [root / "README.md", root / "common/primer/README.md"]
    pages += [root / stage / "README.md" for stage in (*context.lessons, results.OF_SEVERAL_GPUS)]
    files: dict[Path, str] = {}
    differing: list[str] = []
    for page in filter(Path.is_file, [*pages, *sorted(context.results.glob("*.md"))]):
        files[page], changed = regenerate(context, page)
        differing += changed
    for name, chart in context.charts.items():
        path = context.results / name
        if redraw or not charts.shows(path, chart):
            differing.append(path.relative_to(root).as_posix())
            if not check:
                files[path] = draw.svg(chart)
    if (root / choices.TABLES).is_dir():
        picture = root / segments.PICTURE
        files[picture] = segments.drawn(root)
        if not picture.is_file() or picture.read_text(encoding="utf-8") != files[picture]:
            differing.append(segments.PICTURE)
    for path, text in files.items():
        if not check and not (path.is_file() and path.read_text(encoding="utf-8") == text):
            write_whole(path, text)
    return differing


def main(argv: list[str]) -> int:
    parser = Parser("python3 common/tools generate", "Write the recorded numbers into the lessons.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="change nothing; exit 1 when something differs")
    how.add_argument("--redraw", action="store_true", help="draw every chart again, changed or not")
    whose = parser.add_mutually_exclusive_group()
    gpu_help = f"whose files in common/results (default: {results.LESSONS_GPU}, or else the newest)"
    whose.add_argument("--gpu", metavar="NAME", type=not_empty, help=gpu_help)
    whose.add_argument("--results", type=Path, help="the file of `record`, from anywhere")
    parser.add_argument("--root", type=Path, default=results.ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    context = Context(arguments.root, arguments.results, arguments.gpu or "")
    differing = run(context, arguments.check, arguments.redraw)
    for what in differing:
        print(f"{'differs' if arguments.check else 'wrote'}: {what}")
    if arguments.check and differing:
        raise ToolError("run python3 common/tools generate")
    return 0
