"""What a sweep shows: one row of results for each contender and shape, as JSON and CSV, and a table for the screen."""

from __future__ import annotations

import csv
import io
import statistics
from typing import Dict, List, Optional, Tuple

from measure.results import ELEMENT_BYTES, Json, Shape, fastest
from measure.sweep_journal import Measurement

NOISY_ROUNDS_PERCENT = 3.0  # between the medians of two rounds ...
NOISY_FROM_BYTES = 32 << 20  # ... of a tensor larger than this
NOISY_SPREAD_PERCENT = 5.0


def is_noisy(tensor_bytes: int, round_difference: Optional[float], spread: float) -> bool:
    moved = (round_difference or 0) > NOISY_ROUNDS_PERCENT and tensor_bytes > NOISY_FROM_BYTES
    return moved or spread > NOISY_SPREAD_PERCENT


def rounded(value: Optional[float], digits: int) -> Optional[float]:
    return None if value is None else round(value, digits)


def row(who: Json, shape: Shape, op: str, rounds: List[Measurement], least_passes: float) -> Json:
    """One result of the file, of the contender `who`: the rounds put together. The operation needs `least_passes`."""
    first = rounds[0]
    result: Json = {
        **who,
        "configuration": first.configuration,
        "dtype": shape.dtype,
        "op": op,
        "rows": shape.rows,
        "cols": shape.cols,
        "input": "normal",
        "status": first.status,
        "reason": first.reason,
        **dict.fromkeys(("time_us", "spread_percent", "copy_us", "percent_of_copy", "bandwidth_gb_s")),
        "passes": rounded(first.passes, 4),
        "max_error": rounded(first.max_error, 4),
        "round_difference_percent": None,
        "noisy": False,
    }
    if first.status == "verified":
        tensor_bytes = shape.rows * shape.cols * ELEMENT_BYTES[shape.dtype]
        times = [one.time_us for one in rounds]
        time_us, copy_us = statistics.median(times), statistics.median(one.copy_us for one in rounds)
        spread = max(one.spread_percent for one in rounds)
        difference = 100 * (max(times) - min(times)) / min(times) if len(times) > 1 else None
        result.update(
            time_us=round(time_us, 3),
            spread_percent=round(spread, 2),
            copy_us=round(copy_us, 3),
            percent_of_copy=round(100 * copy_us / time_us, 2),
            bandwidth_gb_s=round(least_passes * tensor_bytes / (time_us * 1e3), 1),
            round_difference_percent=rounded(difference, 2),
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
    writer.writerows(rows)
    return text.getvalue()


def shape_of(result: Json) -> str:
    return f"{result['dtype']}:{result['rows']}x{result['cols']}"


def time_of(result: Optional[Json]) -> str:
    if result is None:
        return "-"
    return f"{result['time_us']:.1f}" if result["time_us"] < 1000 else f"{result['time_us']:.0f}"


def _cell(rows: List[Json], named: bool) -> str:
    """The fastest of the rows: its share of the copy's speed, and who it is."""
    found = fastest(rows)
    if found is None:
        return "-"
    mark = ("~" if found["noisy"] else "") + ("*" if is_inexact(found) else "")
    name = f" {found['contender'] if found['kind'] == 'stage' else found['variant']}" if named else ""
    return f"{found['percent_of_copy']:.1f}{mark}{name}"


def _without_time(table: Json, by_shape: Dict[str, List[Json]]) -> List[str]:
    """A line for each stage or peer and reason: what has no time, where, and why."""
    found: Dict[Tuple[str, str, str], List[Json]] = {}
    for result in (result for shape in table["shapes"] for result in by_shape[shape]):
        if result["time_us"] is None:
            found.setdefault((result["status"], result["stage"], result["reason"]), []).append(result)
    lines = []
    for (status, stage, reason), rows in found.items():
        names = ", ".join(dict.fromkeys(row["variant"] for row in rows))
        where = list(dict.fromkeys(map(shape_of, rows)))
        at = ", ".join(where) if len(where) <= 3 else f"{where[0]} to {where[-1]} ({len(where)} shapes)"
        lines.append(f"{status}: {stage} {names} at {at}: {reason}")
    return sorted(lines, key=lambda line: line.startswith("not applicable"))  # what went wrong comes first


def _table(table: Json, by_shape: Dict[str, List[Json]], peers: List[str]) -> List[str]:
    lines = [["shape", "copy us", "best stage us", "% of copy", *peers, "ahead"]]
    for shape in table["shapes"]:
        kinds = {kind: [r for r in by_shape[shape] if r["kind"] == kind] for kind in ("copy", "stage", "peer")}
        rivals = [[r for r in kinds["peer"] if r["stage"] == peer] for peer in peers]
        copy, stage, rival = map(fastest, kinds.values())
        ahead = "-"
        if stage and rival:
            factor = stage["percent_of_copy"] / rival["percent_of_copy"]
            ahead = f"stages {factor:.2f}x" if factor >= 1 else f"{rival['stage']} {1 / factor:.2f}x"
        cells = [_cell(kinds["stage"], True), *(_cell(rows, len(rows) > 1) for rows in rivals)]
        lines.append([shape, time_of(copy), time_of(stage), *cells, ahead])
    widths = [max(map(len, column)) for column in zip(*lines)]
    layout = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    source = f"  ({table['source']})" if table["source"] else ""
    return ["", table["title"] + source, "", *layout, "", *_without_time(table, by_shape)]


def text(data: Json) -> str:
    """The tables of a results file: percent of the copy's speed; ~ marks what is noisy."""
    results, settings = data["results"], data["settings"]
    by_shape: Dict[str, List[Json]] = {}
    for result in results:
        by_shape.setdefault(shape_of(result), []).append(result)
    peers = list(dict.fromkeys(r["stage"] for r in results if r["kind"] == "peer"))
    lines = [line for table in data["tables"] for line in _table(table, by_shape, peers)]
    lines += [
        "",
        f"{data['machine']['gpu']}, {settings['l2']} L2, {settings['rounds']} rounds of {settings['repeats']} samples, "
        "percent of a copy timed beside each contender; ~ noisy",
    ]
    worst = max(filter(is_inexact, results), key=lambda r: r["max_error"], default=None)
    if worst:
        lines.append(
            f"* its results err by more than a stage's may, by up to {worst['max_error']:.1f} times that "
            f"({worst['contender']} at {shape_of(worst)}); more than {settings['peer_tolerance']:g} is wrong"
        )
    noisy = [r for r in results if r["noisy"]]
    if noisy:
        lines.append(f"noisy: {len(noisy)} of {len(results)}:")
    for r in noisy:
        percents = f"rounds differ by {r['round_difference_percent']} %, spread {r['spread_percent']} %"
        lines.append(f"  {r['contender']} at {shape_of(r)}: {percents}")
    return "\n".join(lines)
