"""Comprehensions over named tensors, lowered to one tensor of the calculus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

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
from tensorel.comprehension.writing import Answers, Writer
from tensorel.engines.programs import number_of
from tensorel.errors import TypeError_
from tensorel.front.array.base import Base, formed, from_stored, wrap
from tensorel.front.array.convert import asarray, source
from tensorel.front.languages.given_data import Answered, GivenData, Question, settled
from tensorel.front.languages.program import lowered
from tensorel.front.languages.storage_mappings import Storage, storage
from tensorel.ir import nodes as ir
from tensorel.language.builder import Builder, Hints

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
#: Of a program: calls that are found again at once, and calls that ask what some tensors hold, with
#: the questions. Where the answers are the same, so is the program.
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
        self.settling: dict[object, tuple[Question, ...]] = {}
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
        about: tuple[object, ...] = (
            language, self.number, tuple(whole.items()), tuple(tensors), tuple(fills), strict)
        kinds = about, tuple([(t.shape, t.dtype, t.given is None) for t in tensors.values()])
        wanted = self.wanted if self.mapping is None else self._storage(whole)
        again = partial(self._again, whole, dict(zip(tensors, fills)), strict)
        questions = self.settling.get(kinds)
        if questions is not None:
            try:
                made = self._answered(about, again, dict(tensors), questions)
            except _AskedError:
                made = self._first(kinds, tensors, whole, strict, language)
        elif kinds in _plain and tensors:
            build = partial(again, tuple(tensors), ())
            if key is not None:
                if len(self.known) >= MAX_KNOWN:
                    self.known.clear()
                about = language, next(_fresh)
                self.known[key] = _Known(about, build, wanted)
            made = formed(about, build, *tensors.values())
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
        data = GivenData()

        def lower(build: Builder, given: Mapping[str, Tensor]) -> ir.Tensor:
            nonlocal data
            answers, data = _Data(), build.indices.data  # type: ignore[assignment]
            node = self._node(build, {n: Array(t.node, ir.const(t.fill), n)
                                      for n, t in given.items()}, whole, answers, strict)
            computed.append(answers.asked)
            return node

        made = wrap(lowered(language, self.text, tensors, lower, HINTS))
        if any(computed):
            return made
        if not data.questions:
            if len(_plain) >= MAX_PLAIN:
                _plain.clear()
            _plain.add(kinds)
            return made
        names = {t.given.derived.settled or t.given: n for n, t in tensors.items()
                 if t.given is not None}
        if all(copy in names for _, copy, _ in data.questions):
            if len(self.settling) >= MAX_KNOWN:
                self.settling.clear()
            self.settling[kinds] = tuple([
                (word, names[copy], extent) for word, copy, extent in data.questions])
        return made

    def _answered(self, about: tuple[object, ...], again: Callable[..., ir.Tensor],
                  tensors: dict[str, Tensor], questions: Sequence[Question]) -> Tensor:
        """The program over tensors whose data are asked these questions: the same wherever the
        answers are. Matrices that are made of the data are more operands."""
        data, found = GivenData(), list[Any]()
        matrices: list[Tensor] = []
        for name in {name for _, name, _ in questions}:
            stored = tensors[name].given
            assert stored is not None
            tensors[name] = from_stored(settled(stored))
        for word, name, extent in questions:
            node = tensors[name].node
            if word == "entries":
                found.append(data.entries(node))
                continue
            matrix = data.places(node, extent) if word == "places" else data.segments(node, extent)
            found.append(None if matrix is None else (len(matrices), 0))
            matrices += [] if matrix is None else [from_stored(matrix.data)]  # type: ignore
        answers = tuple(zip(questions, found))
        return formed((*about, answers), partial(again, tuple(tensors), answers),
                      *tensors.values(), *matrices)

    def _again(self, whole: Mapping[str, int], fills: Mapping[str, ir.Const], strict: bool,
               names: Sequence[str], answers: Sequence[tuple[Question, Any]], *given: Any
               ) -> ir.Tensor:
        """The node of a program over these, and over matrices that are among the answers."""
        arrays = {n: Array(q.node, fills[n], n) for n, q in zip(names, given)}
        found = {question: given[len(names) + answer[0]].node
                 if answer is not None and question[0] != "entries" else answer
                 for question, answer in answers}
        data = Answered({a.node: n for n, a in arrays.items()}, found)
        return self._node(Builder(self.text, data, HINTS), arrays, whole, _Silent(), strict)

    def _node(self, build: Builder, arrays: Mapping[str, Thing], whole: Mapping[str, int],
              data: Answers, strict: bool) -> ir.Tensor:
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


class _Silent:
    """Nothing is computed while a program is built whose questions are known."""

    def value(self, tensor: ir.Tensor) -> npt.NDArray[Any]:
        raise _AskedError

    def largest(self, tensor: ir.Tensor) -> tuple[int, tuple[int, ...]]:
        raise _AskedError

    def codes(self, tensor: ir.Tensor, there: ir.Tensor) -> tuple[ir.Tensor, ir.Tensor]:
        raise _AskedError


class _AskedError(Exception):
    """Other answers have led to other questions."""


__all__ = ["Program", "format_of", "tensor_of", "tensor_of_text"]
