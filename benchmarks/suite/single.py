"""One case in a process of its own: first-call latency, or peak memory. Prints JSON.

    python -m suite.single latency|compile|memory CASE SCALE

latency: the first call right after its tensors were made; compile: when LLVM has been loaded, as
it has been before memory is looked at.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from suite.case import Problem, all_cases
from suite.catalogue import load

_STATUS = Path("/proc/self/status")


def _kib(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def run(problem: Problem) -> Any:
    made = problem.ours()
    return made if problem.eager else made.compute()


def _seconds(problem: Problem) -> float:
    start = time.perf_counter()
    run(problem)
    return time.perf_counter() - start


def latency(problem: Problem) -> dict[str, float]:
    """Seconds that the first call takes beyond later ones: planning, compiling, loading."""
    first = _seconds(problem)
    later = [_seconds(problem) for _ in range(9)]
    return {"latency": max(first - statistics.median(later), 0.0)}


def memory(problem: Problem) -> dict[str, int]:
    """Bytes at the peak of one call above those before it, with its inputs added."""
    for _ in range(4):  # plans, compiles, starts threads: that memory is not the program's
        run(problem)
    predicted = 0 if problem.eager else int(problem.ours().explain().predicted_bytes)
    gc.collect()
    before = _kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    result = run(problem)
    peak = _kib("VmHWM") - before
    inputs = sum(int(x.nbytes) for x in problem.inputs)
    return {
        "inputs": inputs,
        "output": int(result.nbytes),
        "peak": inputs + max(peak, 0),
        "predicted": predicted,
    }


def _without_peers() -> None:
    """PyData/Sparse loads numba and with it LLVM, which a user's first call loads by itself. The
    peers of a case do not run here, so what they are given does not matter."""
    sys.modules["sparse"] = MagicMock()


def main() -> None:
    _without_peers()
    measure, name, scale = sys.argv[1], sys.argv[2], float(sys.argv[3])
    load()
    problem = next(c for c in all_cases() if c.name == name).setup(scale)
    if measure != "latency":
        for thread in threading.enumerate():
            if thread.name == "tensorel-llvm":
                thread.join()
    print(json.dumps(memory(problem) if measure == "memory" else latency(problem)))


if __name__ == "__main__":
    main()
