"""Blocks of the operands of programs that are timed: the same numbers for every system, made as
fast as memory is written, and the time of a run with the bytes that all nodes sent in it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NETWORK = Path(__file__).parent / "network.sh"
LENGTH = 10007  # of the numbers that are repeated


def block(shape: tuple[int, ...], name: int, key: tuple[int, ...]) -> np.ndarray:
    """The block of a matrix, by its number and the key of the block."""
    return np.resize(np.random.default_rng([name, *key]).random(LENGTH), shape)


def sent() -> int:
    """Bytes that all nodes have sent, counted by the kernel."""
    found = subprocess.run([NETWORK, "bytes"], check=True, capture_output=True, text=True).stdout
    return sum(int(line.split()[1]) for line in found.splitlines())


def timed(system: str, program: str, how: str, run: Callable[[], Any], **more: object) -> Any:
    """Prints a line of JSON that ``times.py`` reads."""
    before, begun = sent(), time.perf_counter()
    found = run()
    seconds = time.perf_counter() - begun
    if callable(more.get("counted")):
        more["counted"] = more["counted"]()
    print(json.dumps({"system": system, "program": program, "how": how, "seconds": seconds,
                      "moved": sent() - before, **more}), flush=True)
    return found
