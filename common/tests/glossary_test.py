"""Tests that a page links each term of the glossary where it first uses it, and that the glossary is in order."""

import re

import pytest

from prose_test import CODE, HEADING, ROOT, anchors, blanked

GLOSSARY = ROOT / "common/glossary.md"
PAGES = ["README.md", "common/primer/README.md", "common/commands.md", "common/results/README.md"]
PAGES += sorted(page.relative_to(ROOT).as_posix() for page in ROOT.glob("[0-9][0-9]_*/README.md"))

# The forms of a term in prose other than its heading in singular or plural; and for common words, the uses that
# mean the term.
FORMS = {
    "Acquire and release": r"acquires?",
    "Asynchronous copy": r"asynchronous cop(?:y|ies)",
    "Bulk copy": r"bulk cop(?:y|ies)",
    "Canary": r"canar(?:y|ies)",
    "Coalesced": r"(?:un)?coalesc(?:ed|ing)",
    "Copy": r"(?:plain|of a|of the|reach\w* the|far from a|close to a) copy|(?:a|the) copy's",
    "f16 and bf16": r"b?f16",
    "L1": r"L1",
    "L2": r"L2",
    "Latency": r"latenc(?:y|ies)",
    "Line": r"lines? of 128 bytes|cache lines?|off the line",
    "Pass": r"(?:a|one|two|three|four|eight|further|[2-9]) pass(?:es)?|a pass over memory",
    "Percent of copy": r"(?:%|percent) of (?:a |the )?copy",
    "Poison": r"poison(?:s|ed)?",
    "Request": r"(?:load|store|cost|per|of|same|an?|one) requests?|requests? (?:of|per)",
    "Spill": r"spill(?:s|ed)?",
    "Vocabulary": r"vocabular(?:y|ies)",
}
NOT_PROSE = re.compile(
    r"<!-- generated:.*?<!-- end generated -->|<!--.*?-->|!\[[^\]]*\]\([^)]*\)|<[^>\n]*>|^#+ .*?$|^ *(?:```|~~~).*?^ *(?:```|~~~)",
    re.M | re.S,
)
LINK = r"\[(?P<text>[^\]]*)\](?:\((?P<target>[^)]*)\)|\[(?P<label>[^\]]*)\])"
LABEL = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.M)


def terms(glossary: str) -> dict[str, str]:
    """Each term's anchor."""
    return {term: anchor for term, anchor in zip(HEADING.findall(glossary), anchors(glossary)) if f"### {term}" in glossary}


def unlinked(page: str, glossary: str) -> list[str]:
    """First uses without a link to the term's entry, as `line: term`. In prose: not in code, headings and tables made.

    A link is [warps](common/glossary.md#warp), or [warps][warp] with a line [warp]: common/glossary.md#warp.
    """
    anchor_of = terms(glossary)
    patterns = {term: FORMS.get(term, rf"{re.escape(term)}s?") for term in anchor_of}
    # Longer ones first: a bank conflict is not a bank.
    by_length = sorted(patterns, key=len, reverse=True)
    words = [patterns[term].replace("\\ ", " ").replace(" ", r"\s+") for term in by_length]
    any_term = "|".join(rf"(?P<t{i}>\b(?:{word})(?!\w))" for i, word in enumerate(words))
    prose = blanked(blanked(page, CODE), NOT_PROSE)
    targets = {label.lower(): target for label, target in LABEL.findall(prose)}
    unused = set(targets)
    seen: set[str] = set()
    problems = []
    for found in re.finditer(f"{LINK}|{any_term}", blanked(prose, LABEL), re.I):
        line = page.count("\n", 0, found.start()) + 1
        if found["text"] is not None:
            label = " ".join((found["label"] or found["text"]).lower().split())
            unused.discard(label)
            if found["target"] is None and label not in targets:
                problems.append(f"{line}: [{label}] leads nowhere")
                continue
            target, _, anchor = (found["target"] or targets[label]).partition("#")
            seen |= {anchor} if target.endswith("glossary.md") else set()
            continue
        term = by_length[int(str(found.lastgroup)[1:])]
        if anchor_of[term] not in seen:
            problems.append(f"{line}: {term} (#{anchor_of[term]})")
        seen.add(anchor_of[term])
    return problems + [f"[{label}] is never used" for label in sorted(unused)]


@pytest.mark.parametrize("page", PAGES)
def test_first_use_is_linked(page: str) -> None:
    assert unlinked((ROOT / page).read_text(encoding="utf-8"), GLOSSARY.read_text(encoding="utf-8")) == []


def test_every_entry_is_short_and_used_under_its_own_name() -> None:
    glossary = GLOSSARY.read_text(encoding="utf-8")
    assert set(FORMS) <= set(terms(glossary))
    for entry in glossary.split("\n### ")[1:]:
        term, _, text = entry.partition("\n")
        words = len(text.split("\n## ")[0].split())
        assert 5 <= words <= 60, f"{term}: {words} words"


def test_a_use_without_a_link_is_found() -> None:
    glossary = "# G\n## A\n### Warp\n\nX\n\n### Bank\n\nX\n\n### Bank conflict\n\nX\n"
    link = "[warps](../common/glossary.md#warp)"
    assert unlinked(f"# A warp\n`warp`\n```\nwarp\n```\n{link} and warps\n", glossary) == []
    assert unlinked(f"# A warp\nWarps, and {link}\nbank\n", glossary) == ["2: Warp (#warp)", "3: Bank (#bank)"]
    assert unlinked("[a warp](b.md)\nbank conflicts", glossary) == ["2: Bank conflict (#bank-conflict)"]
    assert unlinked("[bank](common/glossary.md#bank) bank warpspeed", glossary) == []
    label = "[Warp]: ../glossary.md#warp"
    assert unlinked(f"[warp][] warp\n\n{label}", glossary) == unlinked(f"[Lanes][warp] warp\n\n{label}", glossary) == []
    assert unlinked(f"warp [bank][] [one][warp]\n\n{label}\n[b]: x.md", glossary) == [
        "1: Warp (#warp)", "1: [bank] leads nowhere", "[b] is never used"]  # fmt: skip
