"""Order of contraction: which indices to eliminate when, from which factors, by estimated cost.

A reduction over a product is a set of factors, each with its indices and density. Eliminating an
index joins all factors that mention it; a factor whose indices the join already has may come
along as a mask. Exact search over sets of eliminated indices up to a size, greedy beyond.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import takewhile

from tensorel.algebra import ops
from tensorel.ir.given import plain
from tensorel.ir.nodes import Axis, Expr, Index, Lambda, Read, Reduce, Source
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.contraction.eliminate import Search
from tensorel.plan.contraction.greedy import cheapest_steps
from tensorel.plan.contraction.join_sizes import Factor, Sizes, bits
from tensorel.plan.contraction.sequences import is_listed, sequences
from tensorel.plan.contraction.step_costs import Limits, Node
from tensorel.plan.definitions import (
    Definition,
    Program,
    Stats,
    distributing,
    factors_of,
    inner_reductions,
    product,
)
from tensorel.plan.estimate import Estimator
from tensorel.plan.logical.materialize import natural_order, points_of
from tensorel.plan.loops.operands import findable, is_diagonal, is_plain
from tensorel.plan.size_memory import Keys, contraction
from tensorel.plan.steps.blas import listed_levels
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.join_sampling import Edge
from tensorel.stats.estimates.pointset import Relation, everything
from tensorel.stats.estimates.reads import as_stats
from tensorel.stats.estimates.reduction import in_slices, project


def order_contractions(program: Program) -> None:
    """Split each reduction over a product into the cheapest sequence of eliminations."""
    program.map_formulas(_order)


def _order(program: Program, d: Definition, lam: Lambda) -> list[Definition]:
    body = lam.body
    if not isinstance(body, Reduce):
        return [d]
    times = distributing(body.op, body.body)
    if times is None or any(a.extent == 0 for a in (*body.axes, *lam.axes)):
        return [d]
    exprs = _powers(program, factors_of(body.body, times), times)
    if len(exprs) < 2:
        return [d]
    sizes = Sizes({a.name: a.extent for a in (*lam.axes, *body.axes)}, program.config.costs)
    reduced = frozenset(a.name for a in body.axes)
    if len(exprs) == 2 and all(reduced <= e.free for e in exprs):
        return [d]  # one join, nothing to choose
    factors = _factors(program, exprs, times, sizes, exact=len(reduced) > 1 or len(exprs) > 2)
    if program.keys is not None and program.keys.help:
        sizes.actual = partial(_actual, program.keys, body.op, times, exprs, sizes)
    limits = Limits(program.config.memory // 2, body.dtype.itemsize,
                    body.op is ops.add and body.dtype.kind in "fc")
    search = Search(sizes, [Node(f) for f in factors], sizes.mask(reduced), limits,
                    final=d.name in program.results)
    if program.decisions.listing and is_listed(factors, reduced):
        last = program.decisions.decide("order of contraction", d.name, sequences(search))
    else:
        last = cheapest_steps(search)
    sizes.forget()
    if not any(n.inputs for n in last.inputs):
        return [d]
    program.fire("order-contraction: eliminate indices one after another")
    return _Emitter(program, d, lam, body, times, sizes).run(exprs, last)


def _powers(program: Program, exprs: list[Expr], times: ops.Operator) -> list[Expr]:
    """Equal sparse factors are one: they have the same entries, not such that meet by chance."""
    estimator = Estimator(program.stats)
    found: dict[Expr, list[Expr]] = {}
    for k, e in enumerate(exprs):
        one = isinstance(e, Read) and not estimator.is_dense(e)
        found.setdefault(e if one else Index(f"\0{k}"), []).append(e)
    return [product(equal, times) for equal in found.values()]


def _actual(keys: Keys, op: ops.Operator, times: ops.Operator, exprs: list[Expr], sizes: Sizes,
            parts: int, kept: int) -> float | None:
    """Entries of some factors reduced to some indices, where they were computed before."""
    factors = [exprs[b.bit_length() - 1] for b in bits(parts)]
    return keys.size(contraction(op, times, factors, sizes.named(kept), sizes.extents))


def _factors(program: Program, exprs: list[Expr], times: ops.Operator, sizes: Sizes,
             exact: bool) -> list[Factor]:
    """The factors with the points where each has entries. Outside these a factor is the
    annihilator of the product, or it counts as dense. ``exact``: there are several orders to
    choose from, so statistics are worth their pass."""
    estimator = Estimator(program.stats)
    analysis = estimator.analysis(program.config.strict)
    covers = [analysis.cover(e) for e in exprs]
    dense = [c.support.kind == "true" or c.background is None or any(
        times.decided(k, c.background.value, e.dtype) is None for k in (0, 1))
        for c, e in zip(covers, exprs)]
    # one sparse factor meets itself alone; how much of a diagonal is there has to be looked up
    exact = exact and (dense.count(False) > 1 or any(map(is_diagonal, exprs)))
    found = []
    for k, (e, cover, full) in enumerate(zip(exprs, covers, dense)):
        own = {n: sizes.extents[n] for n in sorted(e.free)}
        inner = {a.name: a.extent for r in inner_reductions(e) for a in r.axes}  # sums within it
        relation = None if full else project(
            estimator.relation(cover.support, own | inner, exact), own)
        sure = [] if relation is None else _sure(program, e)
        for name, share in sure:
            assert relation is not None
            relation = in_slices(relation, name, share)
        plain = isinstance(e, Read) and full and all(isinstance(i, Index) for i in e.indices)
        one = factors_of(e, times)[0]  # a power is stored as its base is
        order, direct, runs, whole = _stored(one)
        edge = None if full else _edge(program, one)
        found.append(Factor(1 << k, sizes.mask(e.free), relation, full, plain,
                            tuple([sizes.bit[n] for n in order]), sizes.mask(direct),
                            sizes.mask(runs), edge, *_axes(e, sizes, edge),
                            tail=sizes.mask(_tail(one, order, relation)),
                            sure=sizes.mask([name for name, _ in sure]),
                            open=0 if full or e.free <= set(whole) else sizes.mask(whole)))
    return found


def _axes(e: Expr, sizes: Sizes, edge: Edge | None) -> tuple[object, tuple[int, ...]]:
    """The tensor of a plain read and its indices, those of a pattern that counts as symmetric
    together."""
    if not isinstance(e, Read) or not is_plain(e):
        return None, ()
    if edge is not None and edge[0].mirrored:
        return e.tensor, (sizes.mask(e.free),)
    return e.tensor, tuple([sizes.bit[i.name] for i in e.indices])  # type: ignore[attr-defined]


def _edge(program: Program, e: Expr) -> Edge | None:
    """A stored matrix read at two indices, all of both, for join sampling."""
    if not isinstance(e, Read) or len(e.indices) != 2 or not is_plain(e):
        return None
    stats = program.stats.get(e.tensor.data)  # type: ignore[attr-defined]
    rows = None if stats is None or stats.rows is None else stats.rows()
    if rows is None:
        return None
    a, b = e.indices
    return rows, a.name, b.name  # type: ignore[attr-defined]


def _stored(e: Expr) -> tuple[list[str], list[str], list[str], list[str]]:
    """The indices of a read of a stored tensor as its levels nest them; those that are found by
    their place; those whose lists repeat them at every entry; the outer ones whose levels hold
    all coordinates."""
    if isinstance(e, Read) and isinstance(e.tensor, Source) and isinstance(e.tensor.data, Slot):
        fmt = e.tensor.data.format
        at = [e.indices[k] for k in fmt.order]
        if all(isinstance(i, Index) for i in at):
            levels = [(i.name, level) for i, level in zip(at, fmt.levels)]  # type: ignore[attr-defined]
            return ([n for n, _ in levels], [n for n, x in levels if findable(x)],
                    [n for n, x in levels if getattr(x, "runs", False)],
                    [n for n, _ in takewhile(lambda level: level[1].full, levels)])
    return [], [], [], []


def _sure(program: Program, e: Expr) -> list[tuple[str, float]]:
    """The index at which a tensor has all that its readers ask for, and the share that it has: it
    was restricted to these."""
    if not isinstance(e, Read) or e.tensor.data not in program.restricted:  # type: ignore[attr-defined]
        return []
    axis, share = program.restricted[e.tensor.data]  # type: ignore[attr-defined]
    at = e.indices[axis]
    return [(at.name, share)] if isinstance(at, Index) else []


def _tail(e: Expr, order: list[str], relation: Relation | None) -> list[str]:
    """The index that a matrix or tensor has in full below each of its positions, if it is one: as
    it is stored, or, of what is not stored yet, by its size."""
    if relation is None:
        return []
    if order:
        fmt = e.tensor.data.format  # type: ignore[attr-defined]
        return order[-1:] if listed_levels(fmt) == len(order) - 1 else []
    if not isinstance(e, Read) or len(e.indices) != 2 or not is_plain(e):
        return []
    rows, columns = [i.name for i in e.indices]  # type: ignore[attr-defined]
    whole = relation.distinct[rows] * plain(relation.extents[columns])
    return [columns] if relation.estimate > 0.999 * whole else []


class _Emitter:
    """Writes steps as definitions."""

    def __init__(self, program: Program, d: Definition, lam: Lambda, body: Reduce,
                 times: ops.Operator, sizes: Sizes) -> None:
        self.program, self.d, self.lam, self.body = program, d, lam, body
        self.times, self.sizes = times, sizes
        self.made: list[Definition] = []
        self.exprs: list[Expr] = []

    def run(self, exprs: list[Expr], last: Node) -> list[Definition]:
        read: dict[Node, Expr] = {}
        self.exprs = exprs
        stack = [(last, False)]
        while stack:  # inputs first, in the order of the factors
            node, ready = stack.pop()
            if not node.inputs:
                read[node] = exprs[node.factor.parts.bit_length() - 1]
            elif ready and node is not last:
                read[node] = self._define(node, self._value(node, read))
            elif ready:
                value = Lambda(self.lam.axes, self._value(node, read))
                self.made.append(replace(self.d, tensor=value))
            else:
                stack.append((node, True))
                stack += [(n, False) for n in sorted(node.inputs, key=_place, reverse=True)]
        return self.made

    def _value(self, node: Node, read: dict[Node, Expr]) -> Expr:
        joined = product([read[n] for n in sorted(node.inputs, key=_place)], self.times)
        extents = self.sizes.extents
        axes = tuple(Axis(n, extents[n]) for n in self.sizes.named(node.indices))
        return Reduce(self.body.op, axes, joined) if axes else joined

    def _define(self, node: Node, value: Expr) -> Read:
        factor = node.factor
        names = natural_order(value, frozenset(self.sizes.named(factor.free)))
        own = tuple(Axis(n, self.sizes.extents[n]) for n in names)
        t = self.program.define(Lambda(own, value))
        if self.program.keys is not None and isinstance(t.tensor, Lambda):
            below = [self.exprs[b.bit_length() - 1] for b in bits(factor.parts)]
            self.program.keys.written[t.tensor] = partial(
                contraction, self.body.op, self.times, below, names, self.sizes.extents)
        source = t.source()
        size = points_of(own)
        relation = factor.relation or everything({a.name: a.extent for a in own})
        self.program.stats[source.data] = Stats(
            self.sizes.entries(factor), size, factor.dense, partial(_facts, relation, names))
        for n in self.sizes.named(factor.sure):
            self.program.restricted[source.data] = (
                names.index(n), min(relation.distinct[n] / plain(self.sizes.extents[n]), 1.0))
        self.made.append(t)
        return Read(source, tuple(Index(n) for n in names))


def _place(node: Node) -> int:
    """Steps are written in the order of the first factor below them."""
    return node.factor.parts & -node.factor.parts


def _facts(relation: Relation, names: list[str], exact: bool) -> TensorStats:
    return as_stats(relation, names)
