"""The equations of a join: what rows of both sides are looked up by."""

from __future__ import annotations

from tensorel.base.records import dataclass
from tensorel.sql.algebra import Join
from tensorel.sql.scalars import Call as SqlCall
from tensorel.sql.scalars import Scalar, columns_of


@dataclass(frozen=True, slots=True)
class Equation:
    """``left = right``; ``nulls``: null equals null."""

    left: Scalar
    right: Scalar
    nulls: bool


def split(node: Join) -> tuple[list[Equation], list[Scalar]]:
    """The equations of both sides, and the other tests."""
    left, right = set(node.left.columns), set(node.right.columns)
    equations: list[Equation] = []
    rest: list[Scalar] = []
    for t in node.on:
        if isinstance(t, SqlCall) and t.function in ("=", "is"):
            a, b = t.args
            first, second = columns_of(a), columns_of(b)
            if first and second:
                if first <= left and second <= right:
                    equations.append(Equation(a, b, t.function == "is"))
                    continue
                if first <= right and second <= left:
                    equations.append(Equation(b, a, t.function == "is"))
                    continue
        rest.append(t)
    return equations, rest
