"""Measurements that need a new process: first calls, peak memory, import time."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent.parent
_SOURCE = _HERE.parent / "src"

#: Freed blocks go back to the system at once, so that the peak is of live bytes.
_HONEST_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}

#: First calls are measured on little data: with much, page faults and noise of the run itself
#: outweigh planning and compiling.
LATENCY_SCALE = 0.02

#: First calls happen once in a process: medians over so many.
TRIES = 3

_IMPORT = """
import numpy, time
start = time.perf_counter()
import tensorel
print(time.perf_counter() - start)
"""


def _python(arguments: list[str], environment: dict[str, str], timeout: float = 300) -> str:
    paths = [str(_HERE), str(_SOURCE), os.environ.get("PYTHONPATH", "")]
    full = os.environ | environment | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    done = subprocess.run(
        [sys.executable, *arguments], env=full, capture_output=True, text=True, timeout=timeout
    )
    if done.returncode:
        last = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(last[-1])
    return done.stdout


def _single(measure: str, name: str, scale: float, environment: dict[str, str]) -> dict[str, Any]:
    text = _python(["-m", "suite.single", measure, name, str(scale)], environment)
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def first_calls(name: str, scale: float) -> dict[str, Any]:
    """Latency with an empty disk cache, LLVM loaded or not, and with the cache that is left then;
    memory at full size."""
    found: dict[str, list[float]] = {"cold": [], "load": [], "warm": []}
    for _ in range(TRIES):
        with _cache() as own:
            found["load"].append(_single("latency", name, LATENCY_SCALE, own)["latency"])
        with _cache() as own:
            found["cold"].append(_single("compile", name, LATENCY_SCALE, own)["latency"])
            found["warm"].append(_single("latency", name, LATENCY_SCALE, own)["latency"])
    with _cache() as own:
        memory = _single("memory", name, scale, own | _HONEST_MALLOC)
    return {kind: statistics.median(times) for kind, times in found.items()} | {"memory": memory}


@contextmanager
def _cache() -> Iterator[dict[str, str]]:
    """The environment with an empty disk cache."""
    with tempfile.TemporaryDirectory(prefix="tensorel-bench-") as folder:
        os.chmod(folder, 0o700)
        yield {"XDG_CACHE_HOME": folder}


def import_seconds(tries: int = 7) -> float:
    """What ``import tensorel`` adds to NumPy's import, best of several processes."""
    with tempfile.TemporaryDirectory(prefix="tensorel-bytecode-") as folder:
        written = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        return min(float(_python(["-c", _IMPORT], written)) for _ in range(tries))
