"""Other ways to write a program, tried to the end and compared by the cost of their plans.

A sum of products costs what its dearest product costs: (A - U @ V.T)**2 summed is dense as it
stands, and three sparse or narrow sums when expanded. Whether expansion pays depends on what is
sparse, so both ways are planned. Expanded sums may cancel: the plan must be cheaper by
``Costs.expand``.

It cannot be where no sum is asked for at more points than its operands hold entries: to make such
a sum costs about as much as to read them, which every plan does. Then the program is not planned
a second time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tensorel.algebra import ops
from tensorel.ir.nodes import Call, Expr, Lambda, Read, Reduce, Source, postorder
from tensorel.kernels.spec import Slot
from tensorel.plan.definitions import Definition, Program
from tensorel.plan.estimate import Estimator
from tensorel.rewrite.polynomial import canonical

TERMS = 8
_SUMS = frozenset({ops.add, ops.subtract})
_POWERS = frozenset({ops.square, ops.power})


def expanded(program: Program) -> Program | None:
    """The program with products of sums written as sums of products below its reductions; None
    where there are none."""
    changed: list[Definition] = []
    for d in program.definitions:
        if isinstance(d.tensor, Lambda) and d.tensor.dtype.kind in "fc" and _may_pay(
                program, d.tensor):
            body = canonical(d.tensor.body, terms=TERMS)
            if body is not d.tensor.body and body.dtype == d.tensor.dtype:
                fill = d.source().fill
                changed.append(replace(d, tensor=Lambda(d.tensor.axes, body), fill=fill,
                                       whole=d.ref.whole))
                continue
        changed.append(d)
    if all(a is b for a, b in zip(changed, program.definitions)):
        return None
    other = program.copy()
    other.definitions = changed
    other.fire("expand: (a + b)*c -> a*c + b*c")
    return other


def _may_pay(program: Program, lam: Lambda) -> bool:
    """A sum in a product, below a reduction, that costs more than to read its operands."""
    below = [e for e in postorder(lam.body) if isinstance(e, Reduce)]
    extents = dict(lam.axes)
    for e in below:
        for a in e.axes:
            extents[a.name] = max(a.extent, extents.get(a.name, 0))
    estimator = Estimator(program.stats)
    analysis = estimator.analysis(strict=False)
    for e in below:
        if e.op is ops.add:
            sums = list(_sums(e.body))
            points = _room(e.body, extents) * estimator.density(
                analysis.cover(e.body).support) if sums else 0.0
            for s in sums:
                if min(points, _room(s, extents)) > _held(s, estimator) or _is_mixed(s):
                    return True
    return False


def _room(e: Expr, extents: dict[str, int]) -> float:
    return math.prod([float(extents[n]) for n in e.free])


def _held(e: Expr, estimator: Estimator) -> float:
    """The entries of all that is read below."""
    return sum([estimator.of(t).count for t in e.reads if isinstance(t, Source)])


def _is_mixed(e: Expr) -> bool:
    """Sparse operands that are stored along different indices: loops over all of them at once
    have to convert some."""
    orders = {
        tuple([x.indices[k] for k in x.tensor.data.format.order])
        for x in postorder(e) if isinstance(x, Read) and isinstance(x.tensor, Source)
        and isinstance(x.tensor.data, Slot) and not x.tensor.data.format.is_dense
        and len(x.indices) > 1 and x.free <= e.free}
    return len(orders) > 1


def _sums(e: Expr) -> Iterator[Call]:
    """The sums, or powers of sums, of reads that stand in a product."""
    stack = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Reduce):
            stack.append(x.body)
        elif isinstance(x, Call):
            if x.op in _SUMS and sum([bool(a.reads) for a in x.args]) > 1:
                yield x
            elif x.op in _SUMS or x.op is ops.multiply or x.op in _POWERS or x.op is ops.negative:
                stack.extend(x.args)
            elif x.op is ops.divide:
                stack.append(x.args[0])
