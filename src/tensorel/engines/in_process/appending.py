"""Puts the pieces of a result that several threads append one after another.

Each range of the outer loop appends to buffers of its own. As soon as all ranges before it are
done, its piece is copied behind theirs, while it is still in the caches, and its buffers serve the
next range. So no more memory is written than by one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tensorel.kernels.runtime.buffers import Control, GrowBuffer

Pieces = dict[str, GrowBuffer]


class Collector:
    """Growable outputs of a kernel, filled in the order of the ranges.

    ``make``: new buffers for one range. ``place(k, before)`` is called before piece k is copied,
    with the place in each buffer where it begins. The values of the buffers named in ``counts`` are
    places in another one."""

    def __init__(self, whole: Pieces, make: Callable[[], Pieces], control: Control,
                 place: Callable[[int, dict[str, int]], None], counts: dict[str, str]) -> None:
        self.whole, self.make, self.control, self.place = whole, make, control, place
        self.counts = counts
        self.guard = threading.Lock()
        self.waiting: dict[int, Pieces] = {}
        self.idle: list[Pieces] = []
        self.next = 0

    def lend(self) -> Pieces:
        """Empty buffers for a range."""
        with self.guard:
            if self.idle:
                return self.idle.pop()
        return self.make()

    def give(self, k: int, pieces: Pieces) -> bool:
        """Range k is done; False if there is no room for it."""
        with self.guard:
            self.waiting[k] = pieces
            while self.next in self.waiting:
                ready = self.waiting.pop(self.next)
                before = {name: b.length for name, b in self.whole.items()}
                self.place(self.next, before)
                for name, piece in ready.items():
                    more = before.get(self.counts.get(name, ""), 0)
                    if not self.whole[name].extend(piece, self.control, more):
                        return False
                    piece.clear()
                self.idle.append(ready)
                self.next += 1
        return True
