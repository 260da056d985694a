"""A program, or a part of one, that is compiled as a whole: its parameters, arrays and results."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorel.algebra.bulk import record_field, record_starts
from tensorel.base.records import cached_property, dataclass
from tensorel.errors import ShapeError, UnsupportedError, ValueError_
from tensorel.loops import meaning
from tensorel.loops.analysis.assignment import Assignment
from tensorel.loops.analysis.bounds import Analysis
from tensorel.loops.analysis.facts import Facts
from tensorel.loops.origin import Origin
from tensorel.loops.syntax import (
    Allocate,
    Assign,
    Body,
    Copy,
    Expr,
    For,
    If,
    Name,
    Return,
    While,
    assigned_names,
    stored_arrays,
    walk,
)
from tensorel.loops.types import ArrayOf, Scalar, Type, join
from tensorel.loops.typing import Typing

Shape = tuple[int, ...]
_MAX_LAUNCHES = 8


@dataclass(frozen=True, slots=True)
class Storage:
    """Arrays that share memory because their names are given to each other, so that names move
    between ``slots`` of one size. ``sites``: the statements that make one, None for parameters;
    ``given``: parameters among them; a class that is ``lent`` is a parameter that nobody writes."""

    name: str
    names: tuple[str, ...]
    type: ArrayOf
    sites: tuple[Allocate | Copy | None, ...]
    given: tuple[str, ...]
    lent: bool
    slots: int


class Unit:
    """Statements with the types of their parameters. ``results``: the variables that hold the
    results at the end; None: what the statements return.

    identity: equal for equal programs, also in another process. whole: the types of variables in
    the program that this is a part of.
    """

    def __init__(self, identity: Hashable, origin: Origin, body: Body,
                 parameters: Sequence[tuple[str, Type]],
                 results: tuple[str, ...] | None = None,
                 whole: tuple[tuple[str, Type], ...] = ()) -> None:
        self.identity = (identity, tuple(parameters), results)
        self.whole = whole
        self.origin = origin
        self.body = body
        self.parameters = tuple(parameters)
        self.results = results
        self._hash = hash(self.identity)
        self._launches: dict[object, Launch] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unit) and (
            self is other or (self._hash == other._hash and self.identity == other.identity))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Unit, (self.identity[0], self.origin, self.body, self.parameters, self.results,
                      self.whole)

    def __repr__(self) -> str:
        lines = [s.line for s in walk(self.body)]
        where = f"lines {min(lines)}-{max(lines)}" if lines else "nothing"
        return f"{self.origin.name}: {where} in order"

    def interpret(self, args: Sequence[Any], record: Any) -> Any:
        """The record of the results by the meaning of the statements."""
        env = {n: np.array(a) if isinstance(t, ArrayOf) else _number(a, t)
               for (n, t), a in zip(self.parameters, args)}
        found = meaning.run(self.body, env)
        if self.results is not None:
            found = tuple([env[n] for n in self.results])
        made = np.zeros(record_starts(record)[-1], np.uint8)
        for k, value in enumerate(found or ()):
            record_field(made, record, k)[...] = value
        return made

    # -- types -------------------------------------------------------------------------------
    @cached_property
    def typing(self) -> Typing:
        return Typing(self.origin, self.body, {**dict(self.whole), **dict(self.parameters)})

    @cached_property
    def assignment(self) -> Assignment:
        return Assignment(self.body, [n for n, _ in self.parameters])

    @cached_property
    def returns(self) -> tuple[Return, ...]:
        return tuple([s for s in walk(self.body) if isinstance(s, Return)])

    @cached_property
    def result_types(self) -> tuple[Type, ...]:
        """Of what is returned; the statements agree."""
        typing = self.typing
        if self.results is not None:
            return tuple([typing.names[n] for n in self.results])
        if not self.returns:
            line = self.body[0].line if self.body else self.origin.first
            self.origin.refuse("nothing is returned", line,
                               "arguments are never changed: return what was written")
        found: list[Type] = []
        for stmt in self.returns:
            types = [self._returned(v) for v in stmt.values]
            before = found or types
            both = [join(a, b) for a, b in zip(before, types)]
            if len(types) != len(before) or None in both or \
                    stmt.single != self.returns[0].single:
                self.origin.refuse("all returns must give values of the same types", stmt.line)
            found = [t for t in both if t is not None]
        return tuple(found)

    def _returned(self, e: Expr) -> Type:
        if isinstance(e, Name) and isinstance(self.typing.names.get(e.name), ArrayOf):
            return self.typing.names[e.name]
        return self.typing.number(e)

    def launch(self, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Launch:
        """A call with arrays of these shapes and these numbers; the last ones are remembered."""
        key = tuple(shapes.items()), tuple([(n, type(v), v) for n, v in numbers.items()])
        found = self._launches.get(key)
        if found is None:
            if len(self._launches) >= _MAX_LAUNCHES:
                self._launches.clear()
            found = self._launches[key] = Launch(self, shapes, numbers)
        return found

    # -- arrays ------------------------------------------------------------------------------
    @cached_property
    def storages(self) -> dict[str, Storage]:
        """For each array the class of names that it belongs to."""
        types, root = self.typing.names, {}
        for name, t in types.items():
            if isinstance(t, ArrayOf):
                root[name] = name
        sites: dict[str, list[Allocate | Copy | None]] = {n: [] for n in root}
        given = [n for n, t in self.parameters if isinstance(t, ArrayOf)]
        for n in given:
            sites[n].append(None)
        for stmt in walk(self.body):
            match stmt:
                case Assign(name=a, value=Name(name=b)) if a in root:
                    _unite(root, a, b)
                case Allocate() | Copy():
                    sites[stmt.name].append(stmt)
        classes: dict[str, list[str]] = {}
        for name in root:
            classes.setdefault(_find(root, name), []).append(name)
        looped = {id(s) for loop in walk(self.body) if isinstance(loop, For | While)
                  for s in walk(loop.body)}
        written = stored_arrays(self.body)
        found: dict[str, Storage] = {}
        for names in classes.values():
            made = _storage(names, [s for n in names for s in sites[n]],
                            [n for n in names if n in given], bool(written & {*names}),
                            types[names[0]], looped)
            found |= dict.fromkeys(names, made)
        return found


def _number(value: Any, t: Scalar) -> Any:
    found = np.asarray(value)[()]
    return found.item() if t.weak else found


def _storage(names: list[str], sites: list[Allocate | Copy | None], given: list[str],
             written: bool, type_: Any, looped: set[int]) -> Storage:
    lent = sites == [None] and not written
    once = len(sites) == 1 and id(sites[0]) not in looped
    slots = 1 if once or len(names) == 1 else len(names)
    return Storage(names[0], tuple(names), type_, tuple(sites), tuple(given), lent, slots)


def _find(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        name = root[name]
    return name


def _unite(root: dict[str, str], a: str, b: str) -> None:
    root[_find(root, a)] = _find(root, b)


class Launch:
    """What is known when a unit is called with these arguments: numbers that stay as they are, and
    the extents of all arrays."""

    def __init__(self, unit: Unit, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> None:
        self.unit = unit
        counts = assigned_names(unit.body)
        self.numbers = {n: v for n, v in numbers.items() if n not in counts}
        self.shapes: dict[str, Shape] = {}
        storages = unit.storages
        for name, shape in shapes.items():
            self._shape(storages[name], shape, unit.origin.first)
        self._once = {n for n, c in counts.items() if c == 1}.difference(dict(unit.parameters))
        sites = [s for s in walk(unit.body) if isinstance(s, Allocate | Copy)]
        before = -1
        while len(self.shapes) + len(self.numbers) != before:
            before = len(self.shapes) + len(self.numbers)
            self._follow(dict(numbers))
        for stmt in sites:
            if stmt.name not in self.shapes:
                unit.origin.refuse(
                    "the shape of an array must be known when the program is called", stmt.line,
                    "make it of numbers among the parameters and of extents of arrays")

    @cached_property
    def analysis(self) -> Analysis:
        unit = self.unit
        found = Analysis(unit.typing, self.numbers, self.shapes, unit.storages)
        found.run(unit.body)
        return found

    @property
    def facts(self) -> Facts:
        """What holds wherever an expression is evaluated."""
        return self.analysis.facts

    @property
    def work(self) -> int | None:
        """At most so many statements are done, if that is known."""
        return self.analysis.work if self.analysis.is_bounded else None

    def _follow(self, env: dict[str, Any]) -> None:
        """The statements at the top with the numbers that are known at each."""
        for stmt in self.unit.body:
            inner = walk([stmt]) if isinstance(stmt, For | While | If) else iter([stmt])
            inside = list(inner)
            for name in assigned_names([stmt]) if len(inside) > 1 else ():
                env.pop(name, None)
            shaped = {**{n: _Shaped(s) for n, s in self.shapes.items()}, **env}
            for s in inside:
                if isinstance(s, Allocate | Copy):
                    shape = self._extents(s, shaped)
                    if shape is not None:
                        self._shape(self.unit.storages[s.name], shape, s.line)
            if isinstance(stmt, Assign):
                found = _value(stmt.value, shaped)
                env.pop(stmt.name, None)
                if found is not None and not isinstance(found, _Shaped):
                    env[stmt.name] = found
                    if stmt.name in self._once:
                        self.numbers[stmt.name] = found

    @property
    def result_shapes(self) -> tuple[Shape, ...]:
        unit = self.unit
        assert unit.result_types is not None  # there are returns, and they agree
        if unit.results is not None:
            return tuple([self.shapes.get(n, ()) for n in unit.results])
        found = [tuple([self.shapes.get(v.name, ()) if isinstance(v, Name) else ()
                        for v in stmt.values]) for stmt in unit.returns]
        for shapes, stmt in zip(found, unit.returns):
            if shapes != found[0]:
                unit.origin.fail(ShapeError, f"arrays of shapes {shapes} are returned here and of "
                                 f"shapes {found[0]} elsewhere", stmt.line)
        return found[0]

    def _shape(self, storage: Storage, shape: Shape, line: int) -> None:
        known = self.shapes.get(storage.name)
        if known is not None and known != shape:
            self.unit.origin.fail(
                UnsupportedError, f"{' and '.join(n for n in storage.names if n[0] != '.')} name "
                f"arrays of shapes {known} and {shape}", line,
                "arrays that are given each other's names must have one shape")
        for name in storage.names:
            self.shapes[name] = shape

    def _extents(self, stmt: Allocate | Copy, env: Mapping[str, Any]) -> Shape | None:
        if isinstance(stmt, Copy) or stmt.like is not None:
            return self.shapes.get(stmt.source if isinstance(stmt, Copy) else stmt.like or "")
        found = [_value(e, env) for e in stmt.extents]
        if None in found:
            return None
        shape = tuple([int(n) for n in found])
        if any(n < 0 for n in shape):
            self.unit.origin.fail(ValueError_, f"an array of shape {shape}", stmt.line)
        return shape


class _Shaped:
    """An array of which only the shape is known: entries are not."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def __getitem__(self, at: object) -> Any:
        raise meaning.Unknown(str(at))


def _value(e: Expr, env: Mapping[str, Any]) -> Any:
    """The value of an expression, None if it is not known."""
    try:
        with np.errstate(all="ignore"):
            return meaning.evaluate(e, env)
    except (meaning.Unknown, ArithmeticError, ValueError, IndexError, TypeError):
        return None
