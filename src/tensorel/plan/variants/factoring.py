"""Sums of reductions that share a factor: sum(a*b) + sum(a*c) -> sum(a*(b + c)).

A variant beside the program as written: ``A @ x + A @ y`` reads A once, ``A @ B + A @ C`` is one
product. Whether that pays depends on what is sparse: both ways are planned."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.nodes import Axis, Call, Expr, Index, Read, Reduce, below_calls
from tensorel.ir.replacing import substitute, with_parts
from tensorel.plan.definitions import Program, factors_of, product

_SIGNS = {ops.add: False, ops.subtract: True}
MAX_TERMS = 256  # of a sum that is looked through: x + x, doubled again and again, has no end


@dataclass(frozen=True, slots=True)
class Summand:
    """``sum(axes) of the product of factors``, taken away if ``minus``."""

    minus: bool
    axes: tuple[Axis, ...]
    factors: tuple[Expr, ...]


def factored(program: Program) -> Program | None:
    """The program with common factors of sums taken out; None where there are none."""
    return program.rewritten(
        lambda lam: take_out(lam.body), "factor: a*b + a*c -> a*(b + c)")


def take_out(e: Expr) -> Expr:
    """``e`` with common factors of its sums of reductions taken out; itself if there are none."""
    done: dict[Expr, Expr] = {}

    def go(x: Expr) -> Expr:
        found = done.get(x)
        if found is None:
            found = _taken_out(x)
            if found is None:
                found = x if isinstance(x, Read) else with_parts(x, go)
            done[x] = found
        return found

    return go(e)


def _taken_out(e: Expr) -> Expr | None:
    """A sum of fewer reductions; None where ``e`` is none that becomes one."""
    if isinstance(e, Call) and e.op in _SIGNS and ops.multiply.distributes(ops.add, e.dtype) \
            and sum([isinstance(x, Reduce) for x in below_calls(e)]) > 1:
        terms = _summands(e)
        merged = _merged(terms)
        if len(merged) < len(terms):
            return _sum(merged)
    return None


def _summands(e: Expr) -> list[Summand | tuple[bool, Expr]]:
    """The terms of a sum; what is no reduction over a product stands as it is."""
    found: list[Summand | tuple[bool, Expr]] = []
    stack: list[tuple[bool, Expr]] = [(False, e)]
    dtype = e.dtype
    while stack and len(found) < MAX_TERMS:
        minus, x = stack.pop()
        if isinstance(x, Call) and x.op in _SIGNS and all(a.dtype == dtype for a in x.args):
            left, right = x.args
            stack += [(minus != _SIGNS[x.op], right), (minus, left)]
        elif isinstance(x, Reduce) and x.op is ops.add and x.dtype == dtype \
                and x.body.dtype == dtype and all(a.extent for a in x.axes):
            found.append(Summand(minus, x.axes, tuple(factors_of(x.body, ops.multiply))))
        else:
            found.append((minus, x))
    return found if not stack else []


def _merged(terms: list[Summand | tuple[bool, Expr]]) -> list[Summand | tuple[bool, Expr]]:
    done: list[Summand | tuple[bool, Expr]] = []
    for t in terms:
        if isinstance(t, Summand):
            for k, s in enumerate(done):
                both = _merge(s, t) if isinstance(s, Summand) else None
                if both is not None:
                    done[k] = both
                    break
            else:
                done.append(t)
        else:
            done.append(t)
    return done


def _merge(s: Summand, t: Summand) -> Summand | None:
    """Two summands as one, if a read that has some of both their indices is a factor of both.
    The indices of t are renamed to those of s at that read; the others stay inside."""
    for k, f in enumerate(s.factors):
        for m, g in enumerate(t.factors):
            names = _alike(f, g, s.axes, t.axes)
            if names is None or len(s.factors) == 1 or len(t.factors) == 1:
                continue
            others = t.factors[:m] + t.factors[m + 1 :]
            hidden = frozenset(names.values()) - names.keys()
            if any(not hidden.isdisjoint(x.free) for x in others):
                continue  # the name means something else there
            rest = [substitute(x, {old: Index(new) for old, new in names.items()})
                    for x in others]
            outer = tuple(a for a in s.axes if a.name in names.values())
            inner_s = tuple(a for a in s.axes if a not in outer)
            inner_t = tuple(a for a in t.axes if a.name not in names)
            op = ops.subtract if t.minus != s.minus else ops.add
            both = Call(op, (_inside(inner_s, [*s.factors[:k], *s.factors[k + 1 :]]),
                             _inside(inner_t, rest)))
            return Summand(s.minus, outer, (f, both))
    return None


def _alike(f: Expr, g: Expr, left: tuple[Axis, ...], right: tuple[Axis, ...]
           ) -> dict[str, str] | None:
    """Which of g's bound indices are which of f's, if the two read one tensor in one way."""
    if not isinstance(f, Read) or not isinstance(g, Read) or f.tensor is not g.tensor:
        return None
    mine = {a.name: a.extent for a in left}
    theirs = {a.name: a.extent for a in right}
    names: dict[str, str] = {}
    for i, j in zip(f.indices, g.indices):
        if isinstance(i, Index) and isinstance(j, Index) and i.name in mine and j.name in theirs:
            if mine[i.name] != theirs[j.name] or names.setdefault(j.name, i.name) != i.name:
                return None
        elif i is not j or not i.free.isdisjoint(mine) or not j.free.isdisjoint(theirs):
            return None
    return names if names and len(set(names.values())) == len(names) else None


def _inside(axes: tuple[Axis, ...], factors: list[Expr]) -> Expr:
    value = product(factors, ops.multiply)
    return Reduce(ops.add, axes, value) if axes else value


def _sum(terms: list[Summand | tuple[bool, Expr]]) -> Expr:
    found: Expr | None = None
    for t in terms:
        minus = t.minus if isinstance(t, Summand) else t[0]
        value = _inside(t.axes, list(t.factors)) if isinstance(t, Summand) else t[1]
        if found is None:
            found = Call(ops.negative, (value,)) if minus else value
        else:
            found = Call(ops.subtract if minus else ops.add, (found, value))
    assert found is not None
    return found
