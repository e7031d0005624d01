"""Compiles the Triton kernels of a sweep in parallel, before the GPU is measured.

Only to save time: what fails here, or was left out, is compiled when its turn comes.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import sys
from typing import Any, List

from peers import Problem, module_of


def _compile(compute_capability: int, job: Any) -> None:
    module_of("triton").compile_ahead(compute_capability, job)


def triton_ahead(problems: List[Problem], compute_capability: str) -> None:
    jobs = module_of("triton").jobs(problems)
    workers = min(len(jobs) // 4, len(os.sched_getaffinity(0)))
    if workers < 2:
        return
    print(f"compiling {len(jobs)} Triton kernels in {workers} processes ...", file=sys.stderr, flush=True)
    # Fresh processes: a fork of this one would share its GPU context.
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, fresh) as pool:
        capability = int(compute_capability.replace(".", ""))
        started = [pool.submit(_compile, capability, job) for job in jobs]
        failed = [f for f in concurrent.futures.as_completed(started) if f.exception() is not None]
    if failed:
        print(f"{len(failed)} of them failed here: {failed[0].exception()}"[:300], file=sys.stderr, flush=True)
