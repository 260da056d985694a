"""The one table of native operators: (operator name, kind of dtype) -> lowering.

A lowering takes the code of the dtype that its arguments already have and gives the value in
the dtype of the result.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorel.kernels.llvm.instructions import Value

Lowering = Callable[..., Value]
TABLE: dict[tuple[str, str], Lowering] = {}


def lowers(name: str, kinds: str) -> Callable[[Lowering], Lowering]:
    """Enter a lowering in the table for one operator and the given kinds of dtype."""

    def enter(function: Lowering) -> Lowering:
        for kind in kinds:
            TABLE[name, kind] = function
        return function

    return enter
