"""A line on a terminal about a run that takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

AFTER = 2.0  # seconds without a word
WIDTH = 30


class Progress:
    """Tells ``told`` how many tasks are done, of how many; without it, draws a bar on the terminal
    where there is one."""

    def __init__(self, told: Callable[[int, int], None] | None) -> None:
        self._told, self._drawn = told, False
        self._start = time.monotonic()

    def show(self, done: int, total: int) -> None:
        if self._told is not None:
            self._told(done, total)
            return
        passed = time.monotonic() - self._start
        if passed >= AFTER and sys.stderr is not None and sys.stderr.isatty():
            full = WIDTH * done // max(total, 1)
            bar = "#" * full + "-" * (WIDTH - full)
            print(f"\r[{bar}] {done} of {total} tasks, {passed:.0f} s", end="", file=sys.stderr,
                  flush=True)
            self._drawn = True

    def end(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
