"""A test that the English of pages and comments does not get worse: it counts the phrases of KINDS, which readers stumble over.

    python3 common/tests/language_test.py           prints every sentence with one of them
    python3 common/tests/language_test.py --lower   lowers the budget to the present counts; it never raises it

language_budget.txt has the budget: how many sentences of each kind there may be, in prose and in comments. One more is a failure
that names the sentences. Fewer are fine as long as they are at most SLACK fewer: a failure for each improved sentence would
punish those who improve one, and two branches that lower the same number conflict. Without any limit, new ones could fill up
what others have mended.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple

sys.dont_write_bytecode = True
for folder in ("common/tools", ".tools/pytest"):  # for a run without run_pytest.py
    sys.path.append(str(Path(__file__).resolve().parents[2] / folder))
import pytest  # noqa: E402

from prose_test import FENCE, ROOT, blanked, files  # noqa: E402

BUDGET = Path(__file__).with_name("language_budget.txt")
SLACK = 10
RATES = (
    "packs?|bytes|elements?|threads?|lanes?|columns?|registers?|barriers?|requests?|passes|blocks?|exponentials?|shuffles?|rows?|"
    "clusters?|accesses|sectors|KiB|floats|bits|warps?|one"
)
PER = "lane|thread|row|block|warp|element|request|clock|SM|part|chunk|cluster|group|call|launch"
# After these, "what" begins an indirect question, as in "the message says what failed".
ASKS = "".join(rf"(?<!\b{verb} )" for verb in (
    "about ask asks check decide decides describe describes explain explains find guess know knows learn matter print prints record "
    "records remember say says see sees show shows tell tells understand").split())  # fmt: skip
# Each kind with its remedy and a regular expression. A question may begin with "What", "Who" or "Where".
KINDS: dict[str, tuple[str, re.Pattern[str]]] = {
    kind: (remedy, re.compile(pattern))
    for kind, remedy, pattern in (
        ("headless what", "name the thing: 'missing elements add 0', not 'what does not exist adds nothing'",
         ASKS + r"\b[Ww]hat (?!if\b|must\b)(?!(?:is|are|does|do|can|would|else)\b[^.]*\?)[a-z`][^?.;]{3,}(?=[.;,]|$)"),
        ("a for per", "seven blocks per SM, not seven blocks an SM", rf"\b(?:{RATES}) an? (?:{PER})\b"),
        ("fronted of", "put the topic into the subject: 'rows of odd width can ...', not 'of an odd width only ...'",
         r"(?:^|[.;:] |\()Of (?!course)[a-z0-9`]"),
        ("so many", "name the number: 'columns that fit in `shared_bytes`', not 'that fit so many bytes'",
         r"\b[Ss]o (?:many|much|few|long|wide|often)\b(?! (?:that|as))"),
        ("asked for", "loaded, requested, needed", r"\bask(?:s|ed|ing)? for\b"),
        ("where for if", "if or when, unless it is a place", r"(?:^|[.;:] |, )[Ww]here (?![^.]*\?)"),
        ("headless who", "'a block that', 'anyone who'; only persons are 'who'", r"(?:^|[.;:,] )[Ww]ho(?:ever)? (?![^.]*\?)"),
        ("nobody", "no thread, no block; another block", r"\b(?:[Nn]o|[Ss]ome|[Ee]very|[Aa]ny)body\b"),
        ("one X more", "one more X", r"\b(?:one|a|an|two|three|five|ten) (?:[a-z`_]+ )?[a-z`_]+ more\b(?! than)"),
        ("but for", "except for", r"\b(?:but for|all but|but in)\b"),
        ("beside, behind", "next to, in addition to; after, overlapped with", r"\b(?:[Bb]eside|(?<!left )[Bb]ehind)\b"),
        ("stands, lies", "is", r"\b(?:lies|(?:stands|stood)(?! (?:in )?for))\b"),
        ("is no", "is not a", r"(?<![Tt]here )\b(?:is|are|was) no (?!longer|more|different|better|need)\w+"),
    )
}  # fmt: skip
NOT_PROSE = re.compile(
    r"<!-- generated:.*?<!-- end generated -->|<!--.*?-->|<[^>\n]*>|!\[[^\]]*\]\([^)]*\)|^#+ .*?$|^\|.*?$|^\[[^\]]+\]:.*?$|^> ", re.M | re.S
)
PARAGRAPH = re.compile(r"(?:^(?!\s*$|[ \t]*(?:[-*]|\d+\.) ).*\n?|^[ \t]*(?:[-*]|\d+\.) .*\n?)(?:^(?!\s*$|[ \t]*(?:[-*]|\d+\.) ).*\n?)*", re.M)
COMMENT = re.compile(r"(?:^[ \t]*//.*\n)+|\"(?:[^\"\\\n]|\\.)*\"|//.*$|/\*(?:.|\n)*?\*/", re.M)
COMMENT_MARK = re.compile(r"^[ \t]*(?://[/!]?<?|/?\*+/?|#)[ \t]?|\*/$", re.M)


class Sentence(NamedTuple):
    file: str
    line: int
    text: str


def sentences(file: str, line: int, text: str) -> Iterator[Sentence]:
    """The sentences of a paragraph that begins on the line."""
    at = 0
    for end in [*re.finditer(r"(?<=[.?!:])[\"”)*_]*\s+(?=[\"“(*_`]*[A-Z0-9\[])|\Z", text)]:
        sentence = " ".join(re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text[at : end.start()]).split())
        if re.search("[A-Za-z]{2}", sentence):
            yield Sentence(file, line + text.count("\n", 0, at), sentence)
        at = end.end()


def of_page(file: str, text: str) -> Iterator[Sentence]:
    prose = blanked(blanked(text, FENCE), NOT_PROSE)
    for found in PARAGRAPH.finditer(prose):
        item = re.sub(r"\A(\s*)(?:[-*]|\d+\.) ", r"\1", found[0])
        yield from sentences(file, prose.count("\n", 0, found.start()) + 1, item)


def of_source(file: str, text: str) -> Iterator[Sentence]:
    """In C++: comments on lines of their own, as paragraphs, and those behind code."""
    for found in COMMENT.finditer(text):
        if not found[0].startswith('"'):
            line = text.count("\n", 0, found.start()) + 1
            for paragraph in PARAGRAPH.finditer(COMMENT_MARK.sub("", found[0])):
                yield from sentences(file, line + found[0].count("\n", 0, paragraph.start()), paragraph[0])


def of_python(file: str, text: str) -> Iterator[Sentence]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (doc := ast.get_docstring(node)):
            for paragraph in PARAGRAPH.finditer(doc):
                yield from sentences(file, node.body[0].lineno + doc.count("\n", 0, paragraph.start()), paragraph[0])
    block, first, last = "", 0, 0  # last: the line of a comment without code, which the next one may continue
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            is_alone = token.line.lstrip().startswith("#")
            if token.start[0] != last + 1 or not is_alone:
                yield from sentences(file, first, block)
                block, first = "", token.start[0]
            block, last = block + COMMENT_MARK.sub("", token.string) + "\n", token.start[0] if is_alone else 0
    yield from sentences(file, first, block)


def read(root: Path) -> dict[str, list[Sentence]]:
    """The sentences of all pages ("prose") and of all comments ("comments")."""
    found: dict[str, list[Sentence]] = {"prose": [], "comments": []}
    readers = {".md": ("prose", of_page), ".py": ("comments", of_python)}
    readers |= {suffix: ("comments", of_source) for suffix in (".h", ".cuh", ".cpp", ".cu", ".c")}
    for path in files(root):
        if path.suffix in readers:
            of, reader = readers[path.suffix]
            found[of] += reader(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    return found


def having(kind: str, among: list[Sentence]) -> list[Sentence]:
    return [sentence for sentence in among if KINDS[kind][1].search(sentence.text)]


def budget_in(text: str) -> dict[tuple[str, str], int]:
    lines = [line.rsplit(maxsplit=2) for line in text.splitlines() if not line.startswith("#")]
    return {(kind.strip(), of): int(number) for kind, *numbers in lines for of, number in zip(("prose", "comments"), numbers)}


def lowered(budget: dict[tuple[str, str], int], counts: Counter[tuple[str, str]]) -> str:
    lines = ["# Most sentences of each kind (language_test.py): in prose, and in comments. Lower it with --lower."]
    return "\n".join(lines + [
        f"{kind:<16} {' '.join(f'{min(budget.get((kind, of), counts[kind, of]), counts[kind, of]):>4}' for of in ('prose', 'comments'))}"
        for kind in KINDS
    ]) + "\n"  # fmt: skip


def counts_of(texts: dict[str, list[Sentence]]) -> Counter[tuple[str, str]]:
    return Counter({(kind, of): len(having(kind, among)) for kind in KINDS for of, among in texts.items()})


def problem(kind: str, of: str, found: list[Sentence], most: int) -> str:
    """"", or why the number of sentences is not what the budget allows."""
    if most - SLACK <= len(found) <= most:
        return ""
    if len(found) < most:
        return f"{kind}: {of} has {len(found)} left of {most}: python3 common/tests/language_test.py --lower"
    listed = "\n".join(f"  {at.file}:{at.line}: {at.text}" for at in found)
    return (
        f"{kind}: {of} has {len(found)} sentences, and {most} are the most. Better: {KINDS[kind][0]}. At least one is new, most likely of "
        f"those at the end of the list, in the files that were changed last:\n{listed}"
    )


@pytest.fixture(scope="module")
def texts() -> dict[str, list[Sentence]]:
    return read(ROOT)


@pytest.mark.parametrize("of", ["prose", "comments"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_language_gets_no_worse(texts: dict[str, list[Sentence]], kind: str, of: str) -> None:
    found = sorted(having(kind, texts[of]), key=lambda at: (ROOT / at.file).stat().st_mtime)
    if why := problem(kind, of, found, budget_in(BUDGET.read_text(encoding="utf-8"))[kind, of]):
        pytest.fail(why, pytrace=False)


def test_the_phrases_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# What lies here\n\nAll is well. What does not\nexist adds nothing. What is it?\n\n"
        "- Seven blocks an SM.\n- Of a row 3 are read.\n- Seven [blocks per](b.md) SM\n\n"
        "```\nWhat does not count.\n```\n| What a table | has. |\n|---|---|\n",
        encoding="utf-8",
    )
    (tmp_path / "b.cu").write_text(
        '/// Nobody waits.\n/// A row of so many\n/// columns.\nint a = f("// somebody");  ///< what it waits for\n// So much.\n', encoding="utf-8"
    )
    (tmp_path / "c.py").write_text('"""What is\n\nasked for."""\nx = 1  # nobody\n# who waits\n# and who does not\n', encoding="utf-8")
    found = read(tmp_path)
    of_kind = [(kind, *at[:2]) for kind in KINDS for among in found.values() for at in having(kind, among)]
    assert of_kind == [
        ("headless what", "a.md", 3), ("headless what", "b.cu", 4), ("a for per", "a.md", 6), ("fronted of", "a.md", 7),
        ("so many", "b.cu", 2), ("so many", "b.cu", 5), ("asked for", "c.py", 3), ("headless who", "c.py", 5), ("nobody", "b.cu", 1), ("nobody", "c.py", 4),
    ]  # fmt: skip


def test_the_budget_goes_down_only() -> None:
    kind, of = "nobody", "comments"
    found = [Sentence("a.h", line, "Nobody waits.") for line in range(20)]
    assert problem(kind, of, found, 20) == problem(kind, of, found, 20 + SLACK) == ""
    assert "has 20 left of 31: python3" in problem(kind, of, found, 21 + SLACK)
    assert "has 20 sentences, and 19 are the most" in problem(kind, of, found, 19)
    assert "\n  a.h:7: Nobody waits.\n" in problem(kind, of, found, 19)
    budget = budget_in(BUDGET.read_text(encoding="utf-8"))
    assert budget_in(lowered(budget, Counter(budget))) == budget
    fewer = Counter({**budget, (kind, of): budget[kind, of] - 1})
    assert budget_in(lowered(budget, fewer)) == fewer
    assert budget_in(lowered(budget, Counter({**budget, (kind, of): 10**6}))) == budget


if __name__ == "__main__":
    everything = read(ROOT)
    if sys.argv[1:] == ["--lower"]:
        old = budget_in(BUDGET.read_text(encoding="utf-8")) if BUDGET.exists() else {}
        BUDGET.write_text(lowered(old, counts_of(everything)), encoding="utf-8")
    for each in KINDS:
        for where, among in everything.items():
            for at in having(each, among) if not sys.argv[1:] else ():
                print(f"{each}, {where}: {at.file}:{at.line}: {at.text}")
