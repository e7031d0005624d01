"""Compiles the Triton kernels of a sweep in parallel, before the GPU is measured.

Triton keeps what it compiled on disk, so other processes can do it. Only to save time: what fails here, or was
left out, is compiled when its turn comes.

    python3 -m measure.sweep_compile INDEX COUNT    one of the processes: every COUNT-th job, as standard input says
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, List

from measure.peers import Problem, module_of

TOOLS = Path(__file__).resolve().parents[1]
LEAST_JOBS = 4  # for a process, which takes seconds to start


def triton_ahead(problems: List[Problem], compute_capability: str) -> None:
    """Returns when all is compiled. An interrupt ends the processes at once."""
    count = len(module_of("triton").jobs(problems))
    workers = min(count // LEAST_JOBS, len(os.sched_getaffinity(0)))
    if workers < 2:
        return
    print(f"compiling {count} Triton kernels in {workers} processes ...", file=sys.stderr, flush=True)
    failed = in_processes(workers, json.dumps([compute_capability, problems]))
    if failed:
        print(f"{len(failed)} of them failed here: {failed[0]}"[:300], file=sys.stderr, flush=True)


def in_processes(workers: int, text: str) -> List[str]:
    """Runs the processes to their end with `text` as their input; returns what they say has failed."""
    processes = []
    path = os.pathsep.join(filter(None, (str(TOOLS), os.environ.get("PYTHONPATH"))))
    try:
        for index in range(workers):
            command = [sys.executable, "-m", "measure.sweep_compile", str(index), str(workers)]
            # A session of its own: Ctrl-C reaches this process alone, which then ends the others.
            process = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            processes.append(process)
            assert process.stdin
            with contextlib.suppress(BrokenPipeError):  # it ended already: its exit code says so
                process.stdin.write(text)
                process.stdin.close()
        failed: List[str] = []
        for process in processes:
            assert process.stdout
            failed += process.stdout.read().splitlines()
            if process.wait() != 0:
                failed.append(f"a process ended with exit code {process.returncode}")
        return failed
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def main(index: int, count: int) -> None:
    compute_capability, problems = json.load(sys.stdin)
    triton = module_of("triton")
    jobs: List[Any] = triton.jobs([Problem(*problem) for problem in problems])
    for job in jobs[index::count]:
        try:
            triton.compile_ahead(int(compute_capability.replace(".", "")), job)
        except Exception as error:  # noqa: BLE001  told to who waits; the sweep meets it again
            print(" ".join(f"{type(error).__name__}: {error}".split()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
