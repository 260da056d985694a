"""Reductions over what is given piece by piece are taken apart.

A concatenation is a choice by an index: X[i, j] = where(j < 4, F[i, j], G[i, j - 4]). A sum over j
is the sum over the first piece plus that over the second; a sum over i is given piece by piece
itself. Each piece is then a product of its own: X @ w over a star join never makes X."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial

from tensorel.algebra import ops
from tensorel.ir.affine import split_affine
from tensorel.ir.build import int_value, minus, plus, times
from tensorel.ir.nodes import Axis, Call, Expr, Index, Lambda, Node, Read, Reduce, Source, postorder
from tensorel.ir.replacing import substitute, with_parts
from tensorel.plan.definitions import (
    Definition,
    Program,
    distributing,
    factors_of,
    inner_reductions,
    product,
)
from tensorel.plan.logical.materialize import define_part

MAX_PIECES = 16
_TRUE_BELOW = {ops.less: (0, True), ops.less_equal: (1, True),
               ops.greater_equal: (0, False), ops.greater: (1, False)}


def split_pieces(program: Program) -> None:
    """Take apart the reductions over pieces that hold reductions themselves, or are sparse."""
    program.map_formulas(_split)


def _split(program: Program, d: Definition, lam: Lambda) -> list[Definition]:
    if not any(isinstance(e, Reduce) for e in postorder(lam.body)) \
            or not _is_piecewise(program, lam.body):
        return [d]
    splitter = _Splitter(program, {a.name: a.extent for a in lam.axes})
    body = splitter.run(lam.body)
    if not splitter.pieces:
        return [d]
    program.fire("split-pieces: sum over pieces -> pieces of sums", splitter.pieces)
    return [*splitter.made, d.rewritten(Lambda(lam.axes, body))]


def _is_piecewise(program: Program, e: Expr) -> bool:
    """A choice by an index between formulas of which one has a reduction or is sparse."""
    return any(is_choice(x) and any(
        inner_reductions(a) or not _is_dense(program, a) for a in x.args[1:])  # type: ignore[attr-defined]
        for x in postorder(e))


def is_choice(x: Node) -> bool:
    """A choice by an index."""
    return isinstance(x, Call) and x.op is ops.where and threshold(x.args[0]) is not None


def _is_dense(program: Program, e: Expr) -> bool:
    known = [program.stats.get(t.data) for t in e.reads if isinstance(t, Source)]
    return all(s is None or s.dense for s in known)


def threshold(condition: Expr) -> tuple[str, int, bool] | None:
    """(index, t, below) for a condition that holds for index < t, or not below it."""
    if not isinstance(condition, Call) or condition.op not in _TRUE_BELOW \
            or len(condition.free) != 1 or condition.reads:
        return None
    return _threshold(condition)


@lru_cache(maxsize=256)  # each choice is looked at in every part that it is taken apart into
def _threshold(condition: Call) -> tuple[str, int, bool] | None:
    (name,) = condition.free
    left, right = (split_affine(a, name) for a in condition.args)
    if left is None or right is None or left[0] - right[0] != 1:
        return None
    offset = int_value(minus(right[1], left[1]))
    more, below = _TRUE_BELOW[condition.op]
    return None if offset is None else (name, offset + more, below)


class _Splitter:
    def __init__(self, program: Program, outputs: dict[str, int]) -> None:
        self.program, self.outputs = program, outputs
        self.made: list[Definition] = []
        self.pieces = 0

    def run(self, e: Expr) -> Expr:
        return self._go(e, self.outputs)

    def _go(self, e: Expr, extents: dict[str, int]) -> Expr:
        match e:
            case Call():
                return with_parts(e, partial(self._go, extents=extents))
            case Reduce():
                inner = extents | {a.name: a.extent for a in e.axes}
                return self._reduce(Reduce(e.op, e.axes, self._go(e.body, inner)), extents)
            case _:
                return e

    def _reduce(self, r: Reduce, extents: dict[str, int]) -> Expr:
        """The reduction with the choices inside it taken apart."""
        own = extents | {a.name: a.extent for a in r.axes}
        r = Reduce(r.op, r.axes, decide(r.body, own))
        for x in postorder(r.body):
            if not isinstance(x, Call) or x.op is not ops.where or self.pieces >= MAX_PIECES:
                continue
            at = threshold(x.args[0])
            if at is None:
                continue
            name, t, below = at
            if any(a.name == name for a in r.axes):
                self.pieces += 1
                return Call(r.op, (self._range(r, name, 0, t, extents),
                                   self._range(r, name, t, own[name], extents)))
            if name in self.outputs and r.free <= self.outputs.keys():
                other = self._mirrored(r, name)
                if other is not None:
                    return self._quarters(r, x, name, other, extents)
                self.pieces += 1
                r = self._shared(r, name, own)
                first = self._block(r, {name: (0, t)}, extents)
                second = self._block(r, {name: (t, own[name])}, extents)
                return Call(ops.where, (x.args[0], *((first, second) if below else
                                                     (second, first))))
        return r

    def _mirrored(self, r: Reduce, name: str) -> str | None:
        """The index of the outputs that can be exchanged with another: X.T @ X is its own
        transpose."""
        if "share_transposed" in self.program.config.disabled:
            return None
        times = distributing(r.op, r.body)
        if times is None or not times.commutative:
            return None
        factors = Counter(factors_of(r.body, times))  # a square is not its root
        for other, extent in self.outputs.items():
            if other != name and other in r.free and extent == self.outputs[name]:
                swap: dict[str, Expr] = {name: Index(other), other: Index(name)}
                if Counter({substitute(f, swap): n for f, n in factors.items()}) == factors:
                    return other
        return None

    def _quarters(self, r: Reduce, x: Call, name: str, other: str, extents: dict[str, int]
                  ) -> Expr:
        """A choice by one of two indices that can be exchanged is one by the other as well; what
        is below in one and above in the other is there twice, mirrored."""
        at = threshold(x.args[0])
        assert at is not None
        _, t, below = at
        swap: dict[str, Expr] = {name: Index(other), other: Index(name)}
        low, high = (0, t), (t, self.outputs[name])
        self.pieces += 2

        def choice(index: str, first: Expr, second: Expr) -> Expr:
            condition = x.args[0] if index == name else substitute(x.args[0], swap)
            return Call(ops.where, (condition, *((first, second) if below else (second, first))))

        corner, beside, rest = (self._block(r, {name: a, other: b}, extents) for a, b in (
            (low, low), (low, high), (high, high)))
        self.program.fire("share-transposed: a matrix and its transpose are computed once")
        return choice(name, choice(other, corner, beside),
                      choice(other, substitute(beside, swap), rest))

    def _shared(self, r: Reduce, name: str, extents: dict[str, int]) -> Reduce:
        """Factors with reductions that all pieces along an index have are stored for them, as
        formulas with several readers are (the residual in X.T @ (X @ w - y))."""
        times = distributing(r.op, r.body)
        if times is None:
            return r
        factors = factors_of(r.body, times)
        for k, f in enumerate(factors):
            if isinstance(f, Call) and f.free and name not in f.free and inner_reductions(f) \
                    and not any(is_choice(x) for x in postorder(f)):
                factors[k], made = define_part(self.program, f, extents)
                self.made.append(made)
        return Reduce(r.op, r.axes, product(factors, times))

    def _range(self, r: Reduce, name: str, lo: int, hi: int, extents: dict[str, int]) -> Expr:
        """The part of a reduction over lo <= name < hi. Extents are numbers of the plan, also
        where they come from numbers of the program."""
        extent = int(hi - lo)
        axes = tuple(Axis(a.name, extent) if a.name == name else a for a in r.axes)
        inner = extents | {a.name: a.extent for a in axes}
        body = shifted(decide(r.body, inner | {name: hi}, name, lo), name, lo)
        return self._reduce(Reduce(r.op, axes, self._go(body, inner)), extents)

    def _block(self, r: Reduce, ranges: dict[str, tuple[int, int]], extents: dict[str, int]
               ) -> Expr:
        """The reduction for ranges of output indices, as a definition of its own."""
        sizes = {n: int(hi - lo) for n, (lo, hi) in ranges.items()}
        inside = extents | sizes
        splitter = _Splitter(self.program, self.outputs | sizes)
        splitter.pieces = self.pieces
        body, ends = r.body, extents | {a.name: a.extent for a in r.axes}
        ends |= {n: hi for n, (_, hi) in ranges.items()}
        for n, (lo, _) in ranges.items():
            body = shifted(decide(body, ends, n, lo), n, lo)
            ends[n] = sizes[n]
        value = splitter._reduce(  # the same splitter, for a smaller output
            Reduce(r.op, r.axes, body), inside)
        self.pieces = splitter.pieces
        self.made += splitter.made
        if isinstance(value, Reduce):
            value, made = define_part(self.program, value, inside)
            self.made.append(made)
        for n, (lo, _) in ranges.items():
            value = shifted(value, n, -lo)
        return value


def shifted(e: Expr, name: str, by: int) -> Expr:
    """``e`` for an index that counts from ``by``."""
    if by == 0:
        return e
    return _neat(substitute(e, {name: plus(Index(name), by)}), name)


def _neat(e: Expr, name: str) -> Expr:
    """Affine indices of reads as a*name + b, constants added up."""
    if name not in e.free:
        return e
    return with_parts(e, partial(_affine if isinstance(e, Read) else _neat, name=name))


def _affine(i: Expr, name: str) -> Expr:
    parts = split_affine(i, name) if name in i.free else None
    if parts is None:
        return i
    rest, scaled = int_value(parts[1]), times(parts[0], Index(name))
    return minus(scaled, -rest) if rest is not None and rest < 0 else plus(scaled, parts[1])


def decide(e: Expr, extents: dict[str, int], name: str = "", lo: int = 0) -> Expr:
    """Choices that the ranges of the indices settle are made; that of ``name`` begins at lo."""
    match e:
        case Call():
            if e.op is ops.where and (at := threshold(e.args[0])) is not None and at[0] in extents:
                index, t, below = at
                if t >= extents[index]:
                    return decide(e.args[1 if below else 2], extents, name, lo)
                if t <= (lo if index == name else 0):
                    return decide(e.args[2 if below else 1], extents, name, lo)
            return with_parts(e, partial(decide, extents=extents, name=name, lo=lo))
        case Reduce():
            own = {a.name: a.extent for a in e.axes}
            inner = decide(e.body, extents | own, "" if name in own else name, lo)
            return Reduce(e.op, e.axes, inner)
        case _:
            return e
