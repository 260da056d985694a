"""Joins of two tensors as relations of their entries.

Equalities of dimensions are solved for the axes of B, so such a join is a formula
``where(present(A[i, j]) and present(B[i, k]), merge(A[i, j], B[i, k]), 0)``, and planners see that
only entries are visited and what else can be done before it. A condition on data (values, or
dimensions by an inequality) has no such solution: the pairs are found by the operator
``algebra.bulk.join``, by hashing or in sorted order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import bulk, joins, ops
from tensorel.base.records import dataclass
from tensorel.errors import TensorelError, TypeError_, UnsupportedError, ValueError_
from tensorel.front.array.base import Base, axes_of, formed, indices, wrap
from tensorel.front.array.convert import asarray
from tensorel.front.array.scalars import Tracer, traced
from tensorel.front.labels.alignment import aligned, axes_of_tensor, fitted
from tensorel.front.relations.attributes import axis_of, differs, is_plain, scope_of, together
from tensorel.ir import nodes as ir
from tensorel.ir.affine import split_affine
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.build import compare, convert, floordiv, int_value, minus, modulo
from tensorel.ir.monoids import steps_of
from tensorel.ir.nodes import postorder
from tensorel.ir.replacing import substitute, with_parts
from tensorel.relational import evaluate as texts
from tensorel.relational.syntax import Compare, Logical, Name, conjuncts, parse_predicate

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Merge = Callable[[Any, Any], Any]
HOW = ("inner", "left", "outer")
_OPERATORS: Mapping[str, ops.Operator] = {
    "==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal, ">": ops.greater,
    ">=": ops.greater_equal}


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """A comparison of a formula over A with one over B: of indices a0, ... and b0, ..., and of the
    values, locals a and b."""

    op: ops.Operator
    left: ir.Expr
    right: ir.Expr

    @property
    def on_data(self) -> bool:
        """Whether a value is compared."""
        return any(isinstance(e, ir.Local) for e in postorder(self.left, self.right))


def join(x: object, other: object, on: str, merge: Merge, how: str = "inner") -> Tensor:
    """See ``Tensor.join``."""
    a, b = asarray(x), asarray(other)
    if isinstance(on, str) and a.program.is_labelled and b.program.is_labelled:
        a, b = _by_label(a, b, on, how)
    if not (callable(merge) and isinstance(on, str) and is_plain(a) and is_plain(b)):
        return wrap(_Join(a, b, on, merge, how).result())
    formula = _traced(merge, a.dtype, b.dtype)
    if formula is None:
        return wrap(_Join(a, b, on, merge, how).result())
    return formed((join, on, how, formula), partial(_joined, on, merge, how, formula), a, b)


def _by_label(a: Tensor, b: Tensor, on: str, how: str) -> tuple[Tensor, Tensor]:
    """Equal dimensions that both have labels are joined by these: B gets the labels of A, in an
    outer join both those that one of them has."""
    for tree in conjuncts(parse_predicate(on)) if on else ():
        if not (isinstance(tree, Compare) and tree.op == "==" and isinstance(tree.left, Name)
                and isinstance(tree.right, Name)):
            continue
        i, k = axis_of(a, tree.left.name), axis_of(b, tree.right.name)
        if i is None or k is None:
            continue
        if how == "outer":
            a, b = aligned("join", ops.where, (a, b), [
                [("a", n) if n != i else "met" for n in range(a.ndim)],
                [("b", n) if n != k else "met" for n in range(b.ndim)]])
        elif (axes := axes_of_tensor(a)) and (labels := axes[i].labels) is not None:
            b = fitted(b, k, labels)
    return a, b


def _joined(on: str, merge: Merge, how: str, formula: ir.Expr, a: Base, b: Base) -> ir.Tensor:
    both = [wrap(t.node) for t in (a, b)]
    return _Join(both[0], both[1], on, merge, how, formula).result()


def _traced(merge: Merge, a: ops.DType, b: ops.DType) -> ir.Expr | None:
    """The merge function as a formula of a and b; None if it branches on values."""
    try:
        return traced(merge(Tracer(ir.Local("a", a)), Tracer(ir.Local("b", b))))
    except (TensorelError, TypeError, AttributeError, ValueError):
        return None


def cross(x: object, other: object, merge: Merge) -> Tensor:
    """See ``Tensor.cross``."""
    return join(x, other, "", merge)


class _Join:
    def __init__(self, a: Tensor, b: Tensor, on: str, merge: Merge, how: str,
                 formula: ir.Expr | None = None) -> None:
        if how not in HOW:
            raise ValueError_(f"join: how={how!r} is not known", hint=f"one of {', '.join(HOW)}")
        if not callable(merge):
            raise TypeError_("join: merge is a function of the two values",
                             hint="e.g. lambda x, y: x * y")
        self.a, self.b, self.on, self.how, self.merge = a, b, on, how, merge
        self.fills = fill_of(a.node), fill_of(b.node)
        self.names = ([f"a{k}" for k in range(a.ndim)], [f"b{k}" for k in range(b.ndim)])
        self.values = ir.Local("a", a.dtype), ir.Local("b", b.dtype)
        self.conditions = self._conditions() if on else []
        self.solved: dict[int, ir.Expr] = {}
        self.divisible: list[ir.Expr] = []
        self.rest = [c for c in self.conditions if not self._solves(c)]
        self.kept = tuple(k for k in range(b.ndim) if k not in self.solved)
        self.formula = formula or _traced(merge, a.dtype, b.dtype)

    # -- conditions ---------------------------------------------------------------------------
    def _conditions(self) -> list[Condition]:
        if not isinstance(self.on, str):
            raise TypeError_(f"join: {type(self.on).__name__} is no condition",
                             hint="a text such as 'rid = rid and cid = cid' or 'val = val'")
        scopes = [scope_of(self.on, t, tuple(map(ir.Index, names)), value)
                  for t, names, value in zip((self.a, self.b), self.names, self.values)]
        found = []
        for tree in conjuncts(parse_predicate(self.on)):
            if not isinstance(tree, Compare):
                scopes[0].fail("a join is of comparisons joined by 'and'", tree,
                               "select from the operands or the result for other conditions"
                               if isinstance(tree, Logical) else "e.g. 'rid = rid'")
            sides = []
            for term, scope in zip((tree.left, tree.right), scopes):
                value = texts.evaluate(term, scope)
                if not isinstance(value, Tracer | int | float):
                    scope.fail("a number stands here", term)
                sides.append(value)
            call = texts.COMPARE[tree.op](*[
                Tracer(traced(s)) if not isinstance(s, Tracer) else s for s in sides])
            left, right = call.expr.args
            found.append(Condition(_OPERATORS[tree.op], left, right))
        return found

    def _solves(self, c: Condition) -> bool:
        """Whether an equality of dimensions says where along an axis of B to read."""
        left, right = _uncast(c.left), _uncast(c.right)
        if c.op is not ops.equal or c.on_data or left.dtype != ir.INT64 \
                or right.dtype != ir.INT64 or len(right.free) != 1:
            return False
        (name,) = right.free
        axis = self.names[1].index(name)
        parts = split_affine(right, name)
        if parts is None or not parts[0] or axis in self.solved:
            return False
        step, start = parts
        total = minus(left, start)
        self.solved[axis] = total if step == 1 else minus(0, total) if step == -1 \
            else floordiv(total, step)
        if abs(step) != 1:
            self.divisible.append(compare(ops.equal, modulo(total, step), 0))
        return True

    # -- the merge function -------------------------------------------------------------------
    def _tried(self) -> joins.Untraced:
        """A function that cannot be traced is called for each pair, and its dtype is that of one
        call for ones."""
        ones = [t.dtype.type(1).item() for t in (self.a, self.b)]
        dtype = ops.check_dtype(np.asarray(self.merge(*ones)).dtype)
        return joins.Untraced(self.merge, dtype.str)

    # -- the result ---------------------------------------------------------------------------
    def result(self) -> ir.Tensor:
        if self.how != "inner" and self.kept:
            raise ValueError_(
                f"join: {self.how} joins are overlays, and {self.on!r} leaves axes "
                f"{', '.join(map(str, self.kept))} of B free",
                hint="match every axis of B by an equality, e.g. 'rid = rid and cid = cid'")
        if self.how == "outer" and self.rest:
            raise ValueError_(
                f"join: an outer join is by equal dimensions alone, and {self.on!r} says more",
                hint="select from the operands first, or from the result")
        if self.formula is None or self._is_on_data():
            return self._of_pairs()
        return self._of_cells(self.formula)

    def _is_on_data(self) -> bool:
        """Whether pairs are few, and no formula leads to them: an equality that no axis solves, or
        a range where no axis is solved at all."""
        if any(c.op is ops.equal for c in self.rest):
            return True
        return not self.solved and any(
            c.op is not ops.not_equal and _mentions_both(c) for c in self.rest)

    def _of_cells(self, merge: ir.Expr) -> ir.Tensor:
        """A formula over the cells of the result."""
        at = indices(self.a.ndim + len(self.kept))
        named: dict[str, ir.Expr] = dict(zip(self.names[0], at))
        named |= {self.names[1][k]: at[self.a.ndim + p] for p, k in enumerate(self.kept)}
        where = {k: substitute(e, named) for k, e in self.solved.items()}
        named |= {self.names[1][k]: e for k, e in where.items()}
        b_at = tuple(named[n] for n in self.names[1])
        a, b = ir.Read(self.a.node, at[: self.a.ndim]), ir.Read(self.b.node, b_at)
        values: dict[ir.Expr, ir.Expr] = dict(zip(self.values, (a, b)))
        met = [substitute(e, named) for e in self.divisible]
        met += self._inside(where)
        met += [e for c in self.rest for e in _holds(c, named, values)]
        ours = differs(a, self.fills[0])
        theirs = together([*met, differs(b, self.fills[1])])
        assert theirs is not None
        body = ir.Call(ops.where, (theirs, _with(merge, values), self._alone(merge, values, 0)))
        body = ir.Call(ops.where, (ours, body, self._alone(merge, values, 1, theirs)))
        shape = bulk.join.shape(self.a.shape, self.b.shape, self._spec())
        return ir.Lambda(axes_of(shape), body)

    def _alone(self, merge: ir.Expr, values: Mapping[ir.Expr, ir.Expr], side: int,
               there: ir.Expr | None = None) -> ir.Expr:
        """The value where there is an entry on one side alone: the other one is the number 0, not
        a cell that is not stored, which would annihilate nan."""
        nothing = ir.const(0, merge.dtype)
        if self.how == "inner" or (self.how == "left" and side == 1):
            return nothing
        other = self.values[1 - side]
        found = _with(merge, {**values, other: ir.const(0, other.dtype)})
        return found if there is None else ir.Call(ops.where, (there, found, nothing))

    def _inside(self, where: Mapping[int, ir.Expr]) -> list[ir.Expr]:
        """That solved places are places of B, where that is not sure."""
        found = []
        for k, e in where.items():
            extent = self.b.shape[k]
            if isinstance(e, ir.Index):
                axis = int(e.name[1:])
                if axis < self.a.ndim and self.a.shape[axis] <= extent:
                    continue
            elif (place := int_value(e)) is None or place < 0:
                found.append(compare(ops.greater_equal, e, 0))
            found.append(compare(ops.less, e, extent))
        return found

    def _of_pairs(self) -> ir.Tensor:
        if self.how == "outer":
            raise UnsupportedError(
                "join: a merge function that cannot be traced has no outer join",
                hint="write it with tr.where, &, |, np.maximum, ... instead of if, and, or, max")
        return ir.Bulk(bulk.join, (self.a.node, self.b.node), (self._spec(),))

    def _spec(self) -> joins.Join:
        merge = self._tried() if self.formula is None else steps_of(self.formula)
        conditions = tuple(joins.Condition(
            c.op.name, _steps(c.left), _steps(c.right)) for c in self.conditions)
        fills = tuple((f.bits, f.dtype.str) for f in self.fills)
        return joins.Join(conditions, self.kept, merge, fills,  # type: ignore[arg-type]
                          self.how == "left")


def _uncast(e: ir.Expr) -> ir.Expr:
    """Conversions of whole numbers to int64 change nothing."""
    return convert(e, ir.INT64) if isinstance(e, ir.Const) and e.dtype.kind in "iu" else e


def _mentions_both(c: Condition) -> bool:
    """Whether a condition is about both sides."""
    return all(e.free or any(isinstance(x, ir.Local) for x in postorder(e))
               for e in (c.left, c.right))


def _holds(c: Condition, named: Mapping[str, ir.Expr], values: Mapping[ir.Expr, ir.Expr]
           ) -> list[ir.Expr]:
    """A condition at the indices of the result; nan meets none."""
    sides = [_with(substitute(e, named), values) for e in (c.left, c.right)]
    found: list[ir.Expr] = [ir.Call(c.op, tuple(sides))]
    if c.op is ops.not_equal:
        found += [ir.Call(ops.equal, (e, e)) for e in sides if e.dtype.kind in "fc"]
    return found


def _with(e: ir.Expr, values: Mapping[ir.Expr, ir.Expr]) -> ir.Expr:
    """A formula with other expressions in place of its locals."""
    memo: dict[ir.Expr, ir.Expr] = {}
    for node in postorder(e):
        if isinstance(node, ir.Expr):
            memo[node] = values.get(node) or with_parts(node, memo.__getitem__)
    return memo[e]


def _steps(e: ir.Expr) -> Any:
    """A formula as a parameter: indices are arguments like values."""
    as_local: dict[ir.Expr, ir.Expr] = {
        i: ir.Local(i.name, ir.INT64) for i in postorder(e) if isinstance(i, ir.Index)}
    return steps_of(_with(e, as_local))

