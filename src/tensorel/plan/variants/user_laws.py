"""Users' laws by cost: equality saturation of the formulas, and the cheapest form of each.

The planner's own passes reach what our laws of exploration reach (docs/rules.md), without search.
A law that a user adds to the family ``explore`` is known to none of them, so with such laws the
formulas are saturated under all laws together and the cheapest form, by points visited, is planned
beside the form as written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tensorel import rules
from tensorel.algebra.ops import Operator
from tensorel.ir.given import about
from tensorel.ir.nodes import Call, Const, Lambda, Read, Reduce, Source, const, postorder
from tensorel.kernels.lowering.support import evaluate_constant
from tensorel.plan.definitions import Definition, Program
from tensorel.plan.estimate import Estimator, filled
from tensorel.rewrite.egraph import Analysis, EGraph, Term
from tensorel.rewrite.engine import EXPLORE, SIMPLIFY
from tensorel.rewrite.extract import extract_shared
from tensorel.rewrite.names import rename_bound
from tensorel.rewrite.polynomial import canonical
from tensorel.rewrite.saturate import Limits, saturate

LEAF_COST = 1e-3
MAX_NODES = 400


class Share(NamedTuple):
    """The share of points at which a value may differ from zero; all of them if it is not zero
    elsewhere."""

    density: float
    zero: bool


EVERYWHERE = Share(1.0, False)


def explored(program: Program) -> Program | None:
    """The program with each formula in its cheapest form under all laws; None where no user has
    added a law to explore, or nothing becomes cheaper."""
    if not rules.added(EXPLORE):
        return None
    other = program.copy()
    other.definitions = [_best(other, d) for d in program.definitions]
    same = all(a is b for a, b in zip(other.definitions, program.definitions))
    return None if same else other


def _best(program: Program, d: Definition) -> Definition:
    lam = d.tensor
    if not isinstance(lam, Lambda) or not isinstance(lam.body, (Call, Reduce)):
        return d
    graph = EGraph(analyses={"share": Analysis(_Shares(program).of, min)})
    start, seed = rename_bound(lam.body), rename_bound(canonical(lam.body), "c")
    root = graph.union(graph.add(start), graph.add(seed))
    extents = {a.name: a.extent for a in lam.axes}
    for e in postorder(start, seed):
        if isinstance(e, Reduce):
            extents |= {a.name: a.extent for a in e.axes}
    report = saturate(graph, rules.active(SIMPLIFY, EXPLORE), limits=Limits(nodes=MAX_NODES))
    found, _ = extract_shared(graph, graph.find(root), _points(graph, extents))
    if found is start or found.dtype != lam.dtype or found.free != lam.body.free:
        return d
    for name, times in report.fired.items():
        program.fire(name, times)
    return d.rewritten(Lambda(lam.axes, found))


class _Shares:
    """Densities of classes, folded from the statistics of what is read."""

    def __init__(self, program: Program) -> None:
        self.estimator = Estimator(program.stats)

    def of(self, t: Term, kids: list[Share]) -> Share:
        if isinstance(t.leaf, Const):
            return Share(1.0, bool(t.leaf.value == 0))
        if isinstance(t.leaf, Read) and isinstance(t.leaf.tensor, Source):
            stats = self.estimator.of(t.leaf.tensor)
            zero = not stats.dense and bool(t.leaf.tensor.fill.value == 0)
            return Share(stats.density, True) if zero else EVERYWHERE
        if t.op is None:
            return EVERYWHERE
        if t.axes:
            (body,) = kids
            count = about([a.extent for a in t.axes])
            return Share(filled(body.density, count), True) if body.zero else EVERYWHERE
        return _applied(t.op, t, kids)


def _applied(op: Operator, t: Term, kids: list[Share]) -> Share:
    deciding = [k for k, z in zip(kids, op.annihilators) if k.zero and z is not None and z == 0]
    if deciding:
        return Share(math.prod(k.density for k in deciding), True)
    if kids and all(k.zero for k in kids):
        at_zero = evaluate_constant(op, (const(0, t.dtype),) * len(kids))
        if at_zero is not None and bool(at_zero.value == 0):
            return Share(1.0 - math.prod(1.0 - k.density for k in kids), True)
    return EVERYWHERE


def _points(graph: EGraph, extents: dict[str, int]) -> Callable[[Term], float]:
    """How often the operator of a node runs: the points of its indices where it has to."""

    def own(t: Term) -> float:
        if t.op is None:
            return LEAF_COST
        points = about([extents.get(n, 1) for n in t.free])
        points *= about([a.extent for a in t.axes])
        kids: list[Share] = [graph[k].values["share"] for k in t.kids]
        share = kids[0] if t.axes else _applied(t.op, t, kids)
        return points * share.density

    return own
