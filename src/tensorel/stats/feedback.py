"""Actual sizes of intermediates, remembered for the next time the same thing is planned."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from tensorel.base.forks import renewed

MAX_KEPT_COUNTS = 4096


class Feedback:
    """The latest sizes, least recently used ones forgotten first. Safe under threads.

    >>> store = Feedback(limit=2)
    >>> for name, size in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
    ...     store.remember(name, size)
    >>> store.recall("a"), store.recall("c")
    (None, 3.0)
    """

    def __init__(self, limit: int = MAX_KEPT_COUNTS) -> None:
        self.limit = limit
        self._sizes: OrderedDict[Hashable, float] = OrderedDict()
        self._met: OrderedDict[Hashable, float] = OrderedDict()
        self.lock = Lock()

    def __len__(self) -> int:
        return len(self._sizes)

    def remember(self, key: Hashable, actual: float, made_of: tuple[Hashable, ...] = ()) -> None:
        """The size of what ``key`` names, which was made of these."""
        with self.lock:
            self._put(self._sizes, key, float(actual))
            for part in made_of:
                self._put(self._met, part, 0.0)

    def _put(self, store: OrderedDict[Hashable, float], key: Hashable, value: float) -> None:
        store[key] = value
        store.move_to_end(key)
        while len(store) > self.limit:
            store.popitem(last=False)

    def has_met(self, part: Hashable) -> bool:
        """Something made of it may be remembered."""
        return part in self._met

    def recall(self, key: Hashable) -> float | None:
        with self.lock:
            found = self._sizes.get(key)
            if found is not None:
                self._sizes.move_to_end(key)
            return found

    def forget(self) -> None:
        with self.lock:
            self._sizes.clear()
            self._met.clear()


SIZES = Feedback()
renewed(SIZES.lock)
remember = SIZES.remember
recall = SIZES.recall
has_met = SIZES.has_met
forget = SIZES.forget
