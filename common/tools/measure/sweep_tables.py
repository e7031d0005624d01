"""What a sweep shows: one row of results for each contender and shape, as JSON and CSV, and a table for the screen."""

from __future__ import annotations

import csv
import io
import statistics
from typing import Any, Dict, List, Optional, Tuple

from measure.results import ELEMENT_BYTES, Json, Shape, fastest
from measure.sweep_journal import Journal

NOISY_ROUNDS_PERCENT = 3.0  # between the medians of two rounds ...
NOISY_FROM_BYTES = 32 << 20  # ... of a tensor larger than this
NOISY_SPREAD_PERCENT = 5.0


def is_noisy(tensor_bytes: int, round_difference: Optional[float], spread: Optional[float]) -> bool:
    moved = round_difference is not None and round_difference > NOISY_ROUNDS_PERCENT and tensor_bytes > NOISY_FROM_BYTES
    return moved or (spread or 0) > NOISY_SPREAD_PERCENT


def least_passes(shape: Shape, journal: Journal, rounds: int) -> float:
    """What the operation needs: those of the copy."""
    keys = [(str(shape), "copy", number) for number in range(rounds)]
    return next((journal.done[key].passes for key in keys if key in journal.done), None) or 2


def row(shape: Shape, op: str, entry: Any, journal: Journal, rounds: int) -> Json:
    """One result of the file: the rounds' measurements put together. `entry` is a sweep.Entry."""
    found = [journal.done[key] for r in range(rounds) for key in [(str(shape), entry.name, r)] if key in journal.done]
    first = found[0]
    tensor_bytes = shape.rows * shape.cols * ELEMENT_BYTES[shape.dtype]
    result: Json = {
        "contender": entry.name,
        "kind": entry.kind,
        "stage": entry.stage,
        "variant": entry.variant,
        "configuration": first.configuration,
        "dtype": shape.dtype,
        "op": op,
        "rows": shape.rows,
        "cols": shape.cols,
        "input": "normal",
        "status": first.status,
        "reason": first.reason,
        **dict.fromkeys(("time_us", "spread_percent", "copy_us", "percent_of_copy", "bandwidth_gb_s")),
        "passes": first.passes and round(first.passes, 4),
        "max_error": first.max_error if first.max_error is None else round(first.max_error, 4),
        "round_difference_percent": None,
        "noisy": False,
    }
    if first.status != "verified":
        return result
    times = [m.time_us for m in found]
    time_us, copy_us = statistics.median(times), statistics.median(m.copy_us for m in found)
    spread = max(m.spread_percent for m in found)
    difference = 100 * (max(times) - min(times)) / min(times) if len(times) > 1 else None
    result.update(
        time_us=round(time_us, 3),
        spread_percent=round(spread, 2),
        copy_us=round(copy_us, 3),
        percent_of_copy=round(100 * copy_us / time_us, 2),
        bandwidth_gb_s=round(least_passes(shape, journal, rounds) * tensor_bytes / (time_us * 1e3), 1),
        round_difference_percent=None if difference is None else round(difference, 2),
        noisy=is_noisy(tensor_bytes, difference, spread),
    )
    return result


def is_inexact(result: Json) -> bool:
    """Verified, but only by the tolerance for peers."""
    return result["status"] == "verified" and (result["max_error"] or 0) > 1


def csv_text(rows: List[Json]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in row_.items()} for row_ in rows)
    return text.getvalue()


def shape_of(result: Json) -> str:
    return f"{result['dtype']}:{result['rows']}x{result['cols']}"


def number(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _cell(rows: List[Json], named: bool) -> str:
    """The fastest of the rows: its share of the copy's speed, and who it is."""
    found = fastest(rows)
    if found is None:
        return "-"
    mark = ("~" if found["noisy"] else "") + ("*" if is_inexact(found) else "")
    name = f" {found['contender'] if found['kind'] == 'stage' else found['variant']}" if named else ""
    return f"{found['percent_of_copy']:.1f}{mark}{name}"


def _layout(lines: List[List[str]]) -> List[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths)).rstrip() for line in lines]


def _without_time(table: Json, by_shape: Dict[str, List[Json]]) -> List[str]:
    """A line for each stage or peer and reason: what has no time, where, and why."""
    variants: Dict[Tuple[str, str, str], List[str]] = {}
    shapes: Dict[Tuple[str, str, str], List[str]] = {}
    for shape in table["shapes"]:
        for row_ in by_shape[shape]:
            if row_["time_us"] is None:
                key = row_["stage"], row_["status"], row_["reason"]
                variants.setdefault(key, []).append(row_["variant"])
                shapes.setdefault(key, []).append(shape)
    lines = []
    for (stage, status, reason), names in variants.items():
        where = list(dict.fromkeys(shapes[stage, status, reason]))
        at = ", ".join(where) if len(where) <= 3 else f"{where[0]} to {where[-1]} ({len(where)} shapes)"
        lines.append(f"{status}: {stage} {', '.join(dict.fromkeys(names))} at {at}: {reason}")
    return sorted(lines, key=lambda line: line.startswith("not applicable"))  # what went wrong comes first


def _table(table: Json, by_shape: Dict[str, List[Json]], peers: List[str]) -> List[str]:
    lines = [["shape", "copy us", "best stage us", "% of copy", *peers, "ahead"]]
    for shape in table["shapes"]:
        rows = by_shape[shape]
        copy = fastest([r for r in rows if r["kind"] == "copy"])
        stages = [r for r in rows if r["kind"] == "stage"]
        stage = fastest(stages)
        rivals = {peer: [r for r in rows if r["kind"] == "peer" and r["stage"] == peer] for peer in peers}
        rival = fastest([r for mine in rivals.values() for r in mine])
        ahead = "-"
        if stage and rival:
            factor = stage["percent_of_copy"] / rival["percent_of_copy"]
            ahead = f"stages {factor:.2f}x" if factor >= 1 else f"{rival['stage']} {1 / factor:.2f}x"
        lines.append(
            [
                shape,
                number(copy["time_us"]) if copy else "-",
                number(stage["time_us"]) if stage else "-",
                _cell(stages, True),
                *(_cell(rivals[peer], len(rivals[peer]) > 1) for peer in peers),
                ahead,
            ]
        )
    source = f"  ({table['source']})" if table["source"] else ""
    return ["", table["title"] + source, "", *_layout(lines), "", *_without_time(table, by_shape)]


def text(data: Json) -> str:
    """The tables of a results file: percent of the copy's speed; ~ marks what is noisy."""
    by_shape: Dict[str, List[Json]] = {}
    for row_ in data["results"]:
        by_shape.setdefault(shape_of(row_), []).append(row_)
    peers = list(dict.fromkeys(r["stage"] for r in data["results"] if r["kind"] == "peer"))
    lines: List[str] = []
    for table in data["tables"]:
        lines += _table(table, by_shape, peers)
    noisy = [r for r in data["results"] if r["noisy"]]
    settings = data["settings"]
    lines += [
        "",
        f"{data['machine']['gpu']}, {settings['l2']} L2, {settings['rounds']} rounds of {settings['repeats']} samples, "
        "percent of a copy timed beside each contender; ~ noisy",
    ]
    inexact = [r for r in data["results"] if is_inexact(r)]
    if inexact:
        worst = max(inexact, key=lambda r: r["max_error"])
        lines.append(
            f"* its results err by more than a stage's may, by up to {worst['max_error']:.1f} times that "
            f"({worst['contender']} at {shape_of(worst)}); more than {settings['peer_tolerance']:g} is wrong"
        )
    if noisy:
        lines.append(f"noisy: {len(noisy)} of {len(data['results'])}:")
        lines += [
            f"  {r['contender']} at {shape_of(r)}: rounds differ by {r['round_difference_percent']} %, "
            f"spread {r['spread_percent']} %"
            for r in noisy
        ]
    return "\n".join(lines)
