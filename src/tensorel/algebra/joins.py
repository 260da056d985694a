"""Joins of two tensors as relations of their entries: what one says, and what it means.

Attributes are arguments of formulas: ``a`` is the value of an entry of A, and ``a0``, ``a1``, ...
its coordinates; ``b``, ``b0``, ... are those of B. An entry is a cell that differs from the fill;
nan meets no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.algebra.steps import Steps, arguments, dtype_of, run, show
from tensorel.errors import TypeError_

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
_SIGNS = {"equal": "=", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
          "greater_equal": ">="}
#: A literal: its bytes and its dtype.
Literal = tuple[bytes, str]


class Condition(NamedTuple):
    """``left op right``: by an operator's name, a formula over A compared with one over B."""

    op: str
    left: Steps
    right: Steps


class Untraced(NamedTuple):
    """A function of two Python values that no formula is known of, and the dtype of its results."""

    function: Callable[[Any, Any], Any]
    dtype: str


class Join(NamedTuple):
    """Pairs of entries that meet all conditions. The result has A's axes, then ``kept`` of B's; a
    pair stands at the coordinates of both, with the value ``merge(a, b)``. With ``left``, entries
    of A that meet none stand there with ``merge(a, 0)``: no axis of B is kept then. Axes that are
    ``summed``, of A and of B, are in no result: pairs at one place are added up."""

    conditions: tuple[Condition, ...]
    kept: Shape
    merge: Steps | Untraced
    fills: tuple[Literal, Literal]
    left: bool = False
    summed: tuple[Shape, Shape] = ((), ())

    @property
    def is_summed(self) -> bool:
        """Whether several pairs may stand at one place."""
        return self.summed != ((), ())

    def kept_of_a(self, rank: int) -> Shape:
        """The axes of A that the result has."""
        return tuple([k for k in range(rank) if k not in self.summed[0]])

    def __repr__(self) -> str:
        """As plans show it."""
        tests = [f"{show(c.left)} {_SIGNS.get(c.op, c.op)} {show(c.right)}"
                 for c in self.conditions]
        merge = f"{getattr(self.merge.function, '__name__', 'a function')}(a, b)" if isinstance(
            self.merge, Untraced) else show(self.merge)
        over = [f"{side}{k}" for side, axes in zip("ab", self.summed) for k in axes]
        return f"{'left: ' if self.left else ''}{' and '.join(tests) or 'true'} -> {merge}" + (
            f" summed over {', '.join(over)}" if over else "")


def result_shape(a: Shape, b: Shape, join: Join) -> Shape:
    """The extents of A's axes, then those of B that are kept."""
    return (*[a[k] for k in join.kept_of_a(len(a))], *[b[k] for k in join.kept])


def result_dtype(a: ops.DType, b: ops.DType, join: Join) -> ops.DType:
    """The dtype of merged values."""
    if isinstance(join.merge, Untraced):
        return np.dtype(join.merge.dtype)
    return dtype_of(join.merge)


def differs(values: Array, fill: Literal) -> npt.NDArray[np.bool_]:
    """Which values are entries."""
    value = np.frombuffer(fill[0], fill[1])[0]
    found: npt.NDArray[np.bool_] = np.not_equal(values, value)
    return found & (values == values) if value != value else found


def attributes(side: str, values: Array, coords: Sequence[Array]) -> dict[str, Array]:
    """The arguments that entries of one side give."""
    return {side: values, **{f"{side}{k}": c for k, c in enumerate(coords)}}


def holds(condition: Condition, given: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
    """Where a comparison holds; nan compares with nothing."""
    with np.errstate(all="ignore"):
        left, right = run(condition.left, given), run(condition.right, given)
        found = np.asarray(ops.operator(condition.op).meaning(left, right), bool)
        met: npt.NDArray[np.bool_] = found & (left == left) & (right == right)
        return met


def merged(join: Join, a: Array, b: Array) -> Array:
    """The values of pairs."""
    dtype = result_dtype(a.dtype, b.dtype, join)
    if not isinstance(join.merge, Untraced):
        with np.errstate(all="ignore"):
            found = np.broadcast_to(run(join.merge, {"a": a, "b": b}), a.shape)
            return found.astype(dtype, copy=False)
    called = np.asarray([join.merge.function(x, y) for x, y in zip(a.tolist(), b.tolist())])
    if called.size and not np.can_cast(called.dtype, dtype, "same_kind"):
        raise TypeError_(
            f"the merge function gives {called.dtype} here, and {dtype} was found by a trial",
            hint="write it with tr.where, &, |, np.maximum, ... so that it can be traced")
    return called.astype(dtype)


def fixed(join: Join, side: str, axis: int, place: int) -> Join:
    """The join for entries at one place of an axis, which the operand has no longer."""
    literal = np.int64(place).tobytes(), "<i8"

    def other(steps: Steps) -> Steps:
        return tuple([_renumbered(s, side, axis, literal) for s in steps])

    conditions = tuple([Condition(c.op, other(c.left), other(c.right)) for c in join.conditions])
    kept, summed = join.kept, list(join.summed)
    summed["ab".index(side)] = tuple([k - (k > axis) for k in summed["ab".index(side)]])
    if side == "b":
        kept = tuple([k - (k > axis) for k in kept if k != axis])
    return join._replace(conditions=conditions, kept=kept, summed=(summed[0], summed[1]))


def _renumbered(step: tuple[Any, ...], side: str, axis: int, literal: Literal) -> tuple[Any, ...]:
    name = step[0]
    if len(step) != 2 or type(step[1]) is not str or not isinstance(name, str) \
            or name[:1] != side or name == side:
        return step
    k = int(name[1:])
    return literal if k == axis else (f"{side}{k - (k > axis)}", step[1])


def meaning(a: Array, b: Array, join: Join) -> Array:
    """By the definition: all pairs of entries are looked at."""
    result = np.zeros(result_shape(a.shape, b.shape, join), result_dtype(a.dtype, b.dtype, join))
    ours, others = np.nonzero(differs(np.atleast_1d(a), join.fills[0])), np.nonzero(
        differs(np.atleast_1d(b), join.fills[1]))
    left, right = np.atleast_1d(a)[ours], np.atleast_1d(b)[others]
    at = [c.ravel() for c in np.meshgrid(np.arange(left.size), np.arange(right.size),
                                         indexing="ij")]
    given = {**attributes("a", left[at[0]], [c[at[0]] for c in ours]),
             **attributes("b", right[at[1]], [c[at[1]] for c in others])}
    met = np.ones(at[0].size, bool)
    for condition in join.conditions:
        met &= holds(condition, given)
    i, j = at[0][met], at[1][met]
    ours = tuple([ours[k] for k in join.kept_of_a(a.ndim)])
    stands: list[tuple[list[Array], Array]] = [
        ([*[c[i] for c in ours], *[others[k][j] for k in join.kept]],
         merged(join, left[i], right[j]))]
    if join.left:
        alone = np.setdiff1d(np.arange(left.size), i)
        stands.append(([c[alone] for c in ours],
                       merged(join, left[alone], np.zeros(alone.size, b.dtype))))
    with np.errstate(all="ignore"):
        for places, values in stands:
            if places:
                np.add.at(result, tuple(places), values)
            else:
                result[()] = np.add(result, np.add.reduce(values, dtype=result.dtype))
    return result


__all__ = ["Condition", "Join", "Untraced", "arguments", "attributes", "differs", "holds",
           "meaning", "merged", "result_dtype", "result_shape"]
