"""Selection of entries by a predicate, and of the rows that are not empty.

``select`` is the formula ``where(p(i, j, A[i, j]), A[i, j], fill)``. An equality that stands in a
conjunction solves an axis: ``rid = 3`` puts 3 in its place, ``rid = cid`` one index for both. So
everything that planners know of formulas and slices holds of selections.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.front.array.base import Base, axes_of, formed, indices, one_axis, wrap
from tensorel.front.array.convert import asarray
from tensorel.front.array.scalars import Tracer, traced
from tensorel.front.relations.attributes import (
    conjuncts,
    is_plain,
    is_truth,
    present,
    scope_of,
    together,
)
from tensorel.ir import nodes as ir
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.replacing import substitute
from tensorel.relational.evaluate import evaluate
from tensorel.relational.syntax import parse_predicate

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


def select(x: object, predicate: Any) -> Tensor:
    """The entries for which a predicate holds, see ``Tensor.select``."""
    t = asarray(x)
    if isinstance(predicate, str) and is_plain(t):
        return formed((select, predicate), partial(_selected, predicate), t)
    return wrap(_selected(predicate, t))


def _selected(predicate: Any, given: Base) -> ir.Tensor:
    t = given if isinstance(given, Base) else wrap(given.node)
    at = indices(t.ndim)
    value = ir.Read(t.node, at)
    condition = _condition(t, predicate, at, value)  # type: ignore[arg-type]
    solved = _Solved(t.shape)
    rest = [p for p in conjuncts(condition) if not solved.takes(p)]
    return solved.result(t, value, together(rest))


def _condition(t: Tensor, predicate: Any, at: tuple[ir.Expr, ...], value: ir.Expr) -> ir.Expr:
    if isinstance(predicate, str):
        scope = scope_of(predicate, t, at, value)
        tree = parse_predicate(predicate)
        found = evaluate(tree, scope)
        if not is_truth(found):
            scope.fail("this is a number, not a condition", tree, "compare it, e.g. val != 0")
    elif callable(predicate):
        found = predicate(*(Tracer(e) for e in (*at, value)))
    else:
        raise TypeError_(f"select: {type(predicate).__name__} is no predicate",
                         hint="a text such as 'rid = 3 and val > 0.5', or a function of the "
                         "indices and the value")
    e = traced(found)
    if e.dtype != ops.BOOL:
        raise TypeError_(f"select: the function gives {e.dtype.name}, not a condition",
                         hint="compare, and join conditions by & | ~")
    return e


class _Solved:
    """Axes that are fixed or equal: classes of axes, and the constants of some."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.names = [i.name for i in indices(len(shape))]  # type: ignore[attr-defined]
        self.first = list(range(len(shape)))
        self.fixed: dict[int, int] = {}
        self.empty = False

    def _root(self, axis: int) -> int:
        while self.first[axis] != axis:
            axis = self.first[axis]
        return axis

    def _axis(self, e: ir.Expr) -> int | None:
        while isinstance(e, ir.Call) and e.op.name.startswith("cast_") and e.dtype.kind in "iuf":
            (e,) = e.args
        return self.names.index(e.name) if isinstance(e, ir.Index) else None

    def takes(self, e: ir.Expr) -> bool:
        """Whether a condition fixes an axis or makes two equal; then nothing of it is left."""
        if isinstance(e, ir.Const):
            self.empty |= not bool(e.value)
            return True
        if not isinstance(e, ir.Call) or e.op is not ops.equal:
            return False
        a, b = (self._axis(x) for x in e.args)
        if a is not None and b is not None:
            low, high = sorted((self._root(a), self._root(b)))
            self.first[high] = low
            if high in self.fixed:
                self._fix(low, self.fixed.pop(high))
            return True
        axis, other = (a, e.args[1]) if a is not None else (b, e.args[0])
        if axis is None or not isinstance(other, ir.Const) or other.dtype.kind not in "iuf":
            return False
        number = float(other.value)
        self._fix(self._root(axis), int(other.value) if number.is_integer() else -1)
        return True

    def _fix(self, axis: int, place: int) -> None:
        self.empty |= self.fixed.setdefault(axis, place) != place

    def result(self, t: Base, value: ir.Expr, rest: ir.Expr | None) -> ir.Tensor:
        """The selected entries, with fill elsewhere; a place that is outside selects nothing."""
        shape: list[int] = []
        values: dict[str, ir.Expr] = {}
        for axis in range(len(self.shape)):
            root = self._root(axis)
            extent = min(n for k, n in enumerate(self.shape) if self._root(k) == root)
            if root in self.fixed:
                place = self.fixed[root]
                self.empty |= not 0 <= place < extent
                values[self.names[axis]] = ir.const(place, ir.INT64)
                continue
            if root == axis:
                values[self.names[axis]] = ir.Index(self.names[len(shape)])
                shape.append(extent)
            else:
                values[self.names[axis]] = values[self.names[root]]
        fill = fill_of(t.node)
        body: ir.Expr = fill
        if not self.empty:
            body = substitute(value, values)
            if rest is not None:
                body = ir.Call(ops.where, (substitute(rest, values), body, fill))
        return ir.Lambda(axes_of(tuple(shape)), body)


def drop_empty(x: object, axis: int = 0) -> Tensor:
    """The tensor without the rows that are all fill, see ``Tensor.drop_empty``."""
    t = asarray(x)
    k = one_axis(axis, t.ndim, "drop_empty")
    at = indices(t.ndim)
    cells = wrap(ir.Lambda(axes_of(t.shape), present(t, ir.Read(t.node, at))))
    others = tuple(a for a in range(t.ndim) if a != k)
    (kept,) = (cells.any(axis=others) if others else cells).nonzero()
    if math.prod(kept.shape) == t.shape[k]:
        return t
    return t.take(kept, axis=k)
