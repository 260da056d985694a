"""Sums that are written out term by term are sums over an index.

``A[0] @ x + A[1] @ x + A[2] @ x + A[3] @ x`` is ``sum(s, k) A[s, i, k] * x[k]``, and a convolution
that is written as a sum of shifted slices, each times a weight, is one over its window. Reductions
that differ in whole numbers in their indices alone, where these are those of a grid, are one
reduction: one step where each term would be a step, and as large as the result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import plus, times
from tensorel.ir.nodes import Axis, Call, Const, Expr, Index, Read, Reduce, const
from tensorel.ir.ranges import is_affine
from tensorel.ir.replacing import substitute, with_parts
from tensorel.plan.definitions import Program, factors_of, product
from tensorel.plan.estimate import Estimator

MIN_TERMS = 4

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """Of a grid of terms: a whole number that is ``base + step * place`` along an axis."""

    axis: int | None
    base: int
    step: int


def roll_sums(program: Program) -> None:
    """Put a reduction over an index in place of reductions that are added up."""
    program.map_bodies(lambda lam: _Roller(program).go(lam.body))


class _Roller:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.memo: dict[Expr, Expr] = {}

    def go(self, e: Expr) -> Expr:
        found = self.memo.get(e)
        if found is None:
            if isinstance(e, Call) and e.op is ops.add:
                found = self._sum(e)
            else:
                found = e if isinstance(e, Read) else with_parts(e, self.go)
            self.memo[e] = found
        return found

    def _sum(self, e: Expr) -> Expr:
        terms = factors_of(e, ops.add)
        if len(terms) == 1:
            return with_parts(e, self.go)
        alike: dict[object, list[tuple[Reduce, list[int]]]] = {}
        for t, count in Counter(terms).items():
            if isinstance(t, Reduce) and t.op is ops.add and t.dtype == e.dtype and count == 1:
                numbers: list[int] = []
                look = _look(t, numbers)
                if look is not None:
                    alike.setdefault(look, []).append((t, numbers))
        rolled: dict[Expr, Expr | None] = {}
        for group in alike.values():
            one = self._one(group) if len(group) >= MIN_TERMS else None
            if one is not None:
                rolled |= dict.fromkeys([t for t, _ in group])
                rolled[group[0][0]] = one
        left = [rolled[t] if t in rolled else self.go(t) for t in terms]
        if all(a is b for a, b in zip(left, terms)):
            return e
        # a reduction is never -0: zeros beside it change nothing
        return product([t for t in left if t is not None and not (
            rolled and isinstance(t, Const) and t.value == 0)], ops.add)

    def _one(self, group: Sequence[tuple[Reduce, list[int]]]) -> Expr | None:
        """Terms as one reduction; None where their numbers are not those of a grid."""
        term = group[0][0]
        places = [[int(n) for n in numbers] for _, numbers in group]  # the plan is for these
        found = _grid(np.array(places, np.int64))
        if found is None or not all(a.extent for a in term.axes):
            return None
        columns, extents = found
        if not self._in_place(term, columns):
            return None
        axes = [Axis(self.program.fresh("s"), n) for n in extents]
        self.program.fire("roll: a sum of terms that differ in places -> a sum over places")
        return Reduce(ops.add, (*axes, *term.axes), _moved(term.body, iter(columns), axes))

    def _in_place(self, term: Reduce, columns: Sequence[Column]) -> bool:
        """Places of a sparse tensor that no loop walks are next to each other: others would be
        looked for one by one."""
        estimator, rest = Estimator(self.program.stats), iter(columns)
        return all(not c.step or e.free or abs(c.step) == 1 or estimator.is_dense(r)
                   for r in _reads(term.body) for e in r.indices
                   if is_affine(e) is not None for c in (next(rest),))


def _look(term: Reduce, numbers: list[int]) -> object:
    """What equal terms have in common, and the numbers that their indices add; None where they are
    not told from the outside."""
    names = {a.name: Index(f"\1{k}") for k, a in enumerate(term.axes)}

    def go(e: Expr) -> object:
        match e:
            case Reduce():
                return None
            case Read():
                return (e.tensor, *[place(i) for i in e.indices])
            case Call():
                below = [go(a) for a in e.args]
                return None if None in below else (e.op, *below)
            case _:
                return substitute(e, {n: i for n, i in names.items() if n in e.free})

    def place(e: Expr) -> object:
        affine = is_affine(e)
        if affine is None:
            return substitute(e, {n: i for n, i in names.items() if n in e.free})
        numbers.append(affine.constant)
        return tuple(sorted([(names[n].name if n in names else n, int(c))
                             for n, c in affine.coefficients.items()]))

    found = go(term.body)
    return None if found is None else (tuple([a.extent for a in term.axes]), found)


def _reads(e: Expr) -> Iterator[Read]:
    """In the order in which ``_look`` finds them."""
    if isinstance(e, Read):
        yield e
    elif isinstance(e, Call):
        for a in e.args:
            yield from _reads(a)


def _moved(e: Expr, columns: Iterator[Column], axes: Sequence[Axis]) -> Expr:
    """The body of a term with places of the grid in place of the numbers in its indices."""
    if isinstance(e, Call):
        return Call(e.op, tuple([_moved(a, columns, axes) for a in e.args]))
    if not isinstance(e, Read):
        return e
    at: list[Expr] = []
    for i in e.indices:
        affine = is_affine(i)
        if affine is None:
            at.append(i)
            continue
        c = next(columns)
        found: Expr = const(0, ops.INT64)
        for n, factor in affine.coefficients.items():
            found = plus(found, times(int(factor), Index(n)))
        if c.axis is not None:
            found = plus(found, times(c.step, Index(axes[c.axis].name)))
        at.append(plus(found, c.base))
    return Read(e.tensor, tuple(at))


def _grid(numbers: Numbers) -> tuple[list[Column], list[int]] | None:
    """Of numbers (terms, columns) the grid that the terms are places of: what each column is along
    which axis of it, and its extents."""
    columns: list[Column] = []
    extents: list[int] = []
    known: list[Numbers] = []
    for values in numbers.T:
        base = int(values.min())
        off = values - base
        step = int(np.gcd.reduce(off)) if len(off) else 0
        if not step:
            columns.append(Column(None, base, 0))
            continue
        place = off // step
        last = int(place.max())
        forth = [k for k, p in enumerate(known) if np.array_equal(p, place)]
        back = [k for k, p in enumerate(known) if np.array_equal(p, last - place)]
        if forth or back:
            columns.append(Column(forth[0], base, step) if forth
                           else Column(back[0], base + step * last, -step))
            continue
        known.append(place)
        extents.append(last + 1)
        columns.append(Column(len(known) - 1, base, step))
    if not known or math.prod(extents) != len(numbers):
        return None
    flat = np.ravel_multi_index(tuple(known), tuple(extents))
    return (columns, extents) if len(np.unique(flat)) == len(numbers) else None
