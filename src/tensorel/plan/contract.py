"""Order of contraction: which indices to eliminate when, from which factors, by estimated cost.

A reduction over a product is a set of factors, each with its indices and density. Eliminating an
index joins all factors that mention it; a factor whose indices the join already has may come
along as a mask. Exact search over sets of eliminated indices up to a size, greedy beyond.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tensorel.algebra import ops
from tensorel.costs import Costs
from tensorel.ir.nodes import (
    Axis,
    Call,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    const,
    postorder,
)
from tensorel.kernels.spec import Slot
from tensorel.kernels.support import Formula
from tensorel.plan.decide import Option
from tensorel.plan.definitions import (
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
from tensorel.plan.eliminate import Limits, Node, Search
from tensorel.plan.estimate import Estimator, filled, loops_inside
from tensorel.plan.greedy import cheapest_steps
from tensorel.plan.loops import findable, is_plain
from tensorel.plan.recall import Keys, contraction
from tensorel.plan.sequences import is_listed, sequences
from tensorel.plan.sizes import Factor, Sizes, bits
from tensorel.stats.facts import TensorStats
from tensorel.stats.pilot import Edge
from tensorel.stats.pointset import Relation, everything
from tensorel.stats.reading import as_stats


def order_contractions(program: Program) -> None:
    """Split each reduction over a product into the cheapest sequence of eliminations."""
    done: list[Definition] = []
    for d in program.definitions:
        if isinstance(d.tensor, Lambda) and isinstance(d.tensor.body, Reduce):
            done.extend(_order(program, d, d.tensor, d.tensor.body))
        else:
            done.append(d)
    program.definitions = done


def _order(program: Program, d: Definition, lam: Lambda, body: Reduce) -> list[Definition]:
    times = distributing(body.op, body.body)
    if times is None or any(a.extent == 0 for a in (*body.axes, *lam.axes)):
        return [d]
    exprs = factors_of(body.body, times)
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
    search = Search(sizes, [Node(f) for f in factors], sizes.mask(reduced), limits)
    if program.decisions.listing and is_listed(factors, reduced):
        last = program.decisions.decide("order of contraction", d.name, sequences(search))
    else:
        last = cheapest_steps(search)
    if not any(n.inputs for n in last.inputs):
        return [d]
    program.fire("order-contraction: eliminate indices one after another")
    return _Emitter(program, d, lam, body, times, sizes).run(exprs, last)


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
    exact = exact and dense.count(False) > 1  # one sparse factor meets itself alone
    found = []
    for k, (e, cover, full) in enumerate(zip(exprs, covers, dense)):
        own = {n: sizes.extents[n] for n in sorted(e.free)}
        relation = None if full else estimator.relation(cover.support, own, exact)
        plain = isinstance(e, Read) and full and all(isinstance(i, Index) for i in e.indices)
        order, direct, runs = _stored(e)
        found.append(Factor(1 << k, sizes.mask(e.free), relation, full, plain,
                            tuple([sizes.bit[n] for n in order]), sizes.mask(direct),
                            sizes.mask(runs), None if full else _edge(program, e)))
    return found


def _edge(program: Program, e: Expr) -> Edge | None:
    """A stored matrix read at two indices, all of both, for pilots."""
    if not isinstance(e, Read) or len(e.indices) != 2 or not is_plain(e):
        return None
    stats = program.stats.get(e.tensor.data)  # type: ignore[attr-defined]
    rows = None if stats is None or stats.rows is None else stats.rows()
    if rows is None:
        return None
    a, b = e.indices
    return rows, a.name, b.name  # type: ignore[attr-defined]


def _stored(e: Expr) -> tuple[list[str], list[str], list[str]]:
    """The indices of a read of a stored tensor as its levels nest them; those that are found by
    their place; those whose lists repeat them at every entry."""
    if isinstance(e, Read) and isinstance(e.tensor, Source) and isinstance(e.tensor.data, Slot):
        fmt = e.tensor.data.format
        at = [e.indices[k] for k in fmt.order]
        if all(isinstance(i, Index) for i in at):
            levels = [(i.name, level) for i, level in zip(at, fmt.levels)]  # type: ignore[attr-defined]
            return ([n for n, _ in levels], [n for n, x in levels if findable(x)],
                    [n for n, x in levels if getattr(x, "runs", False)])
    return [], [], []


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
        names = _natural_order(value, frozenset(self.sizes.named(factor.free)))
        own = tuple(Axis(n, self.sizes.extents[n]) for n in names)
        t = self.program.define(Lambda(own, value))
        if self.program.keys is not None and isinstance(t.tensor, Lambda):
            below = [self.exprs[b.bit_length() - 1] for b in bits(factor.parts)]
            self.program.keys.written[t.tensor] = partial(
                contraction, self.body.op, self.times, below, names, self.sizes.extents)
        source = t.source()
        size = search_size(own)
        relation = factor.relation or everything({a.name: a.extent for a in own})
        self.program.stats[source.data] = Stats(
            self.sizes.entries(factor), size, factor.dense, partial(_facts, relation, names))
        self.made.append(t)
        return Read(source, tuple(Index(n) for n in names))


def _place(node: Node) -> int:
    """Steps are written in the order of the first factor below them."""
    return node.factor.parts & -node.factor.parts


def _facts(relation: Relation, names: list[str], exact: bool) -> TensorStats:
    return as_stats(relation, names)


def _natural_order(joined: Expr, free: frozenset[str]) -> list[str]:
    """Indices as they first appear in the factors: rows of the first, columns of the last."""
    seen: dict[str, None] = {}
    for e in postorder(joined):
        if isinstance(e, Read):
            for i in e.indices:
                for n in sorted(i.free):
                    if n in free:
                        seen.setdefault(n)
    return [*seen, *sorted(free - seen.keys())]


def search_size(axes: tuple[Axis, ...]) -> float:
    return float(product_of(axes))


# -- lift_reductions ------------------------------------------------------------------------------


def lift_reductions(program: Program) -> None:
    """Store inner reductions as definitions of their own, unless a sparse operand around them
    asks for few of their values: then they are evaluated where it is stored (SDDMM and all its
    relatives)."""
    done: list[Definition] = []
    work = list(program.definitions)
    while work:
        d = work.pop(0)
        if not isinstance(d.tensor, Lambda):
            done.append(d)
            continue
        lifted = _lift(program, d, d.tensor)
        if len(lifted) == 1:
            done.append(lifted[0])
        else:
            work = [*lifted, *work]
    program.definitions = done


def _lift(program: Program, d: Definition, lam: Lambda) -> list[Definition]:
    body = lam.body
    axes = lam.axes
    core = body
    if isinstance(body, Reduce):
        axes, core = axes + body.axes, body.body
    inner = inner_reductions(core)
    if not inner or (core is body and inner == [core]):
        return [d]
    parted: dict[Expr, Expr] = {r: apart for r in inner if (apart := _apart(r)) is not r}
    if parted:
        lam = Lambda(lam.axes, replace_exprs(body, parted))
        return _lift(program, replace(d, tensor=lam), lam)
    extents = {a.name: a.extent for a in axes}
    table: dict[Expr, Expr] = {}
    definitions: list[Definition] = []
    for e in _narrow_factors(program, body, frozenset(extents)):
        _define(program, e, extents, table, definitions)
    if table:
        return [*definitions, replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))]
    for r in inner:
        if not _stays(program, r, core, axes):
            _define(program, r, extents, table, definitions)
            continue
        within = extents | {a.name: a.extent for a in r.axes}
        repeated = _repeated_parts(r, frozenset(within))
        for e in repeated:
            _define(program, e, within, table, definitions)
        if not repeated:
            program.fire("evaluate-where-stored: f(A, sum(e)) only where A is stored")
    if not table:
        return [d]
    return [*definitions, replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))]


def _apart(r: Reduce) -> Expr:
    """sum(i, j) a[i]*b[j]*c -> c * sum(i) a[i] * sum(j) b[j]: factors without a common index are
    reduced each by itself; ``r`` where all hang together."""
    times = distributing(r.op, r.body)
    if times is None or any(a.extent == 0 for a in r.axes):
        return r
    bound = {a.name for a in r.axes}
    groups: list[tuple[frozenset[str], list[Expr]]] = []
    for e in factors_of(r.body, times):
        names, members = e.free & bound, [e]
        apart = []
        for other in groups:
            if names and other[0] & names:
                names, members = names | other[0], other[1] + members
            else:
                apart.append(other)
        groups = [*apart, (names, members)]
    if len(groups) == 1 or any(a.name not in r.body.free for a in r.axes):
        return r
    return product([
        Reduce(r.op, tuple(a for a in r.axes if a.name in names), product(members, times))
        if names else product(members, times) for names, members in groups], times)


def _define(program: Program, e: Expr, extents: dict[str, int], table: dict[Expr, Expr],
            definitions: list[Definition]) -> None:
    table[e], made = define_part(program, e, extents)
    definitions.append(made)


def define_part(program: Program, e: Expr, extents: dict[str, int]) -> tuple[Read, Definition]:
    """A definition for a part of a formula, and how to read it in its place."""
    names = _natural_order(e, e.free)
    own = tuple(Axis(n, extents[n]) for n in names)
    t = program.define(Lambda(own, e))
    source = t.source()
    program.stats[source.data] = _stats(program, e, own)
    return Read(source, tuple(Index(n) for n in names)), t


def _narrow_factors(program: Program, body: Expr, names: frozenset[str]) -> list[Expr]:
    """Factors with a reduction inside that need fewer indices than the loops around have, and
    are sparse: stored once, with the reduction evaluated where they have entries
    (W.T @ (A / (W @ H)))."""
    if not isinstance(body, Reduce):
        return []
    times = distributing(body.op, body.body)
    analysis = Estimator(program.stats).analysis(program.config.strict)
    return [e for e in (factors_of(body.body, times) if times is not None else [])
            if isinstance(e, Call) and e.free < names and inner_reductions(e)
            and analysis.cover(e).support.kind != "true"]


def _repeated_parts(r: Reduce, names: frozenset[str]) -> list[Expr]:
    """What a reduction within the loops ``names`` would compute again and again: factors that do
    not have all indices, and other reductions."""
    times = distributing(r.op, r.body)
    parts = [e for e in (factors_of(r.body, times) if times is not None else [])
             if isinstance(e, Call) and e.free and e.free < names]
    inside = {q for e in parts for q in inner_reductions(e)}
    return parts + [q for q in inner_reductions(r.body) if q not in inside]


def _stats(program: Program, e: Expr, own: tuple[Axis, ...]) -> Stats:
    estimator = Estimator(program.stats)
    body, repeated = (e.body, product_of(e.axes)) if isinstance(e, Reduce) else (e, 1)
    cover = estimator.analysis(program.config.strict).cover(body)
    size = search_size(own)
    if cover.support.kind == "true" or not own:
        return Stats(size, size, True)
    density = filled(estimator.density(cover.support), float(repeated))
    facts = None if inner_reductions(e) else partial(
        _facts_of_support, estimator, cover.support, {a.name: a.extent for a in own})
    return Stats(size * density, size, density > program.config.costs.dense_vector, facts)


def _facts_of_support(estimator: Estimator, support: Formula, extents: dict[str, int],
                      exact: bool) -> TensorStats:
    return as_stats(estimator.relation(support, extents, exact), list(extents))


def _stays(program: Program, r: Reduce, core: Expr, axes: tuple[Axis, ...]) -> bool:
    """Cheaper inside: it has all indices of the loops around it, and few points ask for it."""
    if r.free != frozenset(a.name for a in axes) or any(
            q.free == r.free | {a.name for a in r.axes} for q in inner_reductions(r.body)):
        return False
    estimator = Estimator(program.stats)
    support = estimator.analysis(program.config.strict).cover(core).support
    if support.kind == "true":
        return False
    stored = _repeated_parts(r, r.free | {a.name for a in r.axes})
    rest = replace_exprs(r.body, {e: const(1, e.dtype) for e in stored})
    for x in postorder(rest):
        if isinstance(x, Read) and isinstance(x.tensor, Source) \
                and not estimator.of(x.tensor).dense:
            return False  # sparse operands inside would be searched for each point
    points = search_size(axes) * estimator.density(support)
    inside = points * product_of(r.axes) * loops_inside(rest)
    whole = search_size(axes) * product_of(r.axes) / program.config.costs.blas_speed \
        + search_size(axes)
    if search_size(axes) * r.dtype.itemsize > program.config.memory // 4:
        return True
    return program.decisions.decide("inner sum", show_axes(r.axes), [
        Option(whole, False, "stored"), Option(inside, True, "evaluated where it is asked for")])


def show_axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(a.name for a in axes)


# -- store_factors --------------------------------------------------------------------------------


def store_factors(program: Program) -> None:
    """A factor with several sparse operands that a loop would visit again and again is computed
    once: sum_k A[i,k] * (B[k,j] + C[k,j]) stores B + C."""
    done: list[Definition] = []
    for d in program.definitions:
        lam = d.tensor
        if not isinstance(lam, Lambda) or not isinstance(lam.body, Reduce):
            done.append(d)
            continue
        body = lam.body
        times = distributing(body.op, body.body)
        exprs = factors_of(body.body, times) if times is not None else []
        table: dict[Expr, Expr] = {}
        extents = {a.name: a.extent for a in (*lam.axes, *body.axes)}
        names = body.body.free
        for e in exprs:
            if isinstance(e, Read) or e.free == names or inner_reductions(e) or not e.free:
                continue
            reads = [x for x in postorder(e) if isinstance(x, Read)]
            if len(reads) < 2:
                continue
            own = tuple(Axis(n, extents[n]) for n in sorted(e.free, key=list(extents).index))
            stats = _stats(program, e, own)
            again = max(search_size(tuple(Axis(n, extents[n]) for n in names - e.free)), 1.0)
            estimator = Estimator(program.stats)
            if not stats.dense and all(estimator.is_dense(f) for f in exprs if f is not e):
                again = 1.0  # loops over the others alone can all be inside
            if not program.decisions.decide("factor", ", ".join(sorted(e.free)), _kept_factor(
                    program.config.costs, stats.count, again)):
                continue
            t = program.define(Lambda(own, e))
            source = t.source()
            program.stats[source.data] = stats
            table[e] = Read(source, tuple(Index(a.name) for a in own))
            done.append(t)
            program.fire("store-factor: compute a repeated factor once")
        if table:
            d = replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))
        done.append(d)
    program.definitions = done


def _kept_factor(costs: Costs, entries: float, again: float) -> list[Option[bool]]:
    """A factor of several operands: merged once and stored, or merged each time."""
    merged = entries * costs.merge_step
    return [Option(costs.call + merged + entries * costs.write_sparse, True, "stored"),
            Option(merged * again, False, "evaluated in the loops")]
