"""From a piece of a mapping to levels: which coordinate decides which cursor.

Axis by axis, outermost first: a key is *solved* for a cursor where it can be (the cursor is a term
over the coordinate), else its cursor is walked, as a *segment* (a coordinate for each value) or as
a *stretch* (a range of coordinates for each value). Bounds and tests go to the first level at
which everything they speak of is known."""

from __future__ import annotations

from typing import NoReturn

from tensorel.base.records import dataclass, field
from tensorel.errors import StorageError
from tensorel.sdql.syntax import Apply, Binary, Call, Expr, Name, free
from tensorel.storage.mapped.layout import Layout, finished, united
from tensorel.storage.mapped.pieces import Cursor, Physical, Piece
from tensorel.storage.mapped.polynomials import same
from tensorel.storage.mapped.terms import (
    ONE,
    ZERO,
    add,
    affine,
    conjunction,
    coordinate,
    divide,
    literal,
    multiply,
    reads,
    substitute,
    subtract,
)
from tensorel.storage.mapped.ways import Segment, Solved, Stretch, Way


def derive(pieces: tuple[Piece, ...], physical: Physical, declared: tuple[Expr, ...] | None
           ) -> Layout:
    """The layout of a mapping; of several pieces, each of which the coordinates decide, one
    layout whose last level goes through the pieces."""
    rank = len(pieces[0].keys)
    found = [_Solver(p, physical, list(declared or [None] * rank)).run() for p in pieces]
    return found[0] if len(found) == 1 else united(pieces, found)


@dataclass
class _Solver:
    piece: Piece
    physical: Physical
    extents: list[Expr | None]
    order: list[int] = field(default_factory=list)
    drafts: list[dict[str, object]] = field(default_factory=list)
    kinds: list[type[Way]] = field(default_factory=list)
    bound: dict[str, Expr] = field(default_factory=dict)  # cursors solved: their terms
    known: tuple[str, ...] = ()  # cursors walked
    run_of: str | None = None  # the cursor whose run the next level goes through
    loose: bool = False
    coord: Expr = ZERO

    def __post_init__(self) -> None:
        self.left = list(self.piece.cursors)
        self.tests = list(self.piece.tests)

    def run(self) -> Layout:
        rank = len(self.piece.keys)
        while len(self.order) < rank:
            if not (self._direct() or self._joint() or self._walked()):
                self._refuse()
        if self.left:
            raise StorageError(
                f"no key of the mapping depends on {_shown(self.left[0].name)}: several places "
                f"would hold one cell", hint="a mapping gives each cell one place")
        place = self._now(self.piece.place)
        extents, own = tuple(self.extents), {*self.known, *self.bound}
        own |= {str(draft["cursor"]) for draft in self.drafts if "cursor" in draft}
        last = len(self.drafts) - 1
        levels = [finished(kind, draft | {"place": place if k == last else None}, extents, own)
                  for k, (kind, draft) in enumerate(zip(self.kinds, self.drafts))]
        return Layout(tuple(self.order), tuple(levels), extents, place, self.bound)

    # -- what is known --------------------------------------------------------------------------

    @property
    def unbound(self) -> set[str]:
        return {c.name for c in self.left}

    def _now(self, e: Expr) -> Expr:
        return substitute(e, self.bound)

    def _axes(self) -> list[int]:
        """The axes to go, those of the outer cursors first."""
        place = {c.name: k for k, c in enumerate(self.piece.cursors)}
        axes = [a for a in range(len(self.piece.keys)) if a not in self.order]
        return sorted(axes, key=lambda a: min(
            [place[n] for n in free(self.piece.keys[a]) if n in place], default=len(place)))

    def _unbound_of(self, e: Expr) -> set[str]:
        return self.unbound & free(self._now(e))

    def _cursor(self, name: str) -> Cursor:
        return next(c for c in self.left if c.name == name)

    def _ready(self, c: Cursor, besides: frozenset[str] = frozenset()) -> bool:
        return not (self._unbound_of(c.low) | self._unbound_of(c.high)) - besides

    def _bind(self, c: Cursor, term: Expr) -> None:
        self.bound = {n: substitute(e, {c.name: term}) for n, e in self.bound.items()}
        self.bound[c.name] = term
        self.left = [x for x in self.left if x.name != c.name]

    def _add(self, kind: type[Way], axis: int, *checks: Expr, **fields: object) -> None:
        """A level; with it go the tests that can be answered now."""
        above = tuple(self.order)
        self.order.append(axis)
        ready = [self._now(t) for t in self.tests if not self._unbound_of(t)
                 and not self._awaits(t)]
        self.tests = [t for t in self.tests if self._unbound_of(t) or self._awaits(t)]
        asked = [t for t in (*checks, *ready) if not self._is_implied(t, kind, axis)]
        self.kinds.append(kind)
        test = conjunction(asked)
        self.drafts.append(
            {"axis": axis, "known": self.known, "above": above, "test": test, **fields})

    def _awaits(self, t: Expr) -> bool:
        """The test speaks of a coordinate that comes later."""
        named = {coordinate(a) for a in range(len(self.piece.keys)) if a not in self.order}
        return bool(free(self._now(t)) & named)

    def _is_implied(self, t: Expr, kind: type[Way], axis: int) -> bool:
        """``0 <= i`` and ``i < extent`` of a coordinate that the loops give."""
        if not isinstance(t, Binary):
            return False
        if kind is not Solved and not (kind is Segment and self.loose):
            return False
        op, left, right = t.op, t.left, t.right
        if op in (">", ">="):
            op, left, right = {">": "<", ">=": "<="}[op], right, left
        for a in self.order:
            here, extent = self._coordinate(a, kind, axis), self.extents[a]
            if op == "<=" and same(left, ZERO) and same(right, here):
                return True
            if op == "<" and same(left, here) and extent is not None and same(right, extent):
                return True
        return False

    def _coordinate(self, a: int, kind: type[Way], axis: int) -> Expr:
        return self.coord if a == axis and kind is Segment else Name(coordinate(a))

    def _is_list(self, key: Apply, high: Expr) -> bool:
        """The cursor goes through the whole array of its coordinates."""
        assert isinstance(key.target, Name)
        return same(high, self.physical.length(key.target.name))

    # -- three ways to a level --------------------------------------------------------------------

    def _direct(self) -> bool:
        """An axis whose key is solved for its cursor, or follows from the axes above."""
        if self.run_of is not None:
            return False
        for axis in self._axes():
            key = self._now(self.piece.keys[axis])
            names = self._unbound_of(key)
            if not names and free(key) & {self.run_of}:
                continue
            if not names:
                self._add(Solved, axis, low=key, high=add(key, ONE))
                return True
            if len(names) == 1 and self._solve_one(axis, key, names.pop()):
                return True
            if len(names) == 2 and self._solve_two(axis, key, sorted(names)):
                return True
        return False

    def _solve_one(self, axis: int, key: Expr, name: str) -> bool:
        """``key = name + rest``."""
        c, parts = self._cursor(name), affine(key, name)
        if parts is None or not same(parts[0], ONE) or not self._ready(c):
            return False
        here, low, high = Name(coordinate(axis)), self._now(c.low), self._now(c.high)
        self._bind(c, subtract(here, parts[1]))
        first, stop = add(low, parts[1]), add(high, parts[1])
        if literal(first) == 0 and self.extents[axis] is None and _is_size(stop):
            self.extents[axis] = stop
        extent = self.extents[axis]
        if literal(first) == 0 and extent is not None and same(stop, extent):
            self._add(Solved, axis)
        else:
            self._add(Solved, axis, low=first, high=stop)
        return True

    def _solve_two(self, axis: int, key: Expr, names: list[str]) -> bool:
        """``key = size * outer + inner`` with ``inner in 0:size``."""
        for outer, inner in (names, names[::-1]):
            x, y = self._cursor(outer), self._cursor(inner)
            coarse, fine = affine(key, outer), affine(key, inner)
            if coarse is None or fine is None or not same(fine[0], ONE):
                continue
            size, rest = coarse[0], subtract(coarse[1], Name(inner))
            if not (self._ready(x) and self._ready(y)) or not same(self._now(y.high), size) \
                    or literal(self._now(y.low)) != 0 or literal(self._now(x.low)) != 0 \
                    or not same(add(rest, Name(inner)), coarse[1]) or not same(rest, ZERO):
                continue
            here, high = Name(coordinate(axis)), self._now(x.high)
            self._bind(x, divide(here, size))
            self._bind(y, Binary("%", here, size))
            if isinstance(high, Name):  # a number of blocks: the packer takes enough of them
                self._add(Solved, axis)
            else:
                self._add(Solved, axis, Binary("<", divide(here, size), high))
            return True
        return False

    def _joint(self) -> bool:
        """Axes whose keys together decide one cursor: its bits, or its quotient and remainder."""
        if self.run_of is not None:
            return False
        axes = self._axes()
        for c in self.left:
            mine = [a for a in axes if self._unbound_of(self.piece.keys[a]) == {c.name}]
            if len(mine) != 2 or not self._ready(c):
                continue
            term = _join(c.name, {a: self._now(self.piece.keys[a]) for a in mine})
            if term is None:
                continue
            low, high = self._now(c.low), self._now(c.high)
            self._add(Solved, mine[0])
            self._bind(c, term)
            checks = [] if literal(low) == 0 and _is_size(high) else [
                Binary("<=", low, term), Binary("<", term, high)]
            self._add(Solved, mine[1], *checks)
            return True
        return False

    def _walked(self) -> bool:
        """The outermost cursor that is left is walked."""
        if self.run_of is not None:
            return self._inside_run()
        for c in self.left:
            if not self._ready(c):
                continue
            for axis in self._axes():
                names = self._unbound_of(self.piece.keys[axis])
                if names == {c.name}:
                    self._segment(axis, c)
                    return True
                inner = names - {c.name}
                if len(inner) == 1 and self._stretch(axis, c, self._cursor(*inner)):
                    return True
        return False

    def _segment(self, axis: int, c: Cursor) -> None:
        others = [a for a in self._axes() if a != axis
                  and c.name in free(self._now(self.piece.keys[a]))]
        low, high, key = self._now(c.low), self._now(c.high), self._now(self.piece.keys[axis])
        self.left = [x for x in self.left if x.name != c.name]
        known = self.known
        tight = isinstance(key, Apply) and (bool(reads(high)) or self._is_list(key, high))
        self.loose, self.coord = not tight, key
        if others:
            self.run_of, self.known = c.name, ()
            if known:
                self._refuse()
        else:
            self.known = (*known, c.name)
        self._add(Segment, axis, known=known, cursor=c.name, low=low, high=high, coord=key,
                  runs=bool(others), loose=self.loose)

    def _inside_run(self) -> bool:
        name = self.run_of
        assert name is not None
        axes = [a for a in self._axes() if name in free(self._now(self.piece.keys[a]))
                and not self._unbound_of(self.piece.keys[a])]
        if not axes:
            self._refuse()
        more = len(axes) > 1
        if not more:
            self.run_of, self.known = None, (name,)
        self._add(Segment, axes[0], known=(), cursor=name,
                  coord=self._now(self.piece.keys[axes[0]]), runs=more, inside=True)
        return True

    def _stretch(self, axis: int, c: Cursor, inner: Cursor) -> bool:
        key = self._now(self.piece.keys[axis])
        parts = affine(key, inner.name)
        if parts is None or not same(parts[0], ONE) \
                or not self._ready(inner, frozenset({c.name})):
            return False
        first = add(parts[1], self._now(inner.low))
        stop = add(parts[1], self._now(inner.high))
        if c.name not in free(first):
            return False
        low, high, known = self._now(c.low), self._now(c.high), self.known
        self.left = [x for x in self.left if x.name != c.name]
        self._bind(inner, subtract(Name(coordinate(axis)), parts[1]))
        self.known = (*known, c.name)
        self._add(Stretch, axis, known=known, cursor=c.name, low=low, high=high, first=first,
                  stop=stop)
        return True

    def _refuse(self) -> NoReturn:
        waiting = ", ".join(sorted(_shown(n) for n in self.unbound)) or "the keys"
        raise StorageError(
            f"cannot solve the keys of the mapping for {waiting}",
            hint="keys are: a cursor plus terms known before; size * outer + inner; an array read "
                 "at a cursor; even_bits and odd_bits, or quotient and remainder, of one cursor")


def _is_size(e: Expr) -> bool:
    """A term of scalars alone."""
    return not reads(e) and not any("." in n or n.startswith("@") for n in free(e))


def _shown(cursor: str) -> str:
    return cursor.split(".")[0]


def _join(name: str, keys: dict[int, Expr]) -> Expr | None:
    """The cursor as a term of two coordinates."""
    cursor = Name(name)
    for (a, x), (b, y) in (tuple(keys.items()), tuple(keys.items())[::-1]):
        left, right = Name(coordinate(a)), Name(coordinate(b))
        match x, y:
            case Call(function="even_bits", args=(p,)), Call(function="odd_bits", args=(q,)) \
                    if p == q == cursor:
                return Call("interleave", (left, right))
            case Binary(op="/", left=p, right=n), Binary(op="%", left=q, right=m) \
                    if p == q == cursor and same(n, m):
                return add(multiply(left, n), right)
    return None
