"""Sums of joins on data add up what the pairs would be, which are not made.

    sum(k, l) f(join(A, B)[i, j, k, l]) * c[i]
    join(A, B; f(merge), summed over k, l)[i, j] * c[i]

where f is a formula of the value alone that is 0 where there is no pair. An index that nothing else
reads goes below the product, because that distributes; what is left is a sum over the others. It is
done where nobody needs the pairs for something else: then they are made once for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tensorel.algebra import joins, ops
from tensorel.algebra.bulk import join
from tensorel.algebra.steps import Steps, run
from tensorel.base.records import dataclass
from tensorel.ir.build import int_value
from tensorel.ir.monoids import steps_of
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Expr,
    GivenConst,
    Index,
    Lambda,
    Local,
    Read,
    Reduce,
    Source,
    postorder,
    reads_in,
)
from tensorel.plan.definitions import (
    Definition,
    Program,
    factors_of,
    product,
    replace_exprs,
    sources_of,
)
from tensorel.plan.logical.selections import cut

_VALUE = "value"


@dataclass(frozen=True, slots=True)
class _Summed:
    """A sum of a join: how it is joined instead, at which places of axes of its sides, and read at
    which indices; the other factors, and over which axes they are summed still."""

    join: object
    how: joins.Join
    cuts: tuple[tuple[str, int, int], ...]
    indices: tuple[Expr, ...]
    rest: tuple[Expr, ...]
    over: tuple[Axis, ...]


def sum_joins(program: Program) -> None:
    """Join with a sum wherever all that reads the pairs adds them up."""
    while _next(program):
        pass


def _next(program: Program) -> bool:
    """One sum around each join."""
    made: dict[object, Bulk] = {d.ref: d.tensor for d in program.definitions if isinstance(
        d.tensor, Bulk) and d.tensor.op is join and d.name not in program.results}
    sums: dict[Reduce, _Summed] = {}
    wanted: set[object] = set()
    for d in program.definitions if made else ():
        if isinstance(d.tensor, Lambda):
            for r in postorder(d.tensor.body):
                if isinstance(r, Reduce) and (found := _summed(r, made)) is not None:
                    sums[r] = found
            wanted |= _read_besides(d.tensor.body, sums)
        else:
            wanted.update([s.data for s in sources_of(d.tensor)])
    sums = {r: s for r, s in sums.items() if s.join not in wanted}
    if sums:
        _apply(program, sums)
    return bool(sums)


def _read_besides(e: Expr, sums: Mapping[Reduce, _Summed]) -> set[object]:
    """What an expression reads apart from joins that are summed."""
    found: set[object] = set()
    stack, seen = [e], {e}
    while stack:
        x = stack.pop()
        below: tuple[Expr, ...] = ()
        if isinstance(x, Reduce):
            s = sums.get(x)
            below = (x.body,) if s is None else (*s.rest, *s.indices)
        elif isinstance(x, Read):
            found.update([t.data for t in (x.tensor,) if isinstance(t, Source)])
            below = x.indices
        elif isinstance(x, Call):
            below = x.args
        stack += [y for y in below if y not in seen]
        seen.update(below)
    return found


def _summed(r: Reduce, made: Mapping[object, Bulk]) -> _Summed | None:
    """A sum as one of a join that adds up pairs."""
    axes: tuple[Axis, ...] = r.axes
    body = r.body
    if r.op is not ops.add or r.dtype.kind == "b" or any(not a.extent for a in axes):
        return None
    if isinstance(body, Reduce) and body.op is r.op and {a.name for a in axes}.isdisjoint(
            a.name for a in body.axes):
        axes, body = (*axes, *body.axes), body.body
    factors = factors_of(body, ops.multiply)
    reads = {x for x in reads_in(body) if isinstance(x.tensor, Source) and x.tensor.data in made}
    owners = [f for f in factors if not reads.isdisjoint(reads_in(f))]
    if len(reads) != 1 or len(owners) != 1:
        return None
    (read,), (owner,) = reads, owners
    assert isinstance(read.tensor, Source)
    bulk = made[read.tensor.data]
    rest = [f for f in factors if f is not owner]
    elsewhere = {n for f in rest for n in f.free}
    gone = [a for a in axes if a.name not in elsewhere and [
        e for e in read.indices if a.name in e.free] == [Index(a.name)]]
    places = [read.indices.index(Index(a.name)) for a in gone]
    if not gone or any(bulk.shape[k] != a.extent for k, a in zip(places, gone)):
        return None
    how: joins.Join = bulk.params[0]  # type: ignore[assignment]
    merge = _merge(how, owner, read)
    if merge is None or how.left or any(_is_infinite(f) for f in rest):
        return None
    sides = [("a", k) for k in how.kept_of_a(len(bulk.args[0].shape))]
    sides += [("b", k) for k in how.kept]
    how = _over(how, [sides[k] for k in places], merge)
    cuts = [(*sides[k], int(place))  # the plan is for this number
            for k, e in enumerate(read.indices) if (place := int_value(e)) is not None]
    for cut_ in reversed(cuts):
        how = joins.fixed(how, *cut_)
    return _Summed(read.tensor.data, how, tuple(cuts), tuple([
        e for k, e in enumerate(read.indices) if k not in places and int_value(e) is None]),
        tuple(rest), tuple([a for a in axes if a not in gone]))


def _is_infinite(e: Expr) -> bool:
    """inf times a cell without a pair is no zero."""
    return isinstance(e, Const) and e.dtype.kind in "fc" and not bool(np.isfinite(e.value))


def _merge(how: joins.Join, e: Expr, read: Read) -> Steps | joins.Untraced | None:
    """The merge function with what becomes of its values; None where that says more, or is not 0
    where there is no pair. A sum of values says nothing of each."""
    if e is read:
        return how.merge
    if isinstance(how.merge, joins.Untraced) or how.is_summed:
        return None
    value = Local(_VALUE, read.dtype)
    plain = replace_exprs(e, {read: value})
    inside = postorder(plain)
    if plain.free or any(isinstance(x, (Read, Reduce)) for x in inside):
        return None
    for x in inside:
        if isinstance(x, GivenConst):
            x.value.fixed()  # the plan is for this number
    steps = steps_of(plain)
    if np.any(run(steps, {_VALUE: np.zeros(1, read.dtype)}) != 0):
        return None
    made = list(how.merge)
    places: list[int] = []
    for step in steps:
        if step[0] == _VALUE:
            places.append(len(how.merge) - 1)
            continue
        places.append(len(made))
        made.append(step if isinstance(step[1], str) else (
            step[0], *[places[k] for k in step[1:]]))
    return tuple(made)


def _over(how: joins.Join, gone: list[tuple[str, int]], merge: Steps | joins.Untraced
          ) -> joins.Join:
    """The join summed over these axes of its sides."""
    of_a, of_b = (tuple(sorted([*had, *[axis for name, axis in gone if name == side]]))
                  for side, had in zip("ab", how.summed))
    return how._replace(merge=merge, summed=(of_a, of_b),
                        kept=tuple([k for k in how.kept if k not in of_b]))


def _apply(program: Program, sums: Mapping[Reduce, _Summed]) -> None:
    """The joins with their sums in place of those without."""
    instead: dict[object, dict[object, list[Definition]]] = {}
    table: dict[Expr, Expr] = {}
    tensors: dict[object, object] = {d.ref: d.tensor for d in program.definitions}
    for r, s in sums.items():
        known = instead.setdefault(s.join, {})
        if (s.how, s.cuts) not in known:
            bulk = tensors[s.join]
            assert isinstance(bulk, Bulk)
            known[s.how, s.cuts] = _joined(program, bulk, s)
        made_of = known[s.how, s.cuts][0].source()
        body = product([Read(made_of, s.indices), *s.rest], ops.multiply)
        table[r] = Reduce(ops.add, s.over, body) if s.over else body
    read: Counter[object] = Counter()
    made: list[Definition] = []
    for d in reversed(program.definitions):
        if d.ref in instead:
            for new, *parts in instead[d.ref].values():
                made += [new, *parts] if new.ref in read else []
            continue
        if isinstance(d.tensor, Lambda):
            body = replace_exprs(d.tensor.body, table)
            d = d if body is d.tensor.body else d.rewritten(Lambda(d.tensor.axes, body))
        read.update([x.data for x in sources_of(d.tensor)])
        made.append(d)
    program.definitions = _at_once(made[::-1], read)
    program.fire("sum-joins: pairs that are added up are not made", len(table))


def _at_once(definitions: Sequence[Definition], read: Mapping[object, int]) -> list[Definition]:
    """A definition that is nothing but a join, which it alone reads, is that join."""
    joined = {d.ref: d for d in definitions if isinstance(d.tensor, Bulk) and d.tensor.op is join}
    table: dict[object, Definition] = {}
    for d in definitions:
        if isinstance(d.tensor, Lambda) and isinstance(d.tensor.body, Read):
            t, at = d.tensor.body.tensor, d.tensor.body.indices
            ref = t.data if isinstance(t, Source) else None
            if ref in joined and read[ref] == 1 and at == tuple(
                    [Index(a.name) for a in d.tensor.axes]) and t.shape == d.shape:
                table[d.ref] = joined[ref]
    gone = {d.ref for d in table.values()}
    return [d.rewritten(table[d.ref].tensor) if d.ref in table else d
            for d in definitions if d.ref not in gone]


def _joined(program: Program, bulk: Bulk, s: _Summed) -> list[Definition]:
    """The join, and the parts of its operands that it needs before."""
    operands = dict(zip("ab", bulk.args))
    parts: list[Definition] = []
    for side, axis, place in reversed(s.cuts):
        parts.insert(0, Definition(program.fresh(), cut(operands[side], axis, place)))
        operands[side] = parts[0].source()
    return [Definition(program.fresh(), Bulk(join, tuple(operands.values()), (s.how,))), *parts]
