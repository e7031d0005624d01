#!/usr/bin/env python3
"""Every kernel that a stage is compiled to is launched for some of the widths below, and verified, on the simulator: a tile
that no width reaches is of no use, and nobody would see that it is wrong.

    coverage.py STAGE [OPTION]...    STAGE: the executable
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import check_stage
from check_stage import Failure
from counts import demangled

# One for each tile of stages 03, 06 and 08: once covered by packs, and once not.
COLS = "1,2,3,4,7,8,9,16,17,32,33,64,65,128,129,256,257,512,513,520,768,769,1000,1001,1024,1025,1032,2049,2056,"
COLS += "4097,4104,8193,8200,16385,16392"
# What comes with libraries, and from the harness.
OTHERS = re.compile(r"\b(thrust|cub)::|^(void )?\(anonymous namespace\)::")


def check(executable: str, *options: str) -> str:
    # In the PTX, which the executable holds as text; as the simulator prints them.
    names = {demangled(name.decode()) for name in re.findall(rb"\.entry (\w+)\(", Path(executable).read_bytes())}
    kernels = {re.sub(r"^void |\([^()]*\)$", "", name) for name in names if not OTHERS.search(name)}
    _, report = check_stage.verify([executable, "--device", "sim", "--verify-only", "--format", "csv", "--rows", "1",
                                    "--cols", COLS, "--dtype", "all", "--op", "all", *options], SIM_REPORT="1")  # fmt: skip
    launched = set(re.findall(r"^counted: (.*) <<<", report, re.MULTILINE))
    if not kernels:
        raise Failure("the executable has no kernels")
    if unseen := sorted(kernels - launched):
        raise Failure("\n".join(["never launched:", *unseen]))
    return f"{len(kernels)} kernels were launched"


if __name__ == "__main__":
    sys.exit(check_stage.print_or_fail(lambda: check(*sys.argv[1:])))
