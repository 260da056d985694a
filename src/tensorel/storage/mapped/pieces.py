"""A storage mapping as a sum of pieces.

    sum(c1 in low1:high1, c2 in low2:high2, ...) if (tests) then { keys -> value }

Ranges, arrays and sub-arrays are walked by *cursors*; lets are gone; what an array's generator
calls its value is a read at the cursor. This is what the language's sum, let, if, dictionary and
``+`` come to in a mapping; other operations are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.sdql import syntax as s
from tensorel.storage.mapped.terms import ZERO, substitute


@dataclass(frozen=True)
class Cursor:
    """Takes the values low <= name < high; the bounds know the cursors before it."""

    name: str
    low: s.Expr
    high: s.Expr


@dataclass(frozen=True)
class Piece:
    cursors: tuple[Cursor, ...]
    tests: tuple[s.Expr, ...]
    keys: tuple[s.Expr, ...]
    value: s.Expr
    shared: bool = False

    @property
    def array(self) -> str | None:
        """The array that holds the values; None where the value is a literal."""
        return self.value.target.name if isinstance(self.value, s.Apply) else None  # type: ignore[attr-defined]

    @property
    def place(self) -> s.Expr:
        """Where in its array a value lies."""
        return self.value.keys[0] if isinstance(self.value, s.Apply) else ZERO


@dataclass(frozen=True)
class Hashed:
    """A mapping that is a hash map or a trie by itself; ``axes``: of each of its keys the axis."""

    name: str
    axes: tuple[int, ...]


#: Names of lengths begin so.
LENGTH = "#"


def length_of(array: str) -> str:
    """The name of an array's length, where no declaration says it."""
    return f"{LENGTH}{array}"


@dataclass(frozen=True)
class Physical:
    """What a mapping is made of: name to (form, extents) as declared."""

    forms: Mapping[str, str]
    extents: Mapping[str, tuple[s.Expr, ...]]

    @property
    def scalars(self) -> frozenset[str]:
        return frozenset(n for n, form in self.forms.items() if form == "SCALAR")

    def form(self, name: str) -> str | None:
        return self.forms.get(name)

    def length(self, name: str) -> s.Expr:
        declared = self.extents.get(name, ())
        return declared[0] if declared else s.Name(length_of(name))


def pieces(definition: s.Expr, physical: Physical, fixed: Mapping[str, s.Expr]
           ) -> tuple[Piece, ...] | Hashed:
    """The pieces of a mapping in its desugared form, or the hash map that it is; ``fixed``:
    scalars whose values are part of the mapping."""
    whole = _hashed(definition, physical)
    if whole is not None:
        return whole
    found = tuple(_Reader(physical).read(definition, fixed, Piece((), (), (), ZERO)))
    ranks = {len(p.keys) for p in found}
    if len(ranks) != 1:
        raise StorageError(
            f"the parts of the mapping have different numbers of keys: {sorted(ranks)}",
            hint="every { keys -> value } of a mapping names one cell of the same tensor",
        )
    return found


@dataclass
class _Reader:
    physical: Physical
    count: int = 0

    def read(self, e: s.Expr, env: Mapping[str, s.Expr], so_far: Piece) -> Iterator[Piece]:
        match e:
            case s.Sum(generators=(generator,), body=body):
                cursor, names = self._walk(generator, env)
                yield from self.read(body, {**env, **names}, _with(so_far, cursors=cursor))
            case s.Let(bindings=((name, value),), body=body):
                yield from self.read(body, {**env, name: self._term(value, env)}, so_far)
            case s.If(test=test, then=then, otherwise=otherwise):
                asked = self._term(test, env)
                yield from self.read(then, env, _with(so_far, tests=asked))
                if otherwise is not None:
                    yield from self.read(otherwise, env, _with(so_far, tests=s.Unary("!", asked)))
            case s.Binary(op="+", left=left, right=right):
                yield from self.read(left, env, so_far)
                yield from self.read(right, env, so_far)
            case s.Dict(entries=entries):
                for entry in entries:
                    deeper = so_far
                    for key in entry.keys:
                        deeper = _with(deeper, keys=self._term(key, env))
                    if "shared" in entry.marks:
                        deeper = _with(deeper, shared=True)
                    yield from self.read(entry.value, env, deeper)
            case _:
                yield self._leaf(e, env, so_far)

    def _leaf(self, e: s.Expr, env: Mapping[str, s.Expr], so_far: Piece) -> Piece:
        value = self._term(e, env)
        match value:
            case s.Number():
                pass
            case s.Apply(target=s.Name(name=name), keys=(_,)) if self._is_array(name):
                pass
            case _:
                raise StorageError(
                    "the value of a cell is one element of a physical array, or a literal",
                    hint="write { (i, j) -> V(place) }; computations belong into programs",
                )
        return Piece(so_far.cursors, so_far.tests, so_far.keys, value, so_far.shared)

    def _walk(self, g: s.Generator, env: Mapping[str, s.Expr]
              ) -> tuple[Cursor, dict[str, s.Expr]]:
        """The cursor of a generator, and what its two names stand for."""
        if len(g.keys) != 1:
            raise self._refuse("a generator over several keys walks a HASHMAP that is the mapping")
        self.count += 1
        key = g.keys[0]
        cursor = f"{key if key != '_' else 'c'}.{self.count}"
        at: s.Expr = s.Name(cursor)
        value = at
        source = g.source if not isinstance(g.source, s.Name) else env.get(g.source.name, g.source)
        match source:
            case s.Range(low=low, high=high):
                bounds = self._term(low, env), self._term(high, env)
            case s.Name(name=name) if self._is_array(name):
                bounds, value = (ZERO, self.physical.length(name)), s.Apply(source, (at,))
            case s.Slice(target=s.Name(name=name), low=low, high=high) if self._is_array(name):
                bounds = (self._term(low, env), self._term(high, env))
                value = s.Apply(source.target, (at,))
            case _:
                raise self._refuse("a mapping walks ranges, ARRAYs, sub-arrays, HASHMAPs, TRIEs")
        return Cursor(cursor, *bounds), {key: at, g.value: value}

    def _is_array(self, name: str) -> bool:
        return self.physical.form(name) in (None, "ARRAY")

    def _term(self, e: s.Expr, env: Mapping[str, s.Expr]) -> s.Expr:
        return substitute(e, env)

    def _refuse(self, what: str) -> StorageError:
        return StorageError(what, hint="see docs/reference/storage.md for the shape of mappings")


def _with(piece: Piece, cursors: Cursor | None = None, tests: s.Expr | None = None,
          keys: s.Expr | None = None, shared: bool = False) -> Piece:
    return Piece(
        piece.cursors if cursors is None else (*piece.cursors, cursors),
        piece.tests if tests is None else (*piece.tests, *_conjuncts(tests)),
        piece.keys if keys is None else (*piece.keys, keys),
        piece.value, piece.shared or shared,
    )


def _conjuncts(test: s.Expr) -> Iterator[s.Expr]:
    match test:
        case s.Binary(op="&&", left=left, right=right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield test


def _hashed(e: s.Expr, physical: Physical) -> Hashed | None:
    """``sum(<(i,j),v> in H) { (i,j) -> v }`` and the same over a trie's rows."""
    rows, order, source = {}, [], None  # type: ignore[var-annotated]
    while isinstance(e, s.Sum) and len(e.generators) == 1:
        g = e.generators[0]
        if not isinstance(g.source, s.Name) or len(g.keys) != 1:
            return None
        if source is None and physical.form(g.source.name) in ("HASHMAP", "TRIE"):
            source = g.source.name
        elif g.source.name not in rows or rows[g.source.name] != len(order):
            return None
        order.append(g.keys[0])
        rows[g.value] = len(order)
        e = e.body
    if source is None:
        return None
    keys: list[str] = []
    while isinstance(e, s.Dict) and len(e.entries) == 1 and all(
            isinstance(k, s.Name) for k in e.entries[0].keys):
        keys += [k.name for k in e.entries[0].keys]  # type: ignore[attr-defined]
        e = e.entries[0].value
    if not isinstance(e, s.Name) or rows.get(e.name) != len(order) or sorted(keys) != sorted(order):
        raise StorageError(
            f"a mapping over {source!r} gives each of its cells one key and its value",
            hint="sum(<(i,j),v> in H) { (i,j) -> v }, with the keys in any order",
        )
    return Hashed(source, tuple(keys.index(k) for k in order))
