"""What is stored for a formula to read: inner sums, and factors that loops would visit again.

An inner sum becomes a definition of its own, unless a sparse operand around it asks for few of its
values: then it is evaluated where that is stored (SDDMM and all its relatives)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tensorel.algebra.ops import Scalar
from tensorel.costs import Costs
from tensorel.ir.given import about
from tensorel.ir.nodes import (
    Axis,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    const,
    postorder,
    reads_in,
)
from tensorel.kernels.lowering.support import Formula, reads_of
from tensorel.plan.decisions import Option
from tensorel.plan.definitions import (
    Definition,
    Program,
    Stats,
    distributing,
    factors_of,
    inner_reductions,
    product,
    replace_exprs,
)
from tensorel.plan.estimate import Estimator, filled, loops_inside
from tensorel.plan.logical.share import Shared
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.reads import as_stats

MAX_SCALE = 2.0**100  # of a factor, or of its inverse, that is taken out of a sum


def natural_order(joined: Expr, free: frozenset[str]) -> list[str]:
    """Indices as they first appear in the factors: rows of the first, columns of the last."""
    seen: dict[str, None] = {}
    for e in postorder(joined):
        if isinstance(e, Read):
            for i in e.indices:
                for n in sorted(i.free):
                    if n in free:
                        seen.setdefault(n)
    return [*seen, *sorted(free - seen.keys())]


def points_of(axes: tuple[Axis, ...]) -> float:
    """The number of all points over some axes, for costs."""
    return about([a.extent for a in axes])


def lift_reductions(program: Program) -> None:
    """Make inner reductions definitions of their own, unless few of their values are needed."""
    done: list[Definition] = []
    work = list(program.definitions)
    shared = Shared(program)
    whole: set[str] = set()  # what was lifted from: no longer the formula that equal ones have
    while work:
        d = shared.reading(work.pop(0))
        if not isinstance(d.tensor, Lambda):
            done.append(d)
            continue
        if d.name not in whole and shared.is_known(d):
            continue
        whole.add(d.name)
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
    written = program.config.strict or not program.config.optimize  # sums stay as they are
    parted: dict[Expr, Expr] = {} if written else {
        r: apart for r in inner if (apart := _apart(r)) is not r}
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
        if isinstance(e, Const) and e.dtype.kind in "fc" and not _is_moderate(e.value):
            return r  # inf * (0 + 1) is no nan, and sums that are scaled down may not overflow
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


def _is_moderate(scale: Scalar) -> bool:
    return bool((np.abs(scale) <= MAX_SCALE) and (np.abs(scale) * MAX_SCALE >= 1))


def _define(program: Program, e: Expr, extents: dict[str, int], table: dict[Expr, Expr],
            definitions: list[Definition]) -> None:
    table[e], made = define_part(program, e, extents)
    definitions.append(made)


def define_part(program: Program, e: Expr, extents: dict[str, int]) -> tuple[Read, Definition]:
    """A definition for a part of a formula, and how to read it in its place."""
    names = natural_order(e, e.free)
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
    body = e.body if isinstance(e, Reduce) else e
    cover = estimator.analysis(program.config.strict).cover(body)
    size = points_of(own)
    if cover.support.kind == "true" or not own:
        return Stats(size, size, True)
    asked = {n for r in reads_of(cover.support) for n in r.free}
    summed = {a.name: a.extent for x in postorder(e) if isinstance(x, Reduce) for a in x.axes}
    repeated = points_of(tuple(Axis(n, m) for n, m in summed.items() if n in asked))
    density = filled(estimator.density(cover.support), repeated)
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
    if not estimator.is_dense(rest):
        return False  # sparse operands inside would be searched for each point
    points = points_of(axes) * estimator.density(support)
    inside = points * points_of(r.axes) * loops_inside(rest)
    whole = points_of(axes) * points_of(r.axes) / program.config.costs.blas_speed \
        + points_of(axes)
    if points_of(axes) * r.dtype.itemsize > program.config.memory // 4:
        return True
    return program.decisions.decide("inner sum", show_axes(r.axes), [
        Option(whole, False, "stored"), Option(inside, True, "evaluated where it is asked for")])


def show_axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(a.name for a in axes)


# -- store_factors --------------------------------------------------------------------------------


def store_factors(program: Program) -> None:
    """A factor with several sparse operands that a loop would visit again and again is computed
    once: sum_k A[i,k] * (B[k,j] + C[k,j]) stores B + C."""
    program.map_formulas(_store_factors)


def _store_factors(program: Program, d: Definition, lam: Lambda) -> list[Definition]:
    body = lam.body
    if not isinstance(body, Reduce):
        return [d]
    done: list[Definition] = []
    times = distributing(body.op, body.body)
    exprs = factors_of(body.body, times) if times is not None else []
    table: dict[Expr, Expr] = {}
    extents = {a.name: a.extent for a in (*lam.axes, *body.axes)}
    names = body.body.free
    for e in exprs:
        if isinstance(e, Read) or e.free == names or inner_reductions(e) or not e.free:
            continue
        if len(reads_in(e)) < 2:
            continue
        own = tuple(Axis(n, extents[n]) for n in sorted(e.free, key=list(extents).index))
        stats = _stats(program, e, own)
        again = max(points_of(tuple(Axis(n, extents[n]) for n in names - e.free)), 1.0)
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
    return [*done, d]


def _kept_factor(costs: Costs, entries: float, again: float) -> list[Option[bool]]:
    """A factor of several operands: merged once and stored, or merged each time."""
    merged = entries * costs.merge_step
    return [Option(costs.call + merged + entries * costs.write_sparse, True, "stored"),
            Option(merged * again, False, "evaluated in the loops")]
