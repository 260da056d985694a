"""Comprehensions over named tensors, lowered to one tensor of the calculus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tensorel import config as settings
from tensorel.comprehension import syntax as s
from tensorel.comprehension.functions import is_function
from tensorel.comprehension.parser import parse
from tensorel.comprehension.things import Array, Thing
from tensorel.comprehension.to_calculus import Lowering
from tensorel.comprehension.tokens import KEYWORDS
from tensorel.comprehension.type_maps import as_mapping
from tensorel.comprehension.writing import Writer
from tensorel.engines.programs import number_of
from tensorel.errors import TypeError_
from tensorel.front.array.base import Base, formed, from_stored, wrap
from tensorel.front.array.convert import asarray, source
from tensorel.front.languages.given_data import GivenData, settled
from tensorel.front.languages.program import lowered
from tensorel.front.languages.storage_mappings import Storage, storage
from tensorel.ir import nodes as ir
from tensorel.language.builder import Builder, Hints
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

HINTS = Hints(
    "say the extents: tensor(n, m)()[ ... ]",
    "bounds are made of numbers, whole scalars, keys and whole tensors",
    "say the shape; keys outside of it are left out")

_fresh = count()
#: Programs over tensors of some shapes, dtypes and fills that asked nothing of their data: the
#: same over others of these is the same formula.
_plain: set[object] = set()
MAX_PLAIN = 4096
#: Of a program: calls that are found again at once, and calls that ask what some tensors hold,
#: with the names of these. Programs over equal copies of them are the same.
MAX_KNOWN = 64


class _Known(NamedTuple):
    """A call of a program over tensors of certain kinds: ``about`` stands for both."""

    about: tuple[object, ...]
    build: Callable[..., ir.Tensor]
    wanted: str | Storage | None


class Program:
    """A program that is run many times. ``body``: its tree; ``text``: what errors mark."""

    def __init__(self, tree: s.Program | s.Expr, text: str = "") -> None:
        self.tree = tree if isinstance(tree, s.Program) else s.Program((), tree)
        self.text = text
        self.number = next(_fresh)
        self.known: dict[object, _Known] = {}
        self.settling: dict[object, tuple[str, ...]] = {}
        body = self.tree.body
        self.body = s.Stored((), (), body, inferred=True, at=body.at) if isinstance(
            body, s.Comprehension) else body
        maps = {m.name: m for m in self.tree.maps}
        self.mapping = maps.get(self.body.mapping) if isinstance(self.body, s.Stored) else None
        self.wanted = format_of(self.body) if isinstance(
            self.body, s.Stored) and not self.body.inferred and not self.body.mapping else None

    def __call__(self, env: Mapping[str, object], language: str = "comprehension") -> Tensor:
        """The lazy tensor over tensors and scalars by name."""
        kinds: list[object] = [language, settings.current().strict]
        operands: list[Tensor] = []
        for name, x in env.items():
            if type(x) is int:
                kinds += (name, x)
                continue
            data = x.program.data if isinstance(x, Base) else None
            if data is None or not data.shape:
                return self._called(env, language, None)
            kinds += (name, data.dtype, number_of(data))
            operands.append(x)  # type: ignore[arg-type]
        key = tuple(kinds)
        known = self.known.get(key)
        if known is None:
            return self._called(env, language, key)
        made = formed(known.about, known.build, *operands)
        made.program.wanted = known.wanted
        return made

    def _called(self, env: Mapping[str, object], language: str, key: object) -> Tensor:
        """``key``: under which the call is found again, if it asks nothing of its data."""
        whole, tensors = {}, {}
        for name, x in env.items():
            if type(x) is int:
                whole[name] = x
                continue
            t = asarray(x)
            if t.ndim == 0 and t.dtype.kind in "iu":
                whole[name] = int(t.to_numpy())
            else:
                tensors[name] = t
        strict = settings.current().strict
        fills = [ir.const(t.fill) for t in tensors.values()]
        about = (language, self.number, tuple(whole.items()), tuple(tensors), tuple(fills), strict)
        kinds = about, tuple([(t.shape, t.dtype, t.given is None) for t in tensors.values()])
        wanted = self.wanted if self.mapping is None else self._storage(whole)
        again = partial(self._again, whole, dict(zip(tensors, fills)), strict)
        names = self.settling.get(kinds)
        if names is not None:
            copies = {n: settled(t.given) for n, t in tensors.items()
                      if n in names and t.given is not None}
            tensors.update({n: from_stored(data) for n, data in copies.items()})
            tokens = tuple(map(_token, copies.values()))
            made = formed((*about, tokens), partial(again, {*copies.values()}), *tensors.values())
        elif kinds in _plain and tensors:
            build = partial(again, ())
            made = formed(about, build, *tensors.values())
            if key is not None:
                if len(self.known) >= MAX_KNOWN:
                    self.known.clear()
                self.known[key] = _Known((language, next(_fresh)), build, wanted)
        else:
            made = self._first(kinds, tensors, whole, strict, language)
        made.program.wanted = wanted
        return made

    def _storage(self, whole: Mapping[str, int]) -> Storage:
        """The storage that a type map is with these parameters."""
        assert self.mapping is not None and isinstance(self.body, s.Stored)
        build = Builder(self.text, GivenData(), HINTS)
        lowering = Lowering(build, Writer(_Data()))
        env = {n: ir.const(k, ir.INT64) for n, k in whole.items()}
        sizes = [lowering.extent(e, env) for e in self.body.dense]
        return storage(as_mapping(self.mapping, build.fail), name=self.mapping.name,
                       **dict(zip(self.mapping.params, sizes)))

    def _first(self, kinds: object, tensors: Mapping[str, Tensor], whole: Mapping[str, int],
               strict: bool, language: str) -> Tensor:
        computed: list[bool] = []
        about: set[Stored] = set()

        def lower(build: Builder, given: Mapping[str, Tensor]) -> ir.Tensor:
            data = _Data()
            node = self._node(build, {n: Array(t.node, ir.const(t.fill), n)
                                      for n, t in given.items()}, whole, data, strict)
            computed.append(data.asked)
            about.update(build.indices.data.asked)  # type: ignore[attr-defined]
            return node

        made = wrap(lowered(language, self.text, tensors, lower, HINTS))
        if any(computed):
            return made
        if not about:
            if len(_plain) >= MAX_PLAIN:
                _plain.clear()
            _plain.add(kinds)
        else:
            copies = {copy for data in about if (copy := data.derived.settled) is not None}
            names = tuple([n for n, t in tensors.items()
                           if t.given is not None and (
                               t.given in about or t.given.derived.settled in copies)])
            if len(self.settling) >= MAX_KNOWN:
                self.settling.clear()
            self.settling[kinds] = names
        return made

    def _again(self, whole: Mapping[str, int], fills: Mapping[str, ir.Const], strict: bool,
               known: Collection[Stored], *given: Any) -> ir.Tensor:
        """The node of a program that asks only what these hold."""
        arrays = {name: Array(q.node, fill, name) for (name, fill), q in zip(fills.items(), given)}
        return self._node(Builder(self.text, GivenData(known), HINTS), arrays, whole, _Data(),
                          strict)

    def _node(self, build: Builder, arrays: Mapping[str, Thing], whole: Mapping[str, int],
              data: _Data, strict: bool) -> ir.Tensor:
        env = dict(arrays) | {n: ir.const(k, ir.INT64) for n, k in whole.items()}
        found = Lowering(build, Writer(data), strict).of(self.body, env)
        if isinstance(found, Array):
            return found.node
        if not isinstance(found, ir.Expr):
            build.fail("a program is a tensor or a number", self.body.at)
        return build.formula([], found)


@lru_cache(maxsize=256)
def _program_of_text(text: str) -> Program:
    return Program(parse(text), text)


def tensor_of_text(text: str, env: Mapping[str, object]) -> Tensor:
    """The lazy tensor of a text."""
    _check_names(tuple(env))
    return _program_of_text(text)(env)


@lru_cache(maxsize=256)
def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if name in KEYWORDS or is_function(name):
            raise TypeError_(f"comprehension: {name!r} cannot be the name of a tensor",
                             hint="it is a word of the language; choose another name")


def tensor_of(tree: s.Program | s.Expr, env: Mapping[str, object], text: str = "",
              language: str = "comprehension") -> Tensor:
    """The lazy tensor of a tree over tensors and scalars by name."""
    return Program(tree, text)(env, language)


def _token(copy: Stored) -> int:
    """A number that stands for what a copy holds."""
    found = _tokens.get(copy)
    return _tokens.setdefault(copy, next(_fresh)) if found is None else found


_tokens: WeakKeyDictionary[Stored, int] = WeakKeyDictionary()


def format_of(e: s.Stored) -> str:
    """The format of a result: its first axes in full, the others by entries.

    >>> i = s.Name("i")
    >>> format_of(s.Stored((i,), (i,), i))
    'csr'
    """
    dense = len(e.dense)
    rank = dense + len(e.sparse)
    if rank == dense:
        return "dense"
    if not dense:
        return "coo"
    if (dense, rank) == (1, 2):
        return "csr"
    axes = list(map(str, range(rank)))
    return f"{','.join(axes[:dense])};{','.join(axes[dense:])}"


class _Data:
    """Answers by computing. ``asked``: whether it was asked."""

    def __init__(self) -> None:
        self.asked = False

    def value(self, tensor: ir.Tensor) -> npt.NDArray[Any]:
        self.asked = True
        return wrap(tensor).to_numpy()

    def largest(self, tensor: ir.Tensor) -> tuple[int, tuple[int, ...]]:
        self.asked = True
        counts = wrap(tensor).compute()
        most = int(counts.max().to_numpy()) if tensor.shape else int(counts.to_numpy())
        if most < 2 or not tensor.shape:
            return most, ()
        place = int(counts.argmax().to_numpy())
        return most, tuple(int(k) for k in np.unravel_index(place, tensor.shape))

    def codes(self, tensor: ir.Tensor, there: ir.Tensor) -> tuple[ir.Tensor, ir.Tensor]:
        self.asked = True
        entries = np.asarray(wrap(tensor).to_numpy())
        inside = np.asarray(wrap(there).to_numpy())
        values = np.unique(entries[inside])
        which = np.searchsorted(values, entries).astype(np.int64)
        which[which >= len(values)] = 0
        return source(values), source(which)


__all__ = ["Program", "format_of", "tensor_of", "tensor_of_text"]
