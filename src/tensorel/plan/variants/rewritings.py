"""Other ways to write a program, tried to the end and compared by the cost of their plans.

A sum of products costs what its dearest product costs: (A - U @ V.T)**2 summed is dense as it
stands, and three sparse or narrow sums when expanded. Whether expansion pays depends on what is
sparse, so both ways are planned. Expanded sums may cancel: the plan must be cheaper by
``Costs.expand``.

A second program is not planned where that cannot be:
- the sum is a small part of the work: all of it is needed, and its operands, dense but for those
  of inner reductions, hold four times as many entries as it has (gradients over a star join);
- a sparse factor over all indices of the loops says where the sum is asked for, and it is
  evaluated there: beside sparse operands in the same order and reductions over dense ones
  (weighted losses). Every term of the expanded sum would visit the same points."""

from __future__ import annotations

from collections.abc import Iterator

from tensorel.algebra import ops
from tensorel.ir.given import about
from tensorel.ir.nodes import Call, Expr, Lambda, Read, Reduce, Source, postorder
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.definitions import Program, factors_of, inner_reductions
from tensorel.plan.estimate import Estimator, filled
from tensorel.plan.logical.normalize import is_infinite
from tensorel.plan.loops.hoisted_joins import outer_reads
from tensorel.rewrite.polynomial import canonical

MAX_TERMS = 8
MIN_READ_RATIO = 4.0
_SUMS = frozenset({ops.add, ops.subtract})
_POWERS = frozenset({ops.square, ops.power})


def expanded(program: Program) -> Program | None:
    """The program with products of sums written as sums of products below its reductions; None
    where there are none."""

    def write(lam: Lambda) -> Expr:
        if lam.dtype.kind not in "fc" or not may_pay(program, lam) or any(
                map(is_infinite, postorder(lam.body))):
            return lam.body
        body = canonical(lam.body, terms=MAX_TERMS)
        return body if body.dtype == lam.dtype else lam.body

    return program.rewritten(write, "expand: (a + b)*c -> a*c + b*c")


def may_pay(program: Program, lam: Lambda) -> bool:
    """A sum in a product below a reduction may cost more than its terms do, one by one."""
    below = [e for e in postorder(lam.body) if isinstance(e, Reduce)]
    extents = dict(lam.axes)
    for e in below:
        for a in e.axes:
            extents[a.name] = max(a.extent, extents.get(a.name, 0))
    estimator = Estimator(program.stats)
    return any(not _is_small(s, e.body, estimator, extents) and not _is_asked(s, e.body, estimator)
               for e in below if e.op is ops.add for s in _sums(e.body))


def _room(e: Expr, extents: dict[str, int]) -> float:
    return about([extents[n] for n in e.free])


def _is_small(s: Call, body: Expr, estimator: Estimator, extents: dict[str, int]) -> bool:
    """To make the sum takes little beside the reading of its operands."""
    room = _room(s, extents)
    if any(_is_sparse(r, estimator) for r in outer_reads(s)) or MIN_READ_RATIO * room > sum(
            [estimator.of(t).count for t in s.reads if isinstance(t, Source)]):
        return False
    asked = _room(body, extents)
    analysis = estimator.analysis(strict=False)
    for f in factors_of(body, ops.multiply):
        share = estimator.density(analysis.cover(f).support)
        for r in inner_reductions(f):
            share = filled(share, about([a.extent for a in r.axes]))
        asked *= share
    return asked >= room / 2


def _is_asked(s: Call, body: Expr, estimator: Estimator) -> bool:
    """A sparse factor beside the sum leads its loops."""
    factors = factors_of(body, ops.multiply)
    leaders = {_stored_along(f) for f in factors if isinstance(f, Read)
               and f.free == body.free and _is_sparse(f, estimator)}
    beside = {_stored_along(r) for r in outer_reads(s) if _is_sparse(r, estimator)}
    return len(leaders) == 1 and None not in leaders and beside <= leaders \
        and s.free == body.free and all(
            r.free == s.free and not inner_reductions(r.body) and estimator.is_dense(r.body)
            for r in inner_reductions(s))


def _is_sparse(r: Read, estimator: Estimator) -> bool:
    return isinstance(r.tensor, Source) and not estimator.of(r.tensor).dense


def _stored_along(r: Read) -> tuple[Expr, ...] | None:
    """The indices of a read as its storage nests them, if that is known."""
    slot = r.tensor.data if isinstance(r.tensor, Source) else None
    return tuple([r.indices[k] for k in slot.format.order]) if isinstance(slot, Slot) else None


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
