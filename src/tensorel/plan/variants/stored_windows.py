"""Windows stored once each, so that products with banks of filters are products of matrices.

``sum(r, s, c) x[n, h + r, w + s, c] * k[r, s, c, o]`` has the entries of x at sums of indices,
which BLAS does not take. With all windows stored, ``t[n, h, w, r, s, c]``, it is the product of a
matrix of windows with one of filters. That copies each entry once for each place of the window, and
pays where there are many filters."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Index, Lambda, Read, Reduce, Source
from tensorel.plan.definitions import Definition, Program, Stats, factors_of, product_of
from tensorel.plan.estimate import Estimator

MIN_FILTERS, MIN_TERMS = 4, 8  # that a copy of the windows may pay for


def stored_windows(program: Program) -> Program | None:
    """The program with windows stored that are multiplied by banks; None where there are none."""
    other = program.copy()
    other.definitions = [x for d in program.definitions for x in _stored(other, d)]
    made = len(other.definitions) - len(program.definitions)
    if not made:
        return None
    other.fire("store-windows: products of windows as products of matrices", made)
    return other


def _stored(program: Program, d: Definition) -> list[Definition]:
    lam = d.tensor
    if not isinstance(lam, Lambda) or not isinstance(lam.body, Reduce) \
            or lam.body.op is not ops.add or lam.dtype.kind not in "fc" or 0 in lam.shape \
            or not Estimator(program.stats).is_dense(lam.body):
        return [d]
    pair = factors_of(lam.body.body, ops.multiply)
    if len(pair) != 2:
        return [d]
    for x, k in (pair, pair[::-1]):
        if isinstance(x, Read) and isinstance(k, Read) and _is_bank(lam, lam.body, x, k):
            own = _windows(lam, lam.body, x, k)
            made = program.define(own)
            size = float(product_of(own.axes))
            program.stats[made.ref] = Stats(size, size, True)
            read = Read(made.source(), tuple([Index(a.name) for a in own.axes]))
            body = Reduce(lam.body.op, lam.body.axes, Call(ops.multiply, (read, k)))
            return [made, d.rewritten(Lambda(lam.axes, body))]
    return [d]


def _is_bank(lam: Lambda, r: Reduce, x: Read, k: Read) -> bool:
    """Windows of ``x`` that share all reduced indices with several filters."""
    extents = {a.name: a.extent for a in lam.axes}
    reduced = {a.name for a in r.axes}
    filters = product_of(tuple([Axis(n, extents[n]) for n in sorted(k.free - reduced - x.free)]))
    return isinstance(x.tensor, Source) and all(isinstance(e, Index) for e in k.indices) \
        and any(len(e.free) > 1 for e in x.indices) and reduced <= x.free & k.free \
        and filters >= MIN_FILTERS and product_of(r.axes) >= MIN_TERMS


def _windows(lam: Lambda, r: Reduce, x: Read, k: Read) -> Lambda:
    """All windows: cells in the order of the result, terms in that of the filters."""
    order = [e.name for e in k.indices if isinstance(e, Index)]
    axes = (*[a for a in lam.axes if a.name in x.free],
            *sorted(r.axes, key=lambda a: order.index(a.name)))
    return Lambda(axes, x)
