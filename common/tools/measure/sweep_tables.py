"""The output of a sweep: one row of results for each contender and shape, and a table for the screen."""

import math
import statistics

from measure.columns import by_place
from measure.peers import Problem
from measure.results import Json, as_fast, fastest, shape_of
from measure.sweep_journal import SLOW, Measurement

NOISY_ROUNDS_PERCENT = 3.0  # between the medians of two rounds ...
NOISY_FROM_BYTES = 32 << 20  # ... of a tensor larger than this
NOISY_SPREAD_PERCENT = 5.0
BEHIND_POINTS = 3.0  # of the copy's speed


def is_noisy(tensor_bytes: int, round_difference: float | None, spread: float) -> bool:
    moved = (round_difference or 0) > NOISY_ROUNDS_PERCENT and tensor_bytes > NOISY_FROM_BYTES
    return moved or spread > NOISY_SPREAD_PERCENT


def rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def row(who: Json, problem: Problem, rounds: list[Measurement], least_passes: float) -> Json:
    """One result of the file, of the contender `who`: the rounds put together. The operation needs `least_passes`."""
    first, tensor_bytes = rounds[0], problem.shape.tensor_bytes
    time_us = spread = copy_us = percent = bandwidth = difference = None
    if first.status == "verified":
        times, copies, spreads = zip(*((one.time_us, one.copy_us, one.spread_percent) for one in rounds))
        time_us, copy_us, spread = statistics.median(times), statistics.median(copies), max(spreads)
        percent, bandwidth = 100 * copy_us / time_us, least_passes * tensor_bytes / (time_us * 1e3)
        difference = 100 * (max(times) - min(times)) / min(times) if len(times) > 1 else None
    return {
        **who,
        "configuration": first.configuration,
        "dtype": problem.dtype,
        "op": problem.op,
        "rows": problem.rows,
        "cols": problem.cols,
        "offset": problem.offset,
        "input": "normal",
        "status": first.status,
        "reason": first.reason,
        "time_us": rounded(time_us, 3),
        "spread_percent": rounded(spread, 2),
        "copy_us": rounded(copy_us, 3),
        "percent_of_copy": rounded(percent, 2),
        "bandwidth_gb_s": rounded(bandwidth, 1),
        "passes": rounded(first.passes, 4),
        "max_error": rounded(first.max_error, 4),
        "round_difference_percent": rounded(difference, 2),
        "noisy": is_noisy(tensor_bytes, difference, spread or 0),
    }


def is_inexact(result: Json) -> bool:
    """Verified, but only by the tolerance for peers."""
    return result["status"] == "verified" and (result["max_error"] or 0) > 1


def _time(result: Json | None) -> str:
    return "-" if result is None else f"{result['time_us']:{'.1f' if result['time_us'] < 1000 else '.0f'}}"


def _cell(rows: list[Json], named: bool) -> str:
    """The fastest of the rows: its share of the copy's speed, and who it is."""
    found = fastest(rows)
    if found is None:
        return "-"
    mark = ("~" if found["noisy"] else "") + ("*" if is_inexact(found) else "")
    name = f" {found['contender'] if found['kind'] == 'stage' else found['variant']}" if named else ""
    return f"{found['percent_of_copy']:.1f}{mark}{name}"


def _without_time(found: list[Json]) -> list[str]:
    """A line for each stage or peer and reason: the contenders without a time, where, and why."""
    alike: dict[tuple[str, str, str], list[Json]] = {}
    for result in found:
        if result["time_us"] is None:
            alike.setdefault((result["status"], result["stage"], result["reason"]), []).append(result)
    lines = []
    for (status, stage, reason), rows in alike.items():
        names = ", ".join(dict.fromkeys(row["variant"] for row in rows))
        where = [str(shape) for shape in dict.fromkeys(map(shape_of, rows))]
        at = ", ".join(where) if len(where) <= 3 else f"{where[0]} to {where[-1]} ({len(where)} shapes)"
        lines.append(f"{status}: {stage} {names} at {at}: {reason}")
    return sorted(lines, key=lambda line: line.startswith("not applicable"))  # errors come first


def _line(shape: str, rows: list[Json], peers: list[str]) -> list[str]:
    kinds = {kind: [r for r in rows if r["kind"] == kind] for kind in ("copy", "stage", "peer")}
    rivals = [[r for r in kinds["peer"] if r["stage"] == peer] for peer in peers]
    copy, stage, rival = map(fastest, kinds.values())
    ahead = "-"
    if stage and rival:
        factor = stage["percent_of_copy"] / rival["percent_of_copy"]
        ahead = f"stages {factor:.2f}x" if factor >= 1 else f"{rival['stage']} {1 / factor:.2f}x"
        ahead = f"as fast as {rival['stage']}" if as_fast(stage, rival) else ahead
    cells = [_cell(kinds["stage"], True), *(_cell(of, len(of) > 1) for of in rivals)]
    return [shape, _time(copy), _time(stage), *cells, ahead]


def _in_columns(cells: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]


def _how(data: Json) -> list[str]:
    """How everything was measured, and how well."""
    results, settings = data["results"], data["settings"]
    rounds = "1 round" if settings["rounds"] == 1 else f"{settings['rounds']} rounds"
    lines = [
        "",
        f"{data['machine']['gpu']}, {settings['l2']} L2, {rounds} of {settings['repeats']} samples, "
        "percent of a copy timed alongside each contender; ~ noisy",
    ]
    worst = max(filter(is_inexact, results), key=lambda r: r["max_error"], default=None)
    if worst:
        lines.append(
            f"* its results err by more than a stage's may, by up to {worst['max_error']:.1f} times that "
            f"({worst['contender']} at {shape_of(worst)}); more than {settings['peer_tolerance']:g} is wrong"
        )
    noisy = [r for r in results if r["noisy"] and r["percent_of_copy"] >= 100 / SLOW]
    if noisy:
        lines.append(f"noisy: {len(noisy)} of {len(results)}:")
    for r in noisy:
        difference = r["round_difference_percent"]
        between = "" if difference is None else f"rounds differ by {difference} %, "
        lines.append(f"  {r['contender']} at {shape_of(r)}: {between}spread {r['spread_percent']} %")
    return lines


def text(data: Json) -> str:
    """The tables of a results file: percent of the copy's speed; ~ marks noisy ones."""
    results = data["results"]
    by_shape = {str(shape): rows for (shape, _), rows in by_place(results).items()}
    peers = list(dict.fromkeys(r["stage"] for r in results if r["kind"] == "peer"))
    lines = []
    for table in data["tables"]:
        cells = [["shape", "copy us", "best stage us", "% of copy", *peers, "ahead"]]
        cells += [_line(shape, by_shape[shape], peers) for shape in table["shapes"]]
        lines += ["", table["title"] + (f"  ({table['source']})" if table["source"] else ""), ""]
        lines += [*_in_columns(cells), ""]
        lines += _without_time([result for shape in table["shapes"] for result in by_shape[shape]])
    return "\n".join([*lines, *_how(data)])


def _rivals(rows: list[Json]) -> tuple[float | None, list[str]]:
    """At one shape: by how many points of the copy's speed the best stage is ahead of the best peer, and the line."""
    copy, stage, peer = (fastest(r for r in rows if r["kind"] == kind) for kind in ("copy", "stage", "peer"))
    ahead = None
    if peer:
        ahead = (stage["percent_of_copy"] if stage else 0.0) - peer["percent_of_copy"]
    problem = Problem(*shape_of(rows[0]), rows[0]["op"], rows[0]["offset"])
    cells = [str(problem), _time(copy)]
    for best in (stage, peer):
        cells += [_cell([best], False), best["contender"]] if best else ["-", "-"]
    return ahead, [*cells, "-" if ahead is None else f"{ahead:+.1f}"]


def ranking(data: Json) -> str:
    """A line for each shape, the one at which the stages lose most first; then the number of shapes that they lose."""
    rivals = [_rivals(rows) for rows in by_place(data["results"]).values()]
    rivals.sort(key=lambda one: math.inf if one[0] is None else one[0])
    cells = [["shape", "copy us", "% of copy", "best stage", "% of copy", "best peer", "points ahead"]]
    lines = ["", *_in_columns(cells + [line for _, line in rivals])]
    broken = _without_time([r for r in data["results"] if r["status"] != "not applicable"])
    lines += ["", *broken] if broken else []
    behind = sum(ahead is not None and ahead < -BEHIND_POINTS for ahead, _ in rivals)
    count = f"{behind} of {len(rivals)} shapes: the best stage is more than {BEHIND_POINTS:g} points behind the best peer"
    return "\n".join([*lines, *_how(data), count])
