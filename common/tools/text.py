"""Numbers as text, and notes below tables."""


def percent_text(value: float) -> str:
    """In prose: whole percents, one decimal below ten."""
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %"


def time_text(value: float) -> str:
    """Microseconds with three or four digits that mean something."""
    return f"{value:.0f}" if value >= 999.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def short_text(value: float) -> str:
    """Two decimals at most, none where they are zero: 2, 3.01, 8."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Notes(dict[str, str]):
    """The letter of each note, in order of appearance."""

    def mark(self, note: str) -> str:
        return self.setdefault(note, chr(ord("a") + len(self)))
