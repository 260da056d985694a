"""Order of contraction: which indices to eliminate when, from which factors, by estimated cost.

A reduction over a product is a set of factors, each with its indices and density. Eliminating an
index joins all factors that mention it; a factor whose indices the join already has may come
along as a mask. Exact search over sets of eliminated indices up to a size, greedy beyond.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Expr, Index, Lambda, Read, Reduce, Source, postorder
from tensorel.kernels.spec import Slot
from tensorel.plan.decide import Option
from tensorel.plan.definitions import (
    Definition,
    Program,
    Stats,
    factors_of,
    inner_reductions,
    product,
    product_of,
    replace_exprs,
)
from tensorel.plan.estimate import Estimator, filled, loops_inside
from tensorel.plan.sequences import is_listed, sequences
from tensorel.plan.sizes import Factor, Group, Sizes
from tensorel.records import dataclass
from tensorel.stats.facts import TensorStats
from tensorel.stats.pointset import Relation, everything
from tensorel.stats.reading import as_stats

EXACT_INDICES, EXACT_FACTORS = 6, 7


@dataclass(frozen=True, slots=True)
class Elimination:
    """One step: join ``factors`` and reduce over ``indices``."""

    factors: tuple[Factor, ...]
    indices: frozenset[str]
    result: Factor
    cost: float


@dataclass
class Search:
    """Finds the cheapest sequence of eliminations."""

    sizes: Sizes
    memory: int
    item: int
    may_use_blas: bool

    def __post_init__(self) -> None:
        self.memo: dict[tuple[Group, frozenset[str]], tuple[float, tuple[Elimination, ...]]] = {}
        self.steps: dict[tuple[Group, frozenset[str]], Elimination] = {}

    def step(self, group: Group, indices: frozenset[str]) -> Elimination:
        """Join the factors of a group and reduce over some indices."""
        found = self.steps.get((group, indices))
        if found is None:
            found = self.steps[group, indices] = self._step(group, indices)
        return found

    def _step(self, group: Group, indices: frozenset[str]) -> Elimination:
        sizes, costs = self.sizes, self.sizes.costs
        names = frozenset().union(*(f.free for f in group))
        kept = names - indices
        room = sizes.room(kept)
        dense = all(f.dense for f in group)
        blas = dense and len(group) == 2 and all(f.plain for f in group) and self.may_use_blas
        work = sizes.room(names) / costs.blas_speed if blas and indices else sizes.cost(group)
        relation = everything({n: sizes.extents[n] for n in sorted(kept)}) if dense \
            else sizes.result(group, kept)
        full = dense or relation.estimate > costs.dense_vector * room
        cells = room if full else relation.estimate
        write = cells * (costs.write_dense if full else costs.write_sparse)
        if cells * self.item > self.memory:
            write = math.inf
        parts = frozenset().union(*(f.parts for f in group))
        ordered = tuple(sorted(group, key=lambda f: sorted(f.parts)))
        return Elimination(ordered, indices, Factor(parts, kept, relation, full, full),
                           work + write + costs.call + sizes.scattered(group, kept))

    def options(self, factors: Group, left: frozenset[str]) -> list[Elimination]:
        found: dict[tuple[Group, frozenset[str]], Elimination] = {}

        def offer(group: Group, indices: frozenset[str]) -> None:
            if (group, indices) not in found:
                found[group, indices] = self.step(group, indices)

        offer(factors, left)
        for name in sorted(left):
            group = frozenset(f for f in factors if name in f.free)
            if not group:
                continue
            names = frozenset().union(*(f.free for f in group))
            masks = frozenset(f for f in factors - group if f.free <= names and not f.dense)
            together = frozenset(
                n for n in left if all(n not in f.free for f in factors - group) and n in names
            )
            for chosen in (group, group | masks):
                offer(chosen, frozenset((name,)))
                offer(chosen, together)
        return list(found.values())

    def best(self, factors: Group, left: frozenset[str]
             ) -> tuple[float, tuple[Elimination, ...]]:
        if not left:
            if len(factors) <= 1:
                return 0.0, ()
            last = self.step(factors, frozenset())
            return last.cost, (last,)
        key = (factors, left)
        known = self.memo.get(key)
        if known is not None:
            return known
        found: tuple[float, tuple[Elimination, ...]] = (math.inf, ())
        for option in sorted(self.options(factors, left), key=lambda o: o.cost):
            if option.cost >= found[0] and found[1]:
                continue
            rest = (factors - set(option.factors)) | {option.result}
            cost, steps = self.best(rest, left - option.indices)
            if option.cost + cost < found[0] or not found[1]:
                found = option.cost + cost, (option, *steps)
        self.memo[key] = found
        return found

    def greedy(self, factors: Group, left: frozenset[str]
               ) -> tuple[float, tuple[Elimination, ...]]:
        """The step each time that leaves least: its cost less what it takes away."""
        steps: list[Elimination] = []
        total = 0.0
        while left or len(factors) > 1:
            if not left:
                pair = sorted(factors, key=lambda f: (f.relation.estimate, sorted(f.parts)))[:2]
                choice = self.step(frozenset(pair), frozenset())
            else:
                groups = [(n, frozenset(f for f in factors if n in f.free)) for n in sorted(left)]
                options = [self.step(g, frozenset((n,))) for n, g in groups if g] or [
                    self.step(factors, left)]  # the rest is in no factor: it repeats
                choice = min(options, key=lambda o: (
                    o.cost - sum(f.relation.estimate for f in o.factors), sorted(o.indices)))
            steps.append(choice)
            total += choice.cost
            factors = (factors - set(choice.factors)) | {choice.result}
            left = left - choice.indices
        return total, tuple(steps)


def order_contractions(program: Program) -> None:
    """Split each reduction over a product into the cheapest sequence of eliminations."""
    done: list[Definition] = []
    for d in program.definitions:
        if isinstance(d.tensor, Lambda) and isinstance(d.tensor.body, Reduce):
            done.extend(_order(program, d, d.tensor, d.tensor.body))
        else:
            done.append(d)
    program.definitions = done


def distributing(op: ops.Operator, body: Expr) -> ops.Operator | None:
    """The operator of the body's root if it distributes over the monoid ``op``."""
    if isinstance(body, Call) and body.op.distributes(op, body.dtype) and body.op.associative \
            and body.op.commutative and all(a.dtype == body.dtype for a in body.args):
        return body.op
    return None


def _order(program: Program, d: Definition, lam: Lambda, body: Reduce) -> list[Definition]:
    times = distributing(body.op, body.body)
    if times is None or any(a.extent == 0 for a in (*body.axes, *lam.axes)):
        return [d]
    exprs = factors_of(body.body, times)
    if len(exprs) < 2:
        return [d]
    extents = {a.name: a.extent for a in (*lam.axes, *body.axes)}
    reduced = frozenset(a.name for a in body.axes)
    if len(exprs) == 2 and all(reduced <= e.free for e in exprs):
        return [d]  # one join, nothing to choose
    factors = _factors(program, exprs, times, extents, exact=len(reduced) > 1 or len(exprs) > 2)
    blas = body.op is ops.add and body.dtype.kind in "fc"
    search = Search(Sizes(extents, program.config.costs), program.config.memory // 2,
                    body.dtype.itemsize, blas)
    small = len(reduced) <= EXACT_INDICES and len(factors) <= EXACT_FACTORS
    if program.decisions.listing and is_listed(factors, reduced):
        steps = program.decisions.decide(
            "order of contraction", d.name, sequences(search, frozenset(factors), reduced))
    else:
        _, steps = (search.best if small else search.greedy)(frozenset(factors), reduced)
    if len(steps) <= 1:
        return [d]
    program.fire("order-contraction: eliminate indices one after another")
    return _emit(program, d, lam, body, times, exprs, steps, extents)


def _factors(program: Program, exprs: list[Expr], times: ops.Operator, extents: dict[str, int],
             exact: bool) -> list[Factor]:
    """The factors with the points where each has entries. Outside these a factor is the
    annihilator of the product, or it counts as dense. ``exact``: there are several orders to
    choose from, so statistics are worth their pass."""
    estimator = Estimator(program.stats)
    analysis = estimator.analysis(program.config.strict)
    covers = [analysis.cover(e) for e in exprs]
    dense = [c.support.kind == "true" or c.background is None or any(
        z is None or z != c.background.value for z in times.annihilators or (None,))
        for c in covers]
    exact = exact and dense.count(False) > 1  # one sparse factor meets itself alone
    found = []
    for k, (e, cover, full) in enumerate(zip(exprs, covers, dense)):
        own = {n: extents[n] for n in sorted(e.free)}
        relation = everything(own) if full else estimator.relation(cover.support, own, exact)
        plain = isinstance(e, Read) and full and all(isinstance(i, Index) for i in e.indices)
        found.append(Factor(frozenset((k,)), e.free, relation, full, plain,
                            () if full else _stored_order(e)))
    return found


def _stored_order(e: Expr) -> tuple[str, ...]:
    """The indices of a read of a stored tensor as its levels nest them."""
    if isinstance(e, Read) and isinstance(e.tensor, Source) and isinstance(e.tensor.data, Slot):
        at = [e.indices[k] for k in e.tensor.data.format.order]
        if all(isinstance(i, Index) for i in at):
            return tuple(i.name for i in at)  # type: ignore[attr-defined]
    return ()


def _emit(program: Program, d: Definition, lam: Lambda, body: Reduce, times: ops.Operator,
          exprs: list[Expr], steps: tuple[Elimination, ...], extents: dict[str, int]
          ) -> list[Definition]:
    made: dict[frozenset[int], Expr] = {frozenset((k,)): e for k, e in enumerate(exprs)}
    definitions: list[Definition] = []
    for number, s in enumerate(steps):
        joined = product([made[f.parts] for f in s.factors], times)
        axes = tuple(Axis(n, extents[n]) for n in sorted(s.indices))
        value: Expr = Reduce(body.op, axes, joined) if axes else joined
        if number == len(steps) - 1:
            definitions.append(replace(d, tensor=Lambda(lam.axes, value)))
            break
        names = _natural_order(joined, s.result.free)
        own = tuple(Axis(n, extents[n]) for n in names)
        t = program.define(Lambda(own, value))
        source = t.source()
        size = search_size(own)
        relation = s.result.relation
        count = size if s.result.dense else relation.estimate
        program.stats[source.data] = Stats(
            count, size, s.result.dense, partial(_facts, relation, names))
        definitions.append(t)
        made[s.result.parts] = Read(source, tuple(Index(n) for n in names))
    return definitions


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
    extents = {a.name: a.extent for a in axes}
    table: dict[Expr, Expr] = {}
    definitions: list[Definition] = []
    for e in _narrow_factors(program, body, frozenset(extents)):
        _define(program, e, extents, table, definitions)
    if table:
        return [*definitions, replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))]
    for r in inner:
        if _stays(program, r, core, axes):
            program.fire("evaluate-where-stored: f(A, sum(e)) only where A is stored")
            continue
        _define(program, r, extents, table, definitions)
    if not table:
        return [d]
    return [*definitions, replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))]


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


def _stats(program: Program, e: Expr, own: tuple[Axis, ...]) -> Stats:
    estimator = Estimator(program.stats)
    body, repeated = (e.body, product_of(e.axes)) if isinstance(e, Reduce) else (e, 1)
    cover = estimator.analysis(program.config.strict).cover(body)
    size = search_size(own)
    if cover.support.kind == "true" or not own:
        return Stats(size, size, True)
    density = filled(estimator.density(cover.support), float(repeated))
    return Stats(size * density, size, density > program.config.costs.dense_vector)


def _stays(program: Program, r: Reduce, core: Expr, axes: tuple[Axis, ...]) -> bool:
    """Cheaper inside: it has all indices of the loops around it, and few points ask for it."""
    if r.free != frozenset(a.name for a in axes) or inner_reductions(r.body):
        return False
    estimator = Estimator(program.stats)
    support = estimator.analysis(program.config.strict).cover(core).support
    if support.kind == "true":
        return False
    for x in postorder(r.body):
        if isinstance(x, Read) and isinstance(x.tensor, Source) \
                and not estimator.of(x.tensor).dense:
            return False  # sparse operands inside would be searched for each point
    points = search_size(axes) * estimator.density(support)
    inside = points * product_of(r.axes) * loops_inside(r.body)
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
            again = max(search_size(tuple(Axis(n, extents[n]) for n in names - e.free)), 1.0)
            if not program.decisions.decide("factor", ", ".join(sorted(e.free)), [
                    Option(1.0, True, "stored"), Option(again, False, "evaluated in the loops")]):
                continue
            own = tuple(Axis(n, extents[n]) for n in sorted(e.free, key=list(extents).index))
            t = program.define(Lambda(own, e))
            source = t.source()
            estimator = Estimator(program.stats)
            cover = estimator.analysis(program.config.strict).cover(e)
            size = search_size(own)
            dense = cover.support.kind == "true"
            density = 1.0 if dense else estimator.density(cover.support)
            program.stats[source.data] = Stats(
                size * density, size, dense or density > program.config.costs.dense_vector)
            table[e] = Read(source, tuple(Index(a.name) for a in own))
            done.append(t)
            program.fire("store-factor: compute a repeated factor once")
        if table:
            d = replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))
        done.append(d)
    program.definitions = done
