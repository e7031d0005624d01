#!/usr/bin/env python3
"""Tests that each launcher of a stage computes every matrix that it does not refuse. At a launcher's limit of columns the result is
verified; one column or one pack beyond, the launcher has to refuse.

    limits.py STAGE [DTYPE]

Rows begin at a pack, in the middle of a pack, and one element after it. The limits are printed.

Exit codes: 0 all is right, 1 not, 3 the stage needs another GPU than the simulator's.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable

import check_stage
from check_stage import Failure, most_columns

WIDE = 1 << 40  # the most columns that a stage takes
VERIFIED_COLS = 1 << 21  # wider rows take the simulator too long
Key = tuple[str, str, str]  # variant, dtype, op


def refusals(stage: str, cols: Iterable[int], offset: int, dtype: str, variant: str = "all") -> dict[Key, dict[int, str]]:
    """Why rows of each of these widths are refused, '' if they are not, by variant, dtype and operation."""
    widths = ",".join(map(str, sorted(set(cols))))
    command = [stage, "--device", "sim", "--verify-only", "--rows", "0", "--cols", widths, "--dtype", dtype, "--op", "all",
               "--variant", variant, "--offset", str(offset), "--format", "csv"]  # fmt: skip
    done = check_stage.run(command)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    found: dict[Key, dict[int, str]] = defaultdict(dict)
    for row in csv.DictReader(done.stdout.splitlines()):
        found[row["variant"], row["dtype"], row["op"]][int(row["cols"])] = row["reason"]
    return found


def check_offset(stage: str, offset: int, dtypes: str) -> Iterable[str]:
    limits: dict[Key, int] = {}
    for key, reasons in refusals(stage, (WIDE, WIDE - 1), offset, dtypes).items():
        for limit in map(most_columns, reasons.values()):
            if limit is not None:
                limits[key] = limit
    if not limits:  # at this offset the stage takes rows of any width, or none
        return
    # A limit need not be a width that the launcher takes: it may take whole packs alone, or rows that no pack covers.
    near: dict[str, set[int]] = defaultdict(set)
    for (variant, _, _), limit in limits.items():
        near[variant].update(range(max(limit - 16, 1), limit + 17))
    found = (refusals(stage, widths, offset, dtypes, variant) for variant, widths in near.items())
    at_limit: dict[tuple[str, int], set[str]] = defaultdict(set)
    for (variant, dtype, op), reasons in (item for of_variant in found for item in of_variant.items()):
        if (limit := limits.get((variant, dtype, op))) is None:
            continue
        where = f"{variant} {dtype} {op}, offset {offset}"
        taken = [cols for cols, reason in reasons.items() if not reason and limit - 16 <= cols <= limit]
        beyond = [cols for cols, reason in reasons.items() if not reason and cols > limit]
        if beyond:
            raise Failure(f"{where}: takes {min(beyond)} columns, and says that it takes at most {limit}")
        if not taken:
            raise Failure(f"{where}: says that it takes at most {limit} columns, and takes no width near that")
        if max(taken) <= VERIFIED_COLS:
            at_limit[dtype, max(taken)].add(variant)
        yield f"{where}: {max(taken)}"
    for (dtype, cols), variants in at_limit.items():
        command = [stage, "--device", "sim", "--verify-only", "--rows", "1", "--cols", str(cols), "--dtype", dtype, "--op", "all",
                   "--variant", ",".join(sorted(variants)), "--offset", str(offset), "--format", "csv"]  # fmt: skip
        verified = {row["variant"] for row in check_stage.verify(command)[0]}
        if verified != variants:
            raise Failure(f"{' '.join(command)}: verified {sorted(verified)} alone")


def check(stage: str, dtypes: str = "all") -> str:
    return "\n".join(line for offset in (0, 2, 1) for line in check_offset(stage, offset, dtypes))


if __name__ == "__main__":
    sys.exit(check_stage.print_or_fail(lambda: check(*sys.argv[1:])))
