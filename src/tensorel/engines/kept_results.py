"""The results that programs keep, and what they take."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from tensorel.engines.programs import Program


class _Kept:
    """The results that are kept, oldest first. They are dropped first when memory is needed."""

    def __init__(self) -> None:
        self.bytes_ = 0
        self._sizes: dict[ref[Program], int] = {}

    def count(self, program: Program, size: int) -> None:
        at = ref(program, self._lost)
        self.bytes_ += size - self._sizes.pop(at, 0)
        self._sizes[at] = size

    def discount(self, program: Program) -> None:
        self._lost(ref(program))

    def _lost(self, at: ref[Program]) -> None:
        self.bytes_ -= self._sizes.pop(at, 0)

    def make_room(self, needed: float, limit: float) -> int:
        """Bytes that are kept still when results that do not fit beside ``needed`` are dropped."""
        if self.bytes_ and needed + self.bytes_ > limit:
            for at in list(self._sizes):
                program = at()
                if program is not None:
                    program.forget()
                if needed + self.bytes_ <= limit:
                    break
        return self.bytes_


KEPT = _Kept()
