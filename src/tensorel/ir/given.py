"""Numbers that a program is given, and plans that hold for other numbers.

A plan is made with the numbers of one call: a scalar beside a tensor, a place, the start of a
slice. Each of them is a ``Given`` while it is planned. What is computed from one is a ``Given``
too, and the record of the program says how; what is decided by one (a comparison that is asked for
its truth) is a guard of the record. Nothing else can be learned of it: code that takes the bare
number, to print it or to make it part of a kernel, leaves a guard that fixes the number.

Law: with other numbers for which all guards come out the same (``Numbers.hold``), planning would
have taken the same way, so the plan is right with its numbers computed anew (``Numbers.of``).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from threading import RLock, local
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tensorel.base.forks import renewed

_lock = renewed(RLock())
NO_INTERVALS: Mapping[int, tuple[int, int]] = {}
P = ParamSpec("P")
R = TypeVar("R")


class _Estimates(local):
    """How many estimates this thread is inside of."""

    depth = 0


_estimates = _Estimates()


def estimate(f: Callable[P, R]) -> Callable[P, R]:
    """A function whose results are compared with other estimates and decide nothing else: sizes
    and costs. It may look at numbers without a guard: a plan that was chosen by them is right for
    other numbers, too, if perhaps not the cheapest."""

    @wraps(f)
    def estimated(*args: P.args, **kinds: P.kwargs) -> R:
        _estimates.depth += 1
        try:
            return f(*args, **kinds)
        finally:
            _estimates.depth -= 1

    return estimated


class Given:
    """A number of a program, or what was computed from some: ``raw`` is its value in the call that
    is planned, ``at`` its place in the record."""

    __slots__ = ("at", "raw", "record")

    def __init__(self, record: Record, at: int, raw: Any) -> None:
        self.record, self.at, self.raw = record, at, raw

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.asarray(self.raw).dtype if isinstance(self.raw, (int, float, complex)) \
            else self.raw.dtype

    def item(self) -> Any:
        """The same as a Python number."""
        return self.record.lifted(_item, self)

    def fixed(self) -> Any:
        """The bare number: from now on the plan holds for no other, unless it is an estimate that
        looks at it."""
        if not self.record.is_estimating():
            self.record.decide(self.record.lifted(is_same, self, self.raw))
        return self.raw

    def __bool__(self) -> bool:
        return self.record.decide(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kinds: Any) -> Any:
        if method == "__call__" and not kinds and ufunc.nout == 1 and not any(
                np.ndim(x) for x in inputs if type(x) is not Given):
            return self.record.lifted(ufunc, *inputs)
        bare = [x.fixed() if type(x) is Given else x for x in inputs]
        return getattr(ufunc, method)(*bare, **kinds)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.fixed(), name)

    def __hash__(self) -> int:
        return id(self) >> 4


def _define() -> None:
    def binary(f: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return (lambda a, b: a.record.lifted(f, a, b)), (lambda a, b: a.record.lifted(f, b, a))

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift",
                 "and_", "or_", "xor"):
        plain, reflected = binary(getattr(operator, name))
        bare = name.rstrip("_")
        setattr(Given, f"__{bare}__", plain)
        setattr(Given, f"__r{bare}__", reflected)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Given, f"__{name}__", binary(getattr(operator, name))[0])
    for name in ("neg", "pos", "abs", "invert"):
        f = getattr(operator, name)
        setattr(Given, f"__{name}__", lambda a, f=f: a.record.lifted(f, a))
    for name, f in (("int", int), ("index", operator.index), ("float", float), ("round", round),
                    ("complex", complex), ("array", np.asarray), ("repr", repr), ("str", str),
                    ("format", format)):
        setattr(Given, f"__{name}__", lambda a, *more, f=f: f(a.fixed(), *more))


_define()


def plain(number: Any) -> Any:
    """The bare number for people to read, or for estimates that decide nothing: no guard."""
    return number.raw if type(number) is Given else number


def is_given(number: object) -> bool:
    """Whether it is a number that plans are given; types say what it stands for."""
    return type(number) is Given


def about(extents: Iterable[int]) -> float:
    """How many cells there are about, for estimates."""
    return math.prod([float(plain(n)) for n in extents])


def lifted(f: Callable[..., Any], *args: Any) -> Any:
    """``f(*args)``; computed again for other numbers where one of the arguments is given."""
    for a in args:
        if type(a) is Given:
            return a.record.lifted(f, *args)
    return f(*args)


def _item(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def is_same(x: Any, y: Any) -> bool:
    """Whether two numbers are the same bit by bit."""
    return type(x) is type(y) and _spelled(x) == _spelled(y)


def _spelled(x: object) -> object:
    """What stands for an argument: zeros have signs, nan is nan, and 1 is not 1.0."""
    if isinstance(x, (np.generic, np.ndarray)):
        return x.dtype.str, x.tobytes()
    return type(x), x.hex() if isinstance(x, float) else x


Interval = tuple[int, int]
ASKED_BEFORE_WRITTEN = 4  # times that the same guards were asked
_MONOTONE = frozenset((operator.add, operator.sub, operator.mul))  # in each argument
_ORDERS = frozenset((operator.lt, operator.le, operator.gt, operator.ge))
_EQUALITIES = frozenset((operator.eq, operator.ne))


class Record:
    """How numbers of a program were used while it was planned. ``intervals``: of some numbers,
    where all that the plan is used for lie: comparisons that come out the same there need no
    guard. ``estimated``: estimates looked at the numbers, so sizes of the plan are of these."""

    def __init__(self, numbers: Sequence[Any], intervals: Mapping[int, Interval] = NO_INTERVALS
                 ) -> None:
        self.estimated, self.intervals = bool(intervals), dict(intervals)
        self.guards: dict[int, bool] = {}
        self.steps: list[tuple[Callable[..., Any], tuple[Any, ...]] | None] = [None] * len(numbers)
        self._given = [Given(self, k, raw) for k, raw in enumerate(numbers)]
        self._known: dict[object, Given] = {}
        self._check: tuple[int, Callable[[dict[int, Any]], bool]] | None = None
        self._asked = self._asked_guards = 0
        self.numbers = tuple(self._given)

    def is_estimating(self) -> bool:
        """Whether this thread looks at the numbers for an estimate, without a guard."""
        if _estimates.depth > 0:
            self.estimated = True
            return True
        return False

    def lifted(self, f: Callable[..., Any], *args: Any) -> Given:
        """What ``f`` gives; the same for the same arguments."""
        args = tuple([a.fixed() if type(a) is Given and a.record is not self else a for a in args])
        key = (f, *[a if type(a) is Given else _spelled(a) for a in args])
        with _lock:
            found = self._known.get(key)
            if found is None:
                try:
                    with np.errstate(all="ignore"):
                        raw = f(*[a.raw if type(a) is Given else a for a in args])
                except Exception:
                    for a in args:
                        if type(a) is Given:
                            a.fixed()
                    raise
                found = self._known[key] = Given(self, len(self.steps), raw)
                if self.intervals:
                    self._enclose(found.at, f, args)
                self.steps.append((f, args))
        return found

    def decide(self, found: Given) -> bool:
        """The truth of it, which others must share for the plan to be theirs."""
        truth = bool(found.raw)
        if (self.intervals and self._is_sure(found)) or self.is_estimating():
            return truth
        if self.steps[found.at] is not None or found.at not in self.guards:
            self.guards[found.at] = truth
        return truth

    def check(self) -> tuple[int, Callable[[dict[int, Any]], bool]] | None:
        """How many guards there are, and a function that asks all of them, of numbers by their
        places, to which it adds what it computes; None while guards may be added.

        The steps that guards need are written as one function: a call for each of them costs
        several times what the steps do."""
        with _lock:
            count = len(self.guards)
            if self._check is not None and self._check[0] == count:
                return self._check
            self._asked = self._asked + 1 if self._asked_guards == count else 0
            self._asked_guards = count
            if self._asked >= ASKED_BEFORE_WRITTEN:
                self._check = count, _written(self.steps, dict(self.guards))
                return self._check
        return None

    def _interval(self, x: Any) -> Interval | None:
        if type(x) is Given:
            return self.intervals.get(x.at)
        return (x, x) if type(x) is int else None

    def _enclose(self, at: int, f: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Note where a number lies that follows from others."""
        if f is _item or (f in _MONOTONE and all(
                type(a.raw if type(a) is Given else a) is int for a in args)):
            known = [self._interval(a) for a in args]
            if None not in known:
                corners = [f(*c) for c in itertools.product(*known)]  # type: ignore[arg-type]
                self.intervals[at] = min(corners), max(corners)

    def _is_sure(self, found: Given) -> bool:
        """Whether the truth is the same wherever the numbers lie."""
        own = self.intervals.get(found.at)
        if own is not None:
            return own[0] > 0
        f, args = self.steps[found.at] or (None, ())
        if f not in _ORDERS and f not in _EQUALITIES:
            return False
        a, b = map(self._interval, args)
        if a is None or b is None:
            return False
        if f in _EQUALITIES:
            return a[1] < b[0] or b[1] < a[0]
        return len({f(x, y) for x in a for y in b}) == 1


def _written(steps: Sequence[tuple[Callable[..., Any], tuple[Any, ...]] | None],
             guards: Mapping[int, bool]) -> Callable[[dict[int, Any]], bool]:
    """A function of numbers by their places that computes the steps which guards need, in order,
    and says whether all guards come out the same."""
    needed: set[int] = set()
    stack = list(guards)
    while stack:
        at = stack.pop()
        if at not in needed:
            needed.add(at)
            stack += [a.at for a in (steps[at] or (None, ()))[1] if type(a) is Given]
    names: dict[str, Any] = {}
    lines = ["def check(found):"]
    for at in sorted(needed):  # a step follows those that it rests on
        step = steps[at]
        if step is None:
            lines.append(f"    v{at} = found[{at}]")
        else:
            f, args = step
            names |= {f"f{at}": f} | {f"c{at}_{k}": a for k, a in enumerate(args)}
            given = [f"v{a.at}" if type(a) is Given else f"c{at}_{k}" for k, a in enumerate(args)]
            lines.append(f"    v{at} = found[{at}] = f{at}({', '.join(given)})")
        if at in guards:
            lines.append(f"    if {'not ' if guards[at] else ''}v{at}: return False")
    exec("\n".join([*lines, "    return True"]), names)
    check: Callable[[dict[int, Any]], bool] = names["check"]
    return check


class Numbers:
    """The numbers of another call, and what follows from them."""

    __slots__ = ("_found", "_guarded", "record")

    def __init__(self, record: Record, numbers: Sequence[Any]) -> None:
        self.record = record
        self._found: dict[int, Any] = dict(enumerate(numbers))
        self._guarded = 0

    def of(self, number: Any) -> Any:
        """The number that stands here in place of one of the plan's."""
        return self._at(number.at) if type(number) is Given else number

    def _at(self, at: int) -> Any:
        found = self._found.get(at, self)
        if found is self:
            step = self.record.steps[at]
            assert step is not None
            f, args = step
            found = self._found[at] = f(
                *[self._at(a.at) if type(a) is Given else a for a in args])
        return found

    def hold(self) -> bool:
        """Whether all guards come out as they did; those that did are not asked again."""
        guards = self.record.guards
        if len(guards) == self._guarded:
            return True
        known = self._guarded
        written = self.record.check() if not known else None
        try:
            with np.errstate(all="ignore"):
                if written is not None:
                    if not written[1](self._found):
                        return False
                    self._guarded = written[0]
                    return True
                asked = list(guards.items())[known:]
                for at, truth in asked:
                    if bool(self._at(at)) is not truth:
                        return False
        except Exception:  # planning with these numbers would have gone another way
            return False
        self._guarded = known + len(asked)
        return True
