"""Windows of windows: sum(r, s) x[i + r, j + s] as sum(r) t[i + r, j] where t[p, j] = sum(s)
x[p, j + s] is stored.

A reduction over windows visits each entry once for each place of the window. Where a part of the
factors depends on other indices by sums alone, as on ``i + r``, the reduction over that part has
as many values as there are sums, and each is used for many cells. Two cases fall out:

- *separable windows*: those of several axes, all factors of which belong to one axis each (means,
  minima, products of vectors as kernels), take the sum of the sizes and not their product;
- *long windows* without factors are windows of blocks: n terms are m terms for each block, and n/m
  blocks for each cell, so 2*sqrt(n) (the two levels of van Herk's and Gil and Werman's minima).
  Nothing is subtracted, as differences of running sums do, so no digits are lost, and any monoid
  will do. Blocks of minima may overlap.

Which terms are added first changes, so this is a variant of the program, and off in strict mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from tensorel.algebra import ops
from tensorel.algebra.convolutions import factor
from tensorel.base.records import dataclass
from tensorel.ir.affine import split_affine
from tensorel.ir.build import convert, minus, plus, times
from tensorel.ir.nodes import Axis, Bulk, Call, Const, Expr, Index, Lambda, Read, Reduce, Source
from tensorel.ir.ranges import index_range
from tensorel.ir.replacing import substitute
from tensorel.plan.definitions import (
    OUTER_PRODUCT,
    Definition,
    Program,
    Stats,
    distributing,
    factors_of,
    inner_reductions,
    product,
    product_of,
    replace_exprs,
)
from tensorel.plan.estimate import Estimator
from tensorel.plan.logical.unguard import holds

RULE = "partial windows: sum(r, s) x[i + r, j + s] -> sum(r) t[i + r, j]"
MIN_LENGTH = 24  # of a window that is taken in blocks
MIN_GAIN = 1.3  # so many times fewer terms
REST = 8  # terms that a further reduction, for what blocks leave over, is worth


@dataclass(frozen=True, slots=True)
class _Cut:
    """A reduction in two: the inner one, a formula that is read at ``at``, and over the axes that
    are left the product of that with the other factors."""

    inner: Lambda
    at: tuple[Expr, ...]
    left: tuple[Axis, ...]
    factors: tuple[Expr, ...]

    def terms(self, cells: int) -> float:
        """For each of so many cells of the result."""
        assert isinstance(self.inner.body, Reduce)
        inside = product_of(self.inner.axes) * product_of(self.inner.body.axes)
        return inside / max(cells, 1) + product_of(self.left)


def partial_windows(program: Program) -> Program | None:
    """The program with reductions over parts of windows stored; None where there are none."""
    other = program.copy()
    other.definitions = [x for d in program.definitions for x in _cut(other, d)]
    made = len(other.definitions) - len(program.definitions)
    if not made:
        return None
    other.fire(RULE, made)
    return other


def _cut(program: Program, d: Definition) -> Iterator[Definition]:
    """Definitions in place of one, each before those that read it."""
    table: dict[Expr, Expr] = {}
    if isinstance(d.tensor, Lambda):
        for r in inner_reductions(d.tensor.body):
            extents = {a.name: a.extent for a in (*d.tensor.axes, *r.axes)}
            if 0 in extents.values() or inner_reductions(r.body) \
                    or not Estimator(program.stats).is_dense(r):
                continue
            apart, vectors = _products_apart(program, r)
            made = _in_parts(program, apart, extents)
            if made is not None:
                table[r], inner = made
                yield from vectors
                yield from _cut(program, inner)
        if table:
            d = d.rewritten(Lambda(d.tensor.axes, replace_exprs(d.tensor.body, table)))
    yield d


def _products_apart(program: Program, r: Reduce) -> tuple[Reduce, list[Definition]]:
    """The reduction with kernels that are outer products, as their data say, as products of
    vectors; and what these are."""
    by = distributing(r.op, r.body)
    if by is not ops.multiply or len(r.axes) < 2:
        return r, []
    made: list[Definition] = []
    found: list[Expr] = []
    names = {a.name for a in r.axes}
    for f in factors_of(r.body, by):
        read = f.args[0] if isinstance(f, Call) and f.op.name.startswith("cast_") else f
        own = read.free if isinstance(read, Read) else frozenset()
        if not isinstance(read, Read) or not isinstance(read.tensor, Source) or len(own) < 2 \
                or not own <= names or any(len(e.free) != 1 for e in read.indices) \
                or len(own) != len(read.indices) \
                or not holds(program, read.tensor, OUTER_PRODUCT):
            found.append(f)
            continue
        for axis, e in enumerate(read.indices):
            vector = Definition(program.fresh(), Bulk(factor, (read.tensor,), (axis,)))
            size = float(read.tensor.shape[axis])
            program.stats[vector.ref] = Stats(size, size, True)
            made.append(vector)
            found.append(convert(Read(vector.source(), (e,)), f.dtype))
    return (Reduce(r.op, r.axes, product(found, by)), made) if made else (r, [])


def _in_parts(program: Program, r: Reduce, extents: dict[str, int]
              ) -> tuple[Expr, Definition] | None:
    """What stands for a reduction, and the definition that it reads; None: it stays whole."""
    cells = product_of(tuple([Axis(n, extents[n]) for n in sorted(r.free)]))
    if len(r.axes) == 1:
        return _in_blocks(program, r, extents, cells)
    cuts = [c for a in reversed(r.axes) if (c := _window(program, r, a, extents)) is not None]
    best = min(cuts, key=lambda c: c.terms(cells), default=None)
    if best is None or best.terms(cells) * MIN_GAIN > product_of(r.axes):
        return None
    return _stored(program, r, best)


def _stored(program: Program, r: Reduce, cut: _Cut) -> tuple[Expr, Definition]:
    inner = program.define(cut.inner)
    source, size = inner.source(), float(product_of(cut.inner.axes))
    program.stats[source.data] = Stats(size, size, True)
    body: Expr = Read(source, cut.at)
    if cut.factors:
        by = distributing(r.op, r.body)
        assert by is not None
        body = product([body, *cut.factors], by)
    return Reduce(r.op, cut.left, body), inner


def _window(program: Program, r: Reduce, axis: Axis, extents: dict[str, int]) -> _Cut | None:
    """The reduction over one axis stored; None where that has no fewer values than cells."""
    by = distributing(r.op, r.body)
    factors = factors_of(r.body, by) if by is not None else [r.body]
    inside = [f for f in factors if axis.name in f.free]
    reads = _reads(inside)
    if reads is None or (by is None and len(inside) != len(factors)):
        return None
    rests: dict[Expr, None] = {}  # what is read, but for the axis
    for e in [e for read in reads for e in read.indices]:
        parts = split_affine(e, axis.name)
        if parts is None:
            return None
        rests[parts[1]] = None
    sums = [e for e in rests if len(e.free) > 1]
    summed = [n for e in sums for n in e.free]
    names = list(dict.fromkeys(n for e in rests if e not in sums for n in sorted(e.free)))
    reduced = {a.name for a in r.axes}
    if len(set(summed)) != len(summed) or not set(summed).isdisjoint(names) \
            or any(reduced.isdisjoint(e.free) for e in sums) or not sums:
        return None
    places: dict[Expr, tuple[Axis, int]] = {}
    for e in sums:
        bounds = index_range(e, extents)
        if bounds is None:
            return None
        places[e] = Axis(program.fresh("w"), bounds[1] - bounds[0] + 1), bounds[0]
    axes: dict[Expr, Axis] = {e: place for e, (place, _) in places.items()}
    axes.update({Index(n): Axis(n, extents[n]) for n in names})
    order = sorted(axes, key=lambda e: list(rests).index(e) if e in rests else _first(e, rests))
    body = replace_exprs(product(inside, by) if by is not None else r.body, {
        read: Read(read.tensor, tuple([_at(e, axis.name, places) for e in read.indices]))
        for read in reads})
    return _Cut(Lambda(tuple([axes[e] for e in order]), Reduce(r.op, (axis,), body)),
                tuple([minus(e, places[e][1]) if e in places else e for e in order]),
                tuple([a for a in r.axes if a is not axis]),
                tuple([f for f in factors if f not in inside]))


def _first(e: Expr, rests: dict[Expr, None]) -> int:
    return next(k for k, other in enumerate(rests) if e.free <= other.free)


def _at(e: Expr, name: str, places: dict[Expr, tuple[Axis, int]]) -> Expr:
    """An index in terms of the places that sums have in the stored formula."""
    parts = split_affine(e, name)
    assert parts is not None
    if parts[1] not in places:
        return e
    place, low = places[parts[1]]
    return plus(plus(Index(place.name), low), times(parts[0], Index(name)))


def _reads(factors: list[Expr]) -> list[Read] | None:
    """What factors read; None where they ask for indices otherwise."""
    found: dict[Read, None] = {}
    stack = list(factors)
    while stack:
        e = stack.pop()
        if isinstance(e, Read):
            found[e] = None
        elif isinstance(e, Call):
            stack.extend(reversed(e.args))
        elif not isinstance(e, Const):
            return None
    return list(found)


def _in_blocks(program: Program, r: Reduce, extents: dict[str, int], cells: int
               ) -> tuple[Expr, Definition] | None:
    """A long window as blocks of neighbouring terms, and what these leave over."""
    (axis,) = r.axes
    n = axis.extent
    if n < MIN_LENGTH:
        return None
    middle = isqrt(n)
    shapes = [s for size in range(max(middle // 2, 2), 2 * middle + 1)
              for s in _shapes(n, size, r.op.idempotent)]
    size, apart, count = min(shapes, key=lambda s: s[0] + s[2] + _rest(n, *s))
    q, t = Axis(program.fresh("q"), count), Axis(program.fresh("t"), size)
    blocks = Reduce(r.op, (q, t), substitute(r.body, {
        axis.name: plus(times(apart, Index(q.name)), Index(t.name))}))
    cut = _window(program, blocks, t, {**extents, q.name: count, t.name: size})
    if cut is None or cut.terms(cells) * MIN_GAIN > n:
        return None
    made, inner = _stored(program, blocks, cut)
    left = n - apart * (count - 1) - size
    if left:
        over = Axis(program.fresh("t"), left)
        made = Call(r.op, (made, Reduce(r.op, (over,), substitute(r.body, {
            axis.name: plus(Index(over.name), n - left)}))))
        if made.dtype != r.dtype:
            return None
    return made, inner


def _shapes(n: int, size: int, overlap: bool) -> Iterator[tuple[int, int, int]]:
    """Sizes of blocks, how far apart they begin, and how many there are: side by side, and such
    that overlap and leave nothing over, which not every length has."""
    yield size, size, n // size
    if overlap:
        steps = -(-(n - size) // size)
        if steps and (n - size) % steps == 0:
            yield size, (n - size) // steps, steps + 1


def _rest(n: int, size: int, apart: int, count: int) -> int:
    left = n - apart * (count - 1) - size
    return left + REST if left else 0
