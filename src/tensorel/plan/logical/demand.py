"""Demand: of an intermediate only those slices are computed that somebody reads.

Law: in a product, where one factor is absent (its fill annihilates) the others do not matter; nor
does a branch of a choice where its condition is not stored. So a definition that is read only
beside a sparse factor over one of its indices is needed only where that factor has entries:
``sum(k) A[rows[i], k] * f(sum(m) A[k, m] * X[m, c])`` asks for the few k that the rows reach. The
coordinates asked for become a definition of their own, a set, and the intermediate is restricted
to it; its operands follow, because they are now read beside that set.

Nothing is annihilated in strict mode, so the pass is off there. A result of the program is asked
for as a whole.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.given import about, plain
from tensorel.ir.nodes import (
    Axis,
    Call,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    Tensor,
    const,
    reads_in,
)
from tensorel.ir.replacing import substitute
from tensorel.plan.decisions import Option
from tensorel.plan.definitions import (
    Definition,
    Program,
    Ref,
    Stats,
    distributing,
    factors_of,
    product,
    reading,
    sources_of,
)
from tensorel.plan.estimate import Estimator
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.pointset import Relation
from tensorel.stats.estimates.reads import as_stats
from tensorel.stats.estimates.reduction import project

#: Rows of a sparse intermediate cost so many times what rows of a whole one do.
SPARSE_ROW_COST = 3.0


@dataclass(frozen=True, slots=True)
class Asked:
    """Reads ``tensor[..., at axis, ...]`` matter only where ``factor`` has entries, over the
    index ``name``; the factor has ``axes`` beside it."""

    axis: int
    factor: Read
    name: str
    extents: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of a definition along one axis that are asked for, and what they cost to find."""

    axis: int
    parts: tuple[Asked, ...]
    share: float
    work: float


def push_demand(program: Program) -> None:
    """Restrict intermediates to the slices that are read, from the last to the first."""
    names = [d.name for d in program.definitions]
    restricted: dict[object, tuple[int, Source]] = {}
    reads = _Reads()
    for name in reversed(names):
        if name not in program.results:
            _restrict(program, name, reads, restricted)
    if restricted:
        program.definitions = [_relaxed(program, d, restricted) for d in program.definitions]


class _Reads:
    """What each definition reads, found once."""

    def __init__(self) -> None:
        self._known: dict[Tensor, frozenset[object]] = {}

    def of(self, d: Definition) -> frozenset[object]:
        found = self._known.get(d.tensor)
        if found is None:
            found = self._known[d.tensor] = frozenset(x.data for x in sources_of(d.tensor))
        return found

    def made_from(self, program: Program, d: Definition) -> frozenset[object]:
        """The definition and all that are made from it: none can say what is asked of it."""
        found: set[object] = {d.ref}
        for r in program.definitions:
            if not found.isdisjoint(self.of(r)):
                found.add(r.ref)
        return frozenset(found)


def _restrict(program: Program, name: str, reads: _Reads,
              done: dict[object, tuple[int, Source]]) -> None:
    at = next(k for k, d in enumerate(program.definitions) if d.name == name)
    d = program.definitions[at]
    if not isinstance(d.tensor, Lambda) or d.format is not None or not d.tensor.axes \
            or not _has_rest(d.tensor):
        return
    readers = [r for r in program.definitions[at + 1 :] if d.ref in reads.of(r)]
    made = reads.made_from(program, d)
    choices = [_slices(program, d, axis, readers, made) for axis in range(len(d.tensor.axes))]
    found = [s for s in choices if s is not None and s.share < 1.0]
    if found:
        best = min(found, key=lambda s: (s.share, s.axis))
        if pays(program, d, d.tensor, best):
            done[d.ref] = best.axis, _apply(program, d, at, best)


def _has_rest(lam: Lambda) -> bool:
    """Whether a finite value can stand outside the slices. It is not read; but the factor that
    hides it may come to be stored whole, with zeros, and 0 * inf is nan."""
    body = lam.body
    if not isinstance(body, Reduce):
        return lam.dtype.kind != "O"
    return body.op.identity is not None and bool(np.isfinite(body.op.identity(body.dtype)))


# -- who asks for what --------------------------------------------------------------------------


def _slices(program: Program, d: Definition, axis: int, readers: list[Definition],
            made: frozenset[object]) -> Slices | None:
    """The least set of slices along an axis outside of which no reader looks."""
    parts: dict[object, Asked] = {}
    share = work = 0.0
    for reader in readers:
        if not isinstance(reader.tensor, Lambda):
            return None
        for read in _reads(reader.tensor.body, d.ref):
            asked = _asked(program, reader.tensor, read, axis, made)
            if asked is None:
                return None
            part, selected, visited = asked
            if _key(part) not in parts:
                parts[_key(part)] = part
                share += selected
                work += visited
    return Slices(axis, tuple(parts.values()), share, work) if parts else None


def _key(asked: Asked) -> object:
    renamed = {asked.name: Index("\0"), **{
        n: Index(f"\0{k}") for k, (n, _) in enumerate(asked.extents)}}
    return substitute(asked.factor, renamed)


def _source(read: Read) -> Source:
    assert isinstance(read.tensor, Source)
    return read.tensor


def _reads(body: Expr, ref: Ref) -> list[Read]:
    return [e for e in reads_in(body) if _source(e).data == ref]


def _asked(program: Program, lam: Lambda, read: Read, axis: int, made: frozenset[object]
           ) -> tuple[Asked, float, float] | None:
    """The sparsest factor beside a read over the index at one of its axes."""
    index = read.indices[axis]
    if not isinstance(index, Index):
        return None
    extents = {a.name: a.extent for a in lam.axes}
    body = lam.body
    if isinstance(body, Reduce):
        extents |= {a.name: a.extent for a in body.axes}
    if extents.get(index.name) != read.tensor.shape[axis]:
        return None
    best: tuple[Asked, float, float] | None = None
    for factor in _beside(program, body, read):
        if Index(index.name) not in factor.indices or any(
                x.data in made for x in sources_of(factor)):
            continue
        own = {n: extents[n] for n in sorted(factor.free) if n in extents}
        if len(own) < len(factor.free):
            continue
        estimator = Estimator(program.stats)
        relation = estimator.relation(
            estimator.analysis(False).cover(factor).support, own, False)
        reached = project(relation, frozenset((index.name,))).estimate
        share = reached / max(plain(extents[index.name]), 1)
        if best is None or share < best[1]:
            rest = tuple((n, e) for n, e in own.items() if n != index.name)
            best = Asked(axis, factor, index.name, rest), share, relation.estimate
    return best


def _beside(program: Program, body: Expr, read: Read) -> list[Read]:
    """Sparse reads where whose entries are missing the value of ``read`` does not matter."""
    found: list[Read] = []
    estimator = Estimator(program.stats)
    times: ops.Operator | None
    if isinstance(body, Reduce):
        times, body = distributing(body.op, body.body), body.body
    else:
        times = body.op if isinstance(body, Call) and body.op is ops.multiply else None
    parts = factors_of(body, times) if times is not None else [body]
    for k, part in enumerate(parts):
        if isinstance(part, Read) and times is not None and _absent_is(part, times) \
                and not estimator.of(_source(part)).dense and not any(
                    read in reads_in(i) for i in part.indices):
            if part is not read and any(
                    read in reads_in(p) for j, p in enumerate(parts) if j != k):
                found.append(part)
        elif isinstance(part, Call) and part.op is ops.where:
            found += _condition(part, read)
    return found


def _condition(choice: Call, read: Read) -> list[Read]:
    """The condition of ``where(p, a, c)`` if the read stands in ``a`` alone."""
    p, a, c = choice.args
    if isinstance(p, Read) and not bool(_source(p).fill.value) and read in reads_in(a) \
            and read not in reads_in(c) and read not in reads_in(p):
        return [p]
    return []


def _absent_is(read: Read, times: ops.Operator) -> bool:
    """Where the read has no entry, the product is the annihilator whatever the others are."""
    fill = _source(read).fill.value
    return bool(times.annihilators) and all(
        z is not None and z == fill for z in times.annihilators)


# -- whether it pays, and doing it ---------------------------------------------------------------


def pays(program: Program, d: Definition, lam: Lambda, s: Slices) -> bool:
    """The slices left out cost more than finding those that stay."""
    estimator = Estimator(program.stats)
    reads = reads_in(lam.body)
    work = max([about(lam.shape), *(estimator.of(_source(r)).count for r in reads)])
    dense = isinstance(lam.body, Reduce) and all(estimator.of(_source(r)).dense for r in reads)
    whole = work / (program.config.costs.blas_speed if dense else 1.0)
    return program.decisions.decide("slices", d.name, [
        Option(whole, False, "all"),
        Option(SPARSE_ROW_COST * work * s.share + 2.0 * s.work, True, "those that are read")])


def _apply(program: Program, d: Definition, at: int, s: Slices) -> Source:
    """Restrict a definition; the set that it is restricted to."""
    assert isinstance(d.tensor, Lambda)
    axis = d.tensor.axes[s.axis]
    sets, asked = _set_of(program, s, axis)
    changed = _restricted(d, d.tensor, Read(asked, (Index(axis.name),)))
    old = program.stats.get(d.ref)
    program.restricted[changed.ref] = s.axis, s.share
    if old is not None:
        program.stats[changed.ref] = Stats(old.count * s.share, old.size, False)
    instead: dict[object, Source] = {d.ref: changed.source()}
    before, after = program.definitions[:at], program.definitions[at + 1 :]
    # what a factor reads is defined before its reader, not always before ``d``
    needed = {x.data for p in s.parts for x in sources_of(p.factor)}
    for r in reversed(after):
        if r.ref in needed:
            needed.update(x.data for x in sources_of(r.tensor))
    program.definitions = [*before, *(r for r in after if r.ref in needed), *sets, changed, *(
        replace(r, tensor=reading(r.tensor, instead)) for r in after if r.ref not in needed)]
    program.fire("demand: only the slices that are read")
    return asked


def _set_of(program: Program, s: Slices, axis: Axis) -> tuple[list[Definition], Source]:
    """Definitions of the set of coordinates asked for: a boolean vector. A condition is one
    already."""
    made: list[Definition] = []
    sets: list[Source] = []
    for p in s.parts:
        if not p.extents and p.factor.dtype.kind == "b" and len(p.factor.indices) == 1:
            sets.append(_source(p.factor))
            continue
        there = Call(ops.not_equal, (p.factor, _source(p.factor).fill))
        axes = tuple(Axis(n, e) for n, e in p.extents)
        body = Reduce(ops.logical_or, axes, there) if axes else there
        own = Axis(p.name, axis.extent)
        t = program.define(Lambda((own,), body))
        estimator = Estimator(program.stats)
        relation = estimator.relation(
            estimator.analysis(False).cover(p.factor).support,
            {a.name: a.extent for a in (own, *axes)}, False)
        cells = project(relation, frozenset((p.name,)))
        program.stats[t.ref] = Stats(cells.estimate, about([axis.extent]), False,
                                     partial(_facts, cells, p.name))
        made.append(t)
        sets.append(t.source())
    while len(sets) > 1:
        a, b = sets.pop(), sets.pop()
        reads = [Read(x, (Index(axis.name),)) for x in (a, b)]
        t = program.define(Lambda((axis,), Call(ops.logical_or, tuple(reads))))
        count = sum(Estimator(program.stats).of(x).count for x in (a, b))
        program.stats[t.ref] = Stats(count, about([axis.extent]), False)
        made.append(t)
        sets.append(t.source())
    return made, sets[0]


def _facts(cells: Relation, name: str, exact: bool) -> TensorStats:
    return as_stats(cells, [name])


def _restricted(d: Definition, lam: Lambda, asked: Read) -> Definition:
    """The definition with nothing outside the slices: what stands there is not read."""
    body = lam.body
    if not isinstance(body, Reduce):
        rest = const(lam.dtype.type(0), lam.dtype)
        return replace(d, tensor=Lambda(lam.axes, Call(ops.where, (asked, body, rest))),
                       fill=rest, whole=False, origin=None)
    times = distributing(body.op, body.body)
    assert body.op.identity is not None
    none = const(body.op.identity(body.dtype), body.dtype)
    zeros = [z for z in times.annihilators if z is not None] if times is not None else []
    if times is not None and times.identity is not None and zeros:
        one = const(times.identity(body.dtype), body.dtype)
        there = Call(ops.where, (asked, one, const(zeros[0], body.dtype)))
        inside = product([there, *factors_of(body.body, times)], times)
    else:
        inside = Call(ops.where, (asked, body.body, none))
    made = Lambda(lam.axes, Reduce(body.op, body.axes, inside))
    return replace(d, tensor=made, fill=None, whole=False, origin=None)


def _relaxed(program: Program, d: Definition, restricted: dict[object, tuple[int, Source]]
             ) -> Definition:
    """``where(s[k], f(t[k]), 0)`` with t restricted to s as well: f(t[k]) alone, if it has
    entries only where t has. What stands elsewhere is not read, and one set less is met."""
    lam = d.tensor
    if d.ref not in restricted or not isinstance(lam, Lambda) or not isinstance(lam.body, Call):
        return d
    axis, asked = restricted[d.ref]
    body = lam.body.args[1] if lam.body.op is ops.where else lam.body
    support = Estimator(program.stats).analysis(False).cover(body).support
    for f in support.parts if support.kind == "and" else (support,):
        if f.kind == "has" and f.read is not None and isinstance(f.read.tensor, Source):
            its = restricted.get(f.read.tensor.data)
            if its is not None and its[1] is asked and \
                    f.read.indices[its[0]] == Index(lam.axes[axis].name):
                return replace(d, tensor=Lambda(lam.axes, body))
    return d
