"""Tests of the names in pages and comments: links lead somewhere, paths exist, code is quoted as it is."""

import re
from pathlib import Path
from typing import Iterator

from measure import results

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = "cmake cpp cu cuh h in jinja json md ptx py sh svg txt".split()
MADE = ("build", ".tools", "mine.", ".exercise-progress.json")  # by the build, the set-up and the learner

FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.M | re.S)
CPP = re.compile(r"^```c(?:pp)?\n(.*?)^```", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(
    r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$|<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"]+)\"", re.M
)
HEADING = re.compile(r"^#+ +(.*?) *#*$", re.M)
PATH = re.compile(r"\.?[\w.+-]+(?:/[\w.+-]+)*/?")
# In sources only names that can be nothing else: a file below one of the top folders.
PATH_IN_SOURCE = re.compile(rf"(?<![\w/.$}}*-])(?:common|\d\d_\w+)/[\w/.-]*\.(?:{'|'.join(SUFFIXES)})\b(?![\w/*{{-])")


def blanked(text: str, pattern: re.Pattern[str]) -> str:
    """The text without the matches; lines keep their numbers."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def anchors(page: str) -> list[str]:
    """The names that GitHub gives to the headings of a page."""
    found: list[str] = []
    for heading in HEADING.findall(blanked(page, FENCE)):
        text = re.sub(r"<!--.*?-->|<[^>]*>", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.append(name if name not in found else f"{name}-{found.count(name)}")
    return found


def files(root: Path) -> list[Path]:
    """The files of the repository."""
    ours = [p for p in root.iterdir() if not p.name.startswith(("build", ".git", ".tools")) or p.name == ".github"]
    found = [file for path in ours for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return sorted(p for p in found if "__pycache__" not in p.parts and not p.name.startswith("mine."))


def dead_links(root: Path, page: Path, text: str) -> Iterator[tuple[int, str]]:
    for found in LINK.finditer(blanked(blanked(text, FENCE), CODE)):
        target, _, anchor = (found[1] or found[2] or found[3]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / target if target else page
        if not file.exists():
            yield found.start(), f"{target} does not exist"
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield found.start(), f"{target}#{anchor}: there is no such heading"


def dead_paths(root: Path, page: Path, text: str, names: list[str]) -> Iterator[tuple[int, str]]:
    """A path may begin at the top, at the page's folder or anywhere: `kernel/pack.cuh`, `timer.h`."""
    for found in CODE.finditer(blanked(text, FENCE)):
        path = found[1].split(":")[0]
        suffix = path.rpartition(".")[2]
        is_path = PATH.fullmatch(path) and ("/" in path or suffix in SUFFIXES) and path != f".{suffix}"
        if not is_path or path.startswith(MADE):
            continue
        there = (root / path).exists() or (page.parent / path).exists()
        if not there and not any(name.endswith("/" + path) for name in names):
            yield found.start(), f"`{path}` does not exist"


def dead(root: Path) -> list[str]:
    every = files(root)
    names = ["/" + path.relative_to(root).as_posix() for path in every]
    problems = []
    for file in every:
        name = file.relative_to(root).as_posix()
        if name.startswith("common/tests/") or file.suffix in (".json", ".svg"):
            continue  # tests name missing files; recordings name old ones
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        named = (path for path in PATH_IN_SOURCE.finditer(text) if "/mine." not in path[0])
        gone = (path for path in named if not (root / path[0]).exists())
        found = [(path.start(), f"{path[0]} does not exist") for path in gone]
        if file.suffix == ".md":
            found += [*dead_links(root, file, text), *dead_paths(root, file, text, names)]
        problems += [f"{name}:{text.count(chr(10), 0, place) + 1}: {what}" for place, what in found]
    return problems


def misquoted(root: Path) -> list[str]:
    """Lines of C and C++ in the README, a stage's lesson or the library's page that are in no source of the repository."""
    sources = [file.read_text(encoding="utf-8") for file in files(root) if file.suffix in (".c", ".cu", ".cuh", ".h", ".cpp")]
    known = {line.strip() for source in sources for line in source.splitlines()} | {"", "..."}
    problems = []
    pages = ("README.md", "[0-9][0-9]_*/README.md", "common/rowwise/README.md")
    for page in sorted(page for pages_of in pages for page in root.glob(pages_of)):
        text = page.read_text(encoding="utf-8")
        for block in CPP.finditer(text):
            for number, line in enumerate(block[1].splitlines(), text.count("\n", 0, block.start(1)) + 1):
                if line.strip() not in known:
                    problems.append(f"{page.relative_to(root)}:{number}: no source has this line: {line.strip()}")
    return problems


def least_width(table: str) -> float:
    """The least width in px of a Markdown table as a code host shows it, with each line broken wherever it can be."""
    text = re.sub(r"<[^>]*>|[*`]", "", re.sub(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", table))
    rows = [[cell.strip(" ") for cell in row.strip(" |").split("|")] for row in text.splitlines() if not re.match(r"\|[ :-]+\|", row)]
    letter, around = 8.8, 27  # px: a wide letter; a cell's padding and border
    return sum(letter * max(len(word) for cell in column for word in cell.split(" ")) + around for column in zip(*rows))


def test_tables_of_the_readme_fit_a_telephone() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert tables and [table for table in tables if least_width(table) > 358] == []
    assert least_width("| a | [bcd ef](x.md) |\n| --- | ---: |\n| `1\u00a0×\u00a02` | **2** |\n") == 8.8 * (5 + 3) + 54


def test_the_readme_leads_to_every_lesson() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [p.parent.name for p in ROOT.glob("[0-9][0-9]_*/README.md") if f"({p.parent.name}/README.md)" not in readme] == []


def test_the_readme_says_where_each_stage_comes_from() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sources = re.findall(r"^\| .+ \| (\d\d), (.+) \|$", readme[readme.index("## Where the ideas come from") :], re.M)
    assert {stage for stage, _ in sources} == {p.name[:2] for p in ROOT.glob("[0-9][0-9]_*")}
    recorded = [results.file_of(ROOT / "common/results", kind) for kind in ("", "-several")]
    measured = [result for file in recorded if file for result in results.load(file, {})["results"]]
    variants = {((result["stage"] or "")[:2], result["variant"]) for result in measured}
    assert {(stage, name) for stage, here in sources for name in re.findall("`([^`]+)`", here)} - variants == set()


def test_lessons_quote_the_code_as_it_is(tmp_path: Path) -> None:
    assert misquoted(ROOT) == []
    (tmp_path / "01_a").mkdir()
    (tmp_path / "01_a/a.cuh").write_text("int a;\nint b;\n", encoding="utf-8")
    (tmp_path / "01_a/README.md").write_text("# A\n```cpp\nint a;\n\n  int c;\n```\n", encoding="utf-8")
    assert misquoted(tmp_path) == ["01_a/README.md:5: no source has this line: int c;"]


def test_every_link_and_path_leads_somewhere() -> None:
    assert dead(ROOT) == []


def test_dead_ones_are_found(tmp_path: Path) -> None:
    (tmp_path / "common/results").mkdir(parents=True)
    (tmp_path / "common/a.h").touch()
    cmake = "# see common/a.h and common/gone.py\ninclude(${X}/common/other.cmake)\n"
    (tmp_path / "common/b.cmake").write_text(cmake)
    (tmp_path / "common/README.md").write_text(
        "# A title: `code`, and more\n"
        "[1](a.h) [2](#a-title-code-and-more) [3](https://example.com/x) `a.h` `common/a.h:12` `common/results/`\n"
        "`build/x.json` `<gpu>.json` `*.svg` `a/b c` `mine.cu` `no`\n"
        "```\n[not a link](nowhere) `nowhere.h`\n```\n"
        "[4](gone.md) [5](#nowhere) [6](../common/README.md#a-title) `gone.cu` `common/gone/`\n"
        '<img src="gone.svg">\n'
        "[label]: gone.txt\n[6]: a.h\n"
    )
    assert dead(tmp_path) == [
        "common/README.md:7: gone.md does not exist",
        "common/README.md:7: #nowhere: there is no such heading",
        "common/README.md:7: ../common/README.md#a-title: there is no such heading",
        "common/README.md:8: gone.svg does not exist",
        "common/README.md:9: gone.txt does not exist",
        "common/README.md:7: `gone.cu` does not exist",
        "common/README.md:7: `common/gone/` does not exist",
        "common/b.cmake:1: common/gone.py does not exist",
    ]
