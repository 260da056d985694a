"""Order of contraction: which indices to eliminate when, from which factors, by estimated cost.

A reduction over a product is a set of factors, each with its indices and density. Eliminating an
index joins all factors that mention it; a factor whose indices the join already has may come
along as a mask. Exact search over sets of eliminated indices up to a size, greedy beyond.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Expr, Index, Lambda, Read, Reduce, Source, postorder
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
from tensorel.records import dataclass

BLAS_SPEED = 16.0  # multiply-adds of a dense product per step of a general loop
WRITE_DENSE, WRITE_SPARSE = 1.0, 6.0
EXACT_INDICES, EXACT_FACTORS = 6, 7


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of the product: given, or made by eliminating from others."""

    parts: frozenset[int]
    free: frozenset[str]
    density: float
    dense: bool
    plain: bool  # a read of a whole dense tensor: BLAS can take it


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

    extents: dict[str, int]
    output: frozenset[str]
    memory: int
    item: int
    may_use_blas: bool

    def __post_init__(self) -> None:
        self.memo: dict[tuple[frozenset[Factor], frozenset[str]],
                        tuple[float, tuple[Elimination, ...]]] = {}

    def size(self, names: frozenset[str]) -> float:
        return math.prod(float(self.extents[n]) for n in names)

    def step(self, factors: tuple[Factor, ...], indices: frozenset[str]) -> Elimination:
        names = frozenset().union(*(f.free for f in factors)) if factors else frozenset()
        density = math.prod(f.density for f in factors)
        points = self.size(names) * density
        dense = all(f.dense for f in factors)
        if dense and len(factors) == 2 and all(f.plain for f in factors) and self.may_use_blas \
                and indices:
            work = points / BLAS_SPEED
        else:
            work = points * (0.8 + 0.2 * len(factors))
        left = names - indices
        out_density = filled(density, self.size(indices)) if not dense else 1.0
        out_dense = dense or out_density > 0.25
        cells = self.size(left) * (1.0 if out_dense else out_density)
        write = cells * (WRITE_DENSE if out_dense else WRITE_SPARSE)
        if cells * self.item > self.memory:
            write = math.inf
        parts = frozenset().union(*(f.parts for f in factors))
        result = Factor(parts, left, 1.0 if out_dense else out_density, out_dense, out_dense)
        return Elimination(factors, indices, result, work + write + 1000.0)

    def options(self, factors: frozenset[Factor], left: frozenset[str]) -> list[Elimination]:
        found: dict[tuple[frozenset[Factor], frozenset[str]], Elimination] = {}

        def offer(group: frozenset[Factor], indices: frozenset[str]) -> None:
            if (group, indices) not in found:
                ordered = tuple(sorted(group, key=lambda f: sorted(f.parts)))
                found[group, indices] = self.step(ordered, indices)

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
            for chosen in {group, group | masks}:
                offer(chosen, frozenset((name,)))
                offer(chosen, together)
        return list(found.values())

    def best(self, factors: frozenset[Factor], left: frozenset[str]
             ) -> tuple[float, tuple[Elimination, ...]]:
        if not left:
            if len(factors) <= 1:
                return 0.0, ()
            last = self.step(tuple(sorted(factors, key=lambda f: sorted(f.parts))), frozenset())
            return last.cost, (last,)
        key = (factors, left)
        known = self.memo.get(key)
        if known is not None:
            return known
        found: tuple[float, tuple[Elimination, ...]] = (math.inf, ())
        for option in self.options(factors, left):
            if option.cost >= found[0] and found[1]:
                continue
            rest = (factors - set(option.factors)) | {option.result}
            cost, steps = self.best(rest, left - option.indices)
            if option.cost + cost < found[0] or not found[1]:
                found = option.cost + cost, (option, *steps)
        self.memo[key] = found
        return found

    def greedy(self, factors: frozenset[Factor], left: frozenset[str]
               ) -> tuple[float, tuple[Elimination, ...]]:
        steps: list[Elimination] = []
        total = 0.0
        while left or len(factors) > 1:
            if not left:
                pair = sorted(factors, key=lambda f: (self.size(f.free) * f.density,
                                                      sorted(f.parts)))[:2]
                choice = self.step(tuple(pair), frozenset())
            else:
                everything = [o for o in self.options(factors, left) if len(o.factors) <= 6]
                choice = min(everything or self.options(factors, left), key=lambda o: (
                    o.cost - sum(self.size(f.free) * f.density for f in o.factors),
                    sorted(o.indices)))
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
    estimator = Estimator(program.stats)
    extents = {a.name: a.extent for a in (*lam.axes, *body.axes)}
    factors = [_factor(k, e, estimator, program.config.strict) for k, e in enumerate(exprs)]
    if len({f.free for f in factors}) < 2 and len(factors) < 2:
        return [d]
    output = frozenset(a.name for a in lam.axes)
    reduced = frozenset(a.name for a in body.axes)
    blas = body.op is ops.add and body.dtype.kind in "fc"
    search = Search(extents, output, program.config.memory // 2, body.dtype.itemsize, blas)
    small = len(reduced) <= EXACT_INDICES and len(factors) <= EXACT_FACTORS
    _, steps = (search.best if small else search.greedy)(frozenset(factors), reduced)
    if len(steps) <= 1:
        return [d]
    program.fire("order-contraction: eliminate indices one after another")
    return _emit(program, d, lam, body, times, exprs, steps, extents)


def _factor(k: int, e: Expr, estimator: Estimator, strict: bool) -> Factor:
    cover = estimator.analysis(strict).cover(e)
    dense = cover.support.kind == "true"
    density = 1.0 if dense else estimator.density(cover.support)
    plain = isinstance(e, Read) and dense and all(isinstance(i, Index) for i in e.indices)
    return Factor(frozenset((k,)), e.free, density, dense, plain)


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
        program.stats[source.data] = Stats(
            size * s.result.density, size, s.result.dense)
        definitions.append(t)
        made[s.result.parts] = Read(source, tuple(Index(n) for n in names))
    return definitions


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
    for r in inner:
        if _stays(program, r, core, axes):
            program.fire("evaluate-where-stored: f(A, sum(e)) only where A is stored")
            continue
        names = sorted(r.free, key=list(extents).index)
        own = tuple(Axis(n, extents[n]) for n in names)
        t = program.define(Lambda(own, r))
        source = t.source()
        program.stats[source.data] = _stats(program, r, own)
        definitions.append(t)
        table[r] = Read(source, tuple(Index(n) for n in names))
    if not table:
        return [d]
    return [*definitions, replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))]


def _stats(program: Program, r: Reduce, own: tuple[Axis, ...]) -> Stats:
    estimator = Estimator(program.stats)
    cover = estimator.analysis(program.config.strict).cover(r.body)
    size = search_size(own)
    if cover.support.kind == "true" or not own:
        return Stats(size, size, True)
    density = filled(estimator.density(cover.support), float(product_of(r.axes)))
    return Stats(size * density, size, density > 0.25)


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
    whole = search_size(axes) * product_of(r.axes) / BLAS_SPEED + search_size(axes)
    too_big = search_size(axes) * r.dtype.itemsize > program.config.memory // 4
    return too_big or inside < whole


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
            t = program.define(Lambda(own, e))
            source = t.source()
            estimator = Estimator(program.stats)
            cover = estimator.analysis(program.config.strict).cover(e)
            size = search_size(own)
            dense = cover.support.kind == "true"
            density = 1.0 if dense else estimator.density(cover.support)
            program.stats[source.data] = Stats(size * density, size, dense or density > 0.25)
            table[e] = Read(source, tuple(Index(a.name) for a in own))
            done.append(t)
            program.fire("store-factor: compute a repeated factor once")
        if table:
            d = replace(d, tensor=Lambda(lam.axes, replace_exprs(body, table)))
        done.append(d)
    program.definitions = done
