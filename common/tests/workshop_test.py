"""The workshop's pages: the pictures, the handout and the plans."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKSHOP = ROOT / "common/workshop"


def test_every_picture_can_be_printed() -> None:
    shown = re.findall(r'src="\.\./\.\./([^"]+)"', (WORKSHOP / "pictures.html").read_text(encoding="utf-8"))
    pictures = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("[0-9][0-9]_*/*.svg"))
    assert shown == pictures


def test_the_handout_names_what_there_is() -> None:
    text = (WORKSHOP / "handout.html").read_text(encoding="utf-8")
    exercise = (ROOT / "common/tools/learn/exercise.py").read_text(encoding="utf-8")
    for option in set(re.findall(r"--(hint|solution|reset|watch)", text)):
        assert f'"--{option}"' in exercise
    assert {"hint", "solution", "reset", "watch"} == set(re.findall(r"--(hint|solution|reset|watch)", text))


def test_the_plan_fits_its_hours() -> None:
    """The minutes of each plan add up to the number in its heading."""
    text = (WORKSHOP / "README.md").read_text(encoding="utf-8")
    plans = re.findall(r"^## [^\n]*: (\d+) minutes\n(.*?)(?=^## )", text, re.M | re.S)
    assert len(plans) == 2
    for total, plan in plans:
        assert sum(map(int, re.findall(r"^\| (\d+) \|", plan, re.M))) == int(total)
