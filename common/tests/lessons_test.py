"""Tests that a lesson can be read: a limited length, few tables and narrow ones, and arithmetic that is right."""

import ast
import operator
import re
from pathlib import Path
from typing import Iterator

import pytest
from measure import results
from pages import blocks
from prose_test import FENCE, ROOT, blanked

LESSONS = sorted(ROOT.glob("[0-9][0-9]_*/README.md"))
PARTS = ["The question", "The idea", "The code", "What it should cost", "What was counted and measured",
         "What to look at in ncu", "Trap", "Exercise", "Next"]  # fmt: skip
LEAST_WORDS, MOST_WORDS = 600, 1200
MOST_TABLES, MOST_COLUMNS = 3, 6
MEASURED = "<!-- generated: stage", "<!-- generated: several_gpus"
GENERATED = re.compile(r"<!-- generated: .*?<!-- end generated -->", re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
FOLDED = re.compile(r"<details>.*?</details>", re.S)
LABEL = re.compile(r"^\[[^\]]+\]: \S+$", re.M)
NAVIGATION = re.compile(r"^.*\b\d\d of \d\d\b.*$", re.M)  # the links to the neighbours of a lesson
TABLE = re.compile(r"^\|.*\n\|[ :|-]+\|$", re.M)
BREAKABLE = re.compile(r"\d × \d")  # with blanks that let a line end
NUMBER = r"\d+(?:\.\d+)?"
OPERAND = rf"\(?{NUMBER}\)?"
EQUATION = re.compile(rf"(?<![\w.^{{])({OPERAND}(?: [·/+−] {OPERAND})+) = ({NUMBER})(?![\w.]*\d| [·/+])")
OPERATORS = {ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Add: operator.add, ast.Sub: operator.sub}


def words(text: str) -> int:
    """The number of words in prose that is not folded, generated or code."""
    for pattern in (GENERATED, FENCE, FOLDED, COMMENT, LABEL, NAVIGATION):
        text = blanked(text, pattern)
    text = re.sub(r"\]\([^)]*\)|\]\[[^\]]*\]", "", text)
    return len(re.findall(r"\S*\w\S*", text))


def worth(node: ast.expr) -> float:
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](worth(node.left), worth(node.right))
    assert isinstance(node, ast.Constant)
    return float(node.value)  # type: ignore[arg-type]


def wrong_equations(text: str) -> Iterator[str]:
    """The left side, rounded as the right one is, must be the right one. Units are left out of it."""
    plain = re.sub(r"(?<=\d)[\u00a0 ](?=\d{3}\b)", "", COMMENT.sub("", text))
    plain = re.sub(rf"({NUMBER}) (?:bytes|lanes|warps|KiB|%)", r"\1", plain)
    for left, right in EQUATION.findall(plain):
        python = left.replace("·", "*").replace("−", "-")
        if python.count("(") != python.count(")"):
            continue
        digits = len(right.partition(".")[2])
        value = worth(ast.parse(python, mode="eval").body)
        if abs(value - float(right)) > 0.5 * 10**-digits + 1e-9:
            yield f"{left} = {right}: it is {value:g}"


def joined_equations(text: str) -> list[str]:
    """Two neighbouring lines of a quotation with an equation each that a page shows as one line: the first ends neither
    with two blanks nor with a backslash."""
    lines = blanked(text, FENCE).split("\n")
    is_equation = [line.startswith(">") and " = " in line for line in lines]
    ends = [line.endswith(("  ", "\\", "<br>")) for line in lines]
    return [f"one line on the page: {lines[i]}" for i in range(len(lines) - 1) if is_equation[i] and is_equation[i + 1] and not ends[i]]


def wide_tables(text: str) -> list[str]:
    columns = [table.split("\n")[0].count("|") - 1 for table in TABLE.findall(text)]
    return [f"a table of {count} columns" for count in columns if count > MOST_COLUMNS]


def problems(text: str) -> list[str]:
    found = []
    headings = re.findall(r"^## (.*)$", blanked(text, FENCE), re.M)
    if headings != PARTS:
        found.append(f"parts: {', '.join(headings)}")
    if not LEAST_WORDS <= words(text) <= MOST_WORDS:
        found.append(f"{words(text)} words outside of <details>, and not {LEAST_WORDS} to {MOST_WORDS}")
    if len(TABLE.findall(FOLDED.sub("", text))) > MOST_TABLES:
        found.append(f"{len(TABLE.findall(FOLDED.sub('', text)))} tables")
    found += wide_tables(text)
    if text.find("Predict first") not in range(1, max(map(text.rfind, MEASURED))):
        found.append("no prediction before the table")
    found += [f"breaks in the middle: {shape}" for shape in BREAKABLE.findall(text)]
    return list(dict.fromkeys(found + list(wrong_equations(text)) + joined_equations(text)))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.parent.name)
def test_lesson(lesson: Path) -> None:
    assert problems(lesson.read_text(encoding="utf-8")) == []


def test_lessons_name_their_variants() -> None:
    counted = results.load(ROOT / "common/results/simulator.json", results.COUNTED)["counted"]
    variants = dict.fromkeys((entry["stage"], entry["variant"]) for entry in counted if entry["stage"])
    named = {page.parent.name: set(re.findall(r"\w+", page.read_text(encoding="utf-8"))) for page in ROOT.glob("[0-9][0-9]_*/README.md")}
    assert [f"{stage}/README.md does not name {variant}" for stage, variant in variants if variant not in named[stage]] == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("[0-9][0-9]_*/README.md")), ids=lambda page: page.parent.name)
def test_tables_and_equations(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert wide_tables(text) + list(wrong_equations(text)) + joined_equations(text) == []


EVERY_LESSON = sorted(ROOT.glob("[0-9][0-9]_*/README.md"))


def short_title(lesson: Path) -> str:
    """The number and the title up to its comma: "02: One kernel"."""
    return lesson.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ").partition(",")[0]


def navigation(lesson: Path) -> str:
    """The line with the number of the lesson and the links to the lessons before and after it."""
    number = EVERY_LESSON.index(lesson) + 1
    line = f"{number:02} of {len(EVERY_LESSON)}"
    for before in EVERY_LESSON[: number - 1][-1:]:
        line = f"[← {short_title(before)}](../{before.parent.name}/README.md) · {line}"
    for after in EVERY_LESSON[number:][:1]:
        line = f"{line} · [{short_title(after)} →](../{after.parent.name}/README.md)"
    return line


@pytest.mark.parametrize("lesson", EVERY_LESSON, ids=lambda lesson: lesson.parent.name)
def test_lesson_links_to_its_neighbours(lesson: Path) -> None:
    """Under the title, and as the last line before the labels; nowhere else."""
    lines = [line for line in LABEL.sub("", lesson.read_text(encoding="utf-8")).split("\n") if line]
    assert lines[1] == navigation(lesson)
    assert lines[-1] == navigation(lesson)
    assert len([line for line in lines if NAVIGATION.match(line)]) == 2


# The numbers that a lesson derives with a pencil: a stage, a column of COUNTED, the variant and the shape that it is counted at.
DERIVED = """
02_fused_block shuffles warp_then_shared f32:64x1024
03_warp_reduce load_sectors scalar_loads f32:64x1024
03_warp_reduce load_sectors padded_packs f32:64x1024
04_smem_bank_conflict wavefronts vector_layout f32:64x1024
04_smem_bank_conflict wavefronts vector_layout f16:64x8192
04_smem_bank_conflict wavefronts interleaved_layout f16:64x8192
04_smem_bank_conflict wavefronts interleaved_scalar_layout f16:64x8192
06_online special online_per_element f32:64x1024
06_online special online f32:64x1024
06_online special fused f32:64x1024
"""


@pytest.mark.parametrize("derived", DERIVED.strip().splitlines())
def test_what_is_derived_is_what_is_counted(derived: str) -> None:
    stage, column, variant, shape = derived.split()
    counted = blocks.counted_value(blocks.Context(ROOT, None), column, stage, variant, results.parse_shape(shape))
    text = (ROOT / stage / "README.md").read_text(encoding="utf-8")
    assert re.search(rf" = {re.escape(counted)}(?!\.?\d)", text), counted


def lesson(words: int = 700, tables: int = 2, columns: int = 3, rest: str = "") -> str:
    table = "|" + " a |" * columns + "\n|" + " ---: |" * columns + "\n"
    parts = "".join(f"## {part}\nword\n" for part in PARTS)
    generated = "<!-- generated: stage x -->\n{}\n<!-- end generated -->\n".format((table + "\n") * tables)
    return f"{parts}\nPredict first\n{generated}{'word ' * words}\n{rest}"


@pytest.mark.parametrize(
    "text, said",
    {
        lesson(): "",
        lesson(rest="<details>\n" + "word " * 900 + "</details>"): "",
        lesson(words=10): "words outside of <details>, and not 600 to 1200",
        lesson(words=1300): "words",
        lesson(tables=4): "4 tables",
        lesson(columns=7): "a table of 7 columns",
        lesson().replace("## Trap", "## Traps"): "parts: ",
        lesson().replace("Predict first", ""): "no prediction before the table",
        lesson(rest="at 49152 × 1024"): "breaks in the middle: 2 × 1",
        lesson(rest="> a = b\\\n> c = d\n\n> e = f  \n> g = h\n\n> i = j\n"): "",
        lesson(rest="> a = b\n> c = d\n"): "one line on the page: > a = b",
        lesson(rest="is 2 · (8 + 1) · 5 = 90 of 1024 / 132 = 7.76"): "",
        lesson(rest="is 2 · (8 + 1) · 5 = 91"): "2 · (8 + 1) · 5 = 91: it is 90",
        lesson(rest="8 lanes · 16 bytes = 128 bytes, 65 536 / (128 · 32) = 15"): "65536 / (128 · 32) = 15: it is 16",
    }.items(),
)
def test_what_cannot_be_read_is_found(text: str, said: str) -> None:
    found = problems(text)
    assert said in (found or [""])[0] and len(found) <= 1 and bool(found) == bool(said)
