"""Windows of few places over sparse tensors, written out: sum(r in 3) x[i + r] as
x[i] + x[i + 1] + x[i + 2].

The sum visits the entries once for each place of the window, and collects cells in an order that
has to be sorted. Written out, the places are lists that are merged, and the cells come in order.
A variant beside the program as written: merges of many lists take long to make and to run."""

from __future__ import annotations

import itertools
from functools import reduce

from tensorel.algebra import ops
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, Expr, Lambda, Reduce, const, reads_in
from tensorel.ir.replacing import substitute
from tensorel.kernels.lowering.support import rounds
from tensorel.plan.definitions import Program, inner_reductions, product_of, replace_exprs
from tensorel.plan.estimate import Estimator
from tensorel.plan.logical.normalize import simplify

MAX_PLACES = 5


def written_windows(program: Program) -> Program | None:
    """The program with small windows of sparse tensors written out; None where there are none."""
    estimator, strict = Estimator(program.stats), program.config.strict

    def write(lam: Lambda) -> Expr:
        table: dict[Expr, Expr] = {r: _written(r, strict) for r in inner_reductions(lam.body)
                                   if _is_small(r) and not estimator.is_dense(r)}
        return replace_exprs(lam.body, table) if table else lam.body

    other = program.rewritten(write, "write-windows: sum(r in 2) x[i + r] -> x[i] + x[i + 1]")
    if other is not None:
        simplify(other)  # places are numbers now
    return other


def _is_small(r: Reduce) -> bool:
    """All reduced indices are places of windows."""
    names = {a.name for a in r.axes}
    moved = {n for read in reads_in(r.body) for e in read.indices if len(e.free) > 1
             for n in e.free}
    return 1 < product_of(r.axes) <= MAX_PLACES and names <= moved \
        and not inner_reductions(r.body)


def _written(r: Reduce, strict: bool) -> Expr:
    """The terms one after another. A strict sum starts with +0.0, so it is never -0.0."""
    places = itertools.product(*[range(a.extent) for a in r.axes])
    terms = [substitute(r.body, {a.name: const(k, INT64) for a, k in zip(r.axes, at)})
             for at in places]
    if strict and r.op is ops.add and rounds(r.op, r.dtype):
        terms.insert(0, const(0, r.dtype))
    return reduce(lambda a, b: convert(Call(r.op, (a, b)), r.dtype), terms)
