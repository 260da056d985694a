"""``tr.advise``: which storages of each tensor are worth keeping for a set of programs.

Programs are planned, not run: with a set of storages for each tensor, a plan reads the one that
suits it. First every tensor gets the one storage that makes all programs cheapest; then the storage
that saves most is added, as long as memory is left; at the end storages go without which nothing
costs more."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

from tensorel import config as settings
from tensorel.base.records import dataclass
from tensorel.engines.registry import engine_of
from tensorel.errors import MemoryLimitError, TypeError_
from tensorel.front.array.base import from_stored
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.array.tensor import Tensor
from tensorel.front.languages.sdql import sdql
from tensorel.ir.nodes import Source
from tensorel.storage.convert import to_format
from tensorel.storage.format import FormatLike
from tensorel.storage.limits import show_bytes
from tensorel.storage.registry import dense_bytes, resolve
from tensorel.storage.stored import Stored

Program = str | Callable[..., object]
Taken = Callable[..., object]  # of all tensors, by name
#: A tensor's name and the storages that are kept of it.
Kept = dict[str, tuple[Stored, ...]]
MIN_SAVED_SHARE = 0.02  # of the cost, that an added storage saves


@dataclass(frozen=True)
class Advice:
    """What to keep. ``storages``: formats by tensor. ``cost``, ``before``: about seconds for all
    programs on one thread, with these storages and with those that were given."""

    storages: dict[str, tuple[str, ...]]
    cost: float
    before: float
    bytes: int
    programs: tuple[tuple[str, float, float], ...]
    kept: Kept

    def tensors(self) -> dict[str, Tensor]:
        """The tensors, each in the storages to keep."""
        return {name: _alternatives(found) for name, found in self.kept.items()}

    def __str__(self) -> str:
        lines = [f"{name}: keep {', '.join(formats)}" for name, formats in self.storages.items()]
        lines.append(f"memory: {show_bytes(self.bytes)}")
        lines += [f"{name}: about {before * 1e3:.3g} ms as given, {after * 1e3:.3g} ms with these"
                  for name, before, after in self.programs]
        return "\n".join(lines)


def advise(
    programs: Mapping[str, Program] | Sequence[Program],
    tensors: Mapping[str, object],
    memory: str | float | None = None,
    *,
    storages: Mapping[str, Sequence[FormatLike]] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Advice:
    """Which storages of ``tensors`` to keep for ``programs``, within ``memory`` bytes.

    A program is SDQLite text over the names of the tensors, or a function whose parameters have
    these names; it may take some of them only, and returns a tensor that is not computed yet.
    ``storages`` adds candidates (formats, storage mappings) by tensor; ``weights`` says how often
    a program runs beside the others.

    >>> import numpy as np, tensorel as tr
    >>> A = tr.asarray(np.eye(200)).to_format("coo")
    >>> found = tr.advise([lambda A, x: A @ x, lambda A, x: A.T @ x], {"A": A, "x": np.ones(200)})
    >>> sorted(found.storages) == ["A", "x"] and found.cost <= found.before
    True
    """
    if callable(programs) or isinstance(programs, (str, Tensor)):
        programs = [programs]
    named = dict(programs) if isinstance(programs, Mapping) else {
        f"program {k + 1}": p for k, p in enumerate(programs)}
    if not named:
        raise TypeError_("advise takes at least one program")
    for about, names, all_ in (("storages", storages, tensors), ("weights", weights, named)):
        for name in set(names or ()) - set(all_):
            raise TypeError_(f"advise: {about} are given for {name!r}, which is none of "
                             f"{', '.join(map(repr, all_))}")
    wanted = {name: _taken(name, p, tensors) for name, p in named.items()}
    given = {name: stored_of(asarray(t)) for name, t in tensors.items()}
    config = settings.current() if memory is None else settings.with_overrides(
        settings.current(), memory=memory)
    adviser = _Adviser(wanted, given, {n: (weights or {}).get(n, 1.0) for n in named}, config)
    return adviser.run({
        name: _candidates(stored, (storages or {}).get(name, ()), config.memory)
        for name, stored in given.items()})


def _taken(name: str, program: object, tensors: Mapping[str, object]) -> Taken:
    """A program as a function of all tensors; functions get those that they name."""
    if isinstance(program, str):
        return lambda **given: sdql(program, **given)
    if not callable(program):
        raise TypeError_(f"advise: {name} is a {type(program).__name__}, not text or a function",
                         hint="write lambda A, x: A @ x, with the names of the tensors")
    try:
        parameters = inspect.signature(program).parameters.values()
    except (TypeError, ValueError):  # built-in functions may not tell
        return program
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return program
    names = [p.name for p in parameters if p.name in tensors]
    for p in parameters:
        if p.name not in tensors and p.default is p.empty and p.kind is not p.VAR_POSITIONAL:
            raise TypeError_(f"advise: {name} takes {p.name!r}, which is none of the tensors "
                             f"{', '.join(map(repr, tensors))}")
    return lambda **given: program(**{n: given[n] for n in names})


def _alternatives(stored: Sequence[Stored]) -> Tensor:
    first = stored[0]
    return from_stored(Stored(
        first.format, first.shape, first.dtype, first.fill, first.arrays,
        alternatives=tuple(stored[1:])))


def _candidates(stored: Stored, more: Sequence[FormatLike], limit: float) -> list[Stored]:
    """The tensor as it is and in other storages, each once; those that do not fit are left out."""
    rank = len(stored.shape)
    names: list[FormatLike] = ["coo"] if rank else []
    if rank == 2:
        names = ["csr", "csc", "dcsr", "dcsc", "coo"]
    elif rank > 2:
        orders = permutations(range(rank)) if rank < 4 else [tuple(range(rank))]
        names = [f"csf({','.join(map(str, order))})" for order in orders]
    if dense_bytes(stored.shape, stored.dtype) <= min(limit, 8 * stored.nbytes + 2**16):
        names += ["dense", "dense_f"] if rank > 1 else ["dense"]
    found = [stored]
    for name in (*names, *more):
        if resolve(name, stored.shape, stored.dtype) not in [s.format for s in found]:
            made = to_format(stored, name)
            if made.nbytes <= limit and made.format not in [s.format for s in found]:
                found.append(made)
    return found


@dataclass
class _Adviser:
    programs: dict[str, Taken]
    given: dict[str, Stored]
    weights: dict[str, float]
    config: settings.Config

    def __post_init__(self) -> None:
        self._known: dict[object, float] = {}

    def run(self, candidates: dict[str, list[Stored]]) -> Advice:
        before: Kept = {n: (s,) for n, s in self.given.items()}
        kept = self._single(candidates)
        kept = self._added(kept, candidates)
        kept = self._without_idle(kept)
        if _bytes(kept) > self.config.memory:
            raise MemoryLimitError(
                f"the smallest storages of these tensors take {_bytes(kept)} bytes; the limit is "
                f"{self.config.memory}", needed=_bytes(kept), limit=self.config.memory,
                step="advise", hint="give more memory, or fewer tensors")
        return Advice(
            {n: tuple(s.format.text for s in found) for n, found in kept.items()},
            self._total(kept) / 1e9, self._total(before) / 1e9, _bytes(kept),
            tuple((n, self._cost(n, before) / 1e9, self._cost(n, kept) / 1e9)
                  for n in self.programs), kept)

    def _single(self, candidates: dict[str, list[Stored]]) -> Kept:
        """One storage each: the smallest that fit, then, one tensor after another, the best."""
        kept: Kept = {n: (min(found, key=lambda s: s.nbytes),) for n, found in candidates.items()}
        for name in sorted(candidates, key=lambda n: -self.given[n].nbytes):
            ways = [kept | {name: (s,)} for s in candidates[name]]
            ways = [way for way in ways if _bytes(way) <= self.config.memory] or [kept]
            kept = min(ways, key=lambda way: (self._total(way), _bytes(way)))
        return kept

    def _added(self, kept: Kept, candidates: dict[str, list[Stored]]) -> Kept:
        while True:
            now = self._total(kept)
            ways = [kept | {name: (*kept[name], s)} for name, found in candidates.items()
                    for s in found if s not in kept[name]]
            ways = [way for way in ways if _bytes(way) <= self.config.memory]
            best = min(ways, key=self._total, default=kept)
            if best is kept or self._total(best) > (1 - MIN_SAVED_SHARE) * now:
                return kept
            kept = best

    def _without_idle(self, kept: Kept) -> Kept:
        """Storages without which nothing costs more, the largest first."""
        for name, found in kept.items():
            for s in sorted(found, key=lambda s: -s.nbytes):
                rest = tuple(x for x in kept[name] if x is not s)
                if rest and self._total(kept | {name: rest}) <= 1.001 * self._total(kept):
                    kept = kept | {name: rest}
        return kept

    def _total(self, kept: Kept) -> float:
        return sum(self.weights[n] * self._cost(n, kept) for n in self.programs)

    def _cost(self, name: str, kept: Kept) -> float:
        """About nanoseconds of one run of a program, by its plan."""
        key = name, tuple((n, tuple(map(id, found))) for n, found in kept.items())
        if key not in self._known:
            tensors = {n: _alternatives(found) for n, found in kept.items()}
            made = asarray(self.programs[name](**tensors))
            if isinstance(made.node, Source):
                raise TypeError_(f"advise: {name} gives a tensor that is computed already",
                                 hint="return the formula, without compute()")
            self._known[key] = engine_of(self.config.engine).prepare(
                [made.node], self.config, [None]).plan.cost
        return self._known[key]


def _bytes(kept: Kept) -> int:
    return sum(s.nbytes for found in kept.values() for s in found)
