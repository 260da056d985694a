"""What a program says, over Python dictionaries, as directly as it can be said: the oracle.

It shares nothing with the compiler. A comprehension is the list of all choices, one after another;
a group is a list of its members; a tensor is a dictionary of its cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.comprehension import syntax as s

Env = dict[str, Any]
Key = tuple[int, ...]
#: How many members the groups around have.
MEMBERS = " members"


_NONE: set[str] = set()


class MeaningError(Exception):
    """A program without a meaning: a clash, a value where a list is needed, ..."""


class ClashError(MeaningError):
    """Two choices write one cell."""


@dataclass
class Cells:
    """A tensor: all cells that are not in ``entries`` hold ``fill``. ``dropped``: keys that were
    outside."""

    shape: tuple[int, ...]
    fill: Any = 0
    entries: dict[Key, Any] = field(default_factory=dict)
    dropped: list[Key] = field(default_factory=list)

    @classmethod
    def of(cls, array: npt.NDArray[Any], fill: Any = 0) -> Cells:
        fill = np.asarray(fill).item()
        found = {k: v for k in np.ndindex(*array.shape) if _differ(v := array[k].item(), fill)}
        return cls(array.shape, fill, found)

    def __getitem__(self, key: Key) -> Any:
        if any(not 0 <= k < n for k, n in zip(key, self.shape)):
            return 0
        return self.entries.get(key, self.fill)

    def draw(self, full: bool) -> Iterator[tuple[Any, Any]]:
        for key in np.ndindex(*self.shape) if full else sorted(self.entries):
            if full or _differ(self[key], self.fill):
                yield (key[0] if len(key) == 1 else key), self[key]

    def to_numpy(self, dtype: Any = None) -> npt.NDArray[Any]:
        values = [self[k] for k in np.ndindex(*self.shape)]
        return np.array(values, dtype=dtype).reshape(self.shape)


def _differ(a: Any, b: Any) -> bool:
    return bool(a != b and not (a != a and b != b))


class Bag(list[Any]):
    """What a group has lifted: one value for each member."""


def meaning(program: s.Program | s.Expr, env: Mapping[str, Any]) -> Any:
    """The value of a program: a number, or Cells."""
    return _eval(program.body if isinstance(program, s.Program) else program, dict(env))


def _eval(e: s.Expr, env: Env) -> Any:
    match e:
        case s.Number():
            return e.value
        case s.Name():
            return env[e.name]
        case s.Tuple():
            return tuple(_eval(x, env) for x in e.items)
        case s.Unary():
            x = _eval(e.arg, env)
            return not x if e.op == "!" else -x
        case s.Binary():
            return _binary(e, env)
        case s.Call():
            return _call(e.function, [_eval(x, env) for x in e.args])
        case s.If():
            return _eval(e.then if _eval(e.test, env) else e.otherwise, env)
        case s.Access():
            return _eval(e.target, env)[tuple(_eval(k, env) for k in e.keys)]
        case s.Range():
            return list(range(_eval(e.low, env), _eval(e.high, env) + 1))
        case s.Aggregate():
            return _combined(e.monoid, _members(e.body, env))
        case s.Comprehension():
            return [_eval(e.head, one) for one in _choices(e.qualifiers, env)]
        case s.Stored():
            return _stored(e, env)
    raise TypeError(type(e).__name__)


def _binary(e: s.Binary, env: Env) -> Any:
    a = _eval(e.left, env)
    if e.op == "&&":
        return bool(a) and bool(_eval(e.right, env))
    if e.op == "||":
        return bool(a) or bool(_eval(e.right, env))
    b = _eval(e.right, env)
    with np.errstate(all="ignore"):
        return _OPS[e.op](a, b)


def _float(x: Any) -> Any:
    return np.float64(x)


def _divided(a: Any, b: Any) -> Any:
    if _whole(a) and _whole(b):
        return a // b if b else 0
    return float(_float(a) / _float(b))


def _floored(a: Any, b: Any) -> Any:
    if _whole(a) and _whole(b):
        return a // b if b else 0
    return float(np.floor_divide(_float(a), _float(b)))


def _rest(a: Any, b: Any) -> Any:
    if _whole(a) and _whole(b):
        return a % b if b else 0
    return float(np.remainder(_float(a), _float(b)))


def _power(a: Any, b: Any) -> Any:
    return a**b if _whole(a) and _whole(b) else float(_float(a) ** _float(b))


def _whole(x: Any) -> bool:
    return isinstance(x, (int, np.integer))


_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divided,
    "true/": lambda a, b: float(_float(a) / _float(b)), "//": _floored, "%": _rest, "**": _power,
    "==": lambda a, b: bool(a == b), "!=": lambda a, b: bool(a != b), "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b), ">": lambda a, b: bool(a > b), ">=": lambda a, b: bool(a >= b),
}


def _call(name: str, args: list[Any]) -> Any:
    if name in ("min", "max"):
        return _least(args) if name == "min" else -_least([-x for x in args])
    if name in ("floor", "ceil", "trunc", "round") and _whole(args[0]):
        return args[0]
    if name == "int":
        return int(args[0])
    if name in ("real", "float"):
        return float(args[0])
    if name == "bool":
        return bool(args[0])
    if name in ("abs", "fabs"):
        return abs(args[0])
    name = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
            "round": "rint", "pow": "power"}.get(name, name)
    if name in ("square", "power", "sign") and all(map(_whole, args)):
        return int(getattr(np, name)(*args))
    with np.errstate(all="ignore"):
        return getattr(np, name)(*map(_float, args)).item()


# -- lists -------------------------------------------------------------------------------------
def _members(body: s.Expr, env: Env) -> Sequence[Any]:
    """What an aggregation combines: the items of a list, or the body for each member of a group."""
    lifted = [n for n in s.free(body) if isinstance(env.get(n), Bag)]
    if isinstance(body, (s.Comprehension, s.Range)) or not lifted:
        found = _eval(body, env)
        if MEMBERS in env and not isinstance(found, (list, Cells)):
            return [found] * env[MEMBERS][-1]
        if not isinstance(found, list):
            raise MeaningError("an aggregation needs a list, or names that a group has lifted")
        return found
    count = len(env[lifted[0]])
    inner = {**env, MEMBERS: env[MEMBERS][:-1]} if MEMBERS in env else env
    return [_eval(body, {**inner, **{n: env[n][k] for n in lifted}}) for k in range(count)]


def _combined(monoid: str, values: Sequence[Any]) -> Any:
    match monoid:
        case "count":
            return len(values)
        case "avg":
            with np.errstate(all="ignore"):
                return float(_float(_sum(values)) / _float(len(values)))
        case "last":
            return values[-1] if values else 0
        case "&&":
            return all(values)
        case "||":
            return any(values)
        case "+":
            return _sum(values)
        case "*":
            return math.prod(values)
        case "min":
            return _least(values)
    if monoid == "max":
        return -_least([-x for x in values])
    combine = getattr(np, monoid)
    return reduce(lambda a, b: combine(a, b).item(), values) if values else combine.identity


def _sum(values: Sequence[Any]) -> Any:
    return reduce(lambda a, b: a + b, values, 0)


def _least(values: Sequence[Any]) -> Any:
    """nan wins, as in NumPy."""
    found = math.inf
    for x in values:
        found = x if x != x or (found == found and x < found) else found
    return found


def _choices(qualifiers: Sequence[s.Qualifier], env: Env) -> list[Env]:
    found = [env]
    for k, q in enumerate(qualifiers):
        match q:
            case s.Draw():
                joined = {n for b in qualifiers[:k] for n in _bound(b)}
                found = [new for one in found for item in _items(_eval(q.source, one), q.full)
                         if (new := _matched(q.pattern, item, one, joined)) is not None]
            case s.Let():
                found = [_matched(q.pattern, _eval(q.value, one), one) for one in found]
            case s.Test():
                found = [one for one in found if _eval(q.condition, one)]
            case s.Group():
                found = _groups(q, qualifiers[:k], found, env)
    return found


def _items(source: Any, full: bool) -> Sequence[Any]:
    if isinstance(source, Cells):
        return list(source.draw(full))
    if not isinstance(source, list):
        raise MeaningError("a generator draws from a tensor, a range or a list")
    return source


def _bound(q: s.Qualifier) -> list[str]:
    return s.names_of(q.pattern) if isinstance(q, (s.Draw, s.Let, s.Group)) else []


def _matched(pattern: s.AnyPattern, value: Any, env: Env, joined: set[str] = _NONE) -> Any:
    """The names with their values; None where a name of ``joined`` has another value."""
    if isinstance(pattern, s.Bind):
        if pattern.name in joined and not isinstance(env[pattern.name], Bag):
            return env if env[pattern.name] == value else None
        return env if pattern.name == "_" else {**env, pattern.name: value}
    if not isinstance(value, tuple) or len(value) != len(pattern.items):
        raise MeaningError("a tuple of names meets something else")
    for p, v in zip(pattern.items, value):
        env = env and _matched(p, v, env, joined)
    return env


def _groups(q: s.Group, before: Sequence[s.Qualifier], found: list[Env], outer: Env) -> list[Env]:
    key = s.as_expr(q.pattern) if q.key is None else q.key
    groups: dict[Any, list[Env]] = {}
    for one in found:
        groups.setdefault(_eval(key, one), []).append(one)
    kept = set(s.names_of(q.pattern))
    local = {n for b in before for n in _bound(b)}
    return [
        _matched(q.pattern, value, {
            **outer, MEMBERS: [*outer.get(MEMBERS, []), len(members)],
            **{n: Bag(m[n] for m in members) for n in local - kept}})
        for value, members in groups.items()]


# -- tensors -----------------------------------------------------------------------------------
def _stored(e: s.Stored, env: Env) -> Cells:
    shape = tuple(_eval(d, env) for d in itertools.chain(e.dense, e.sparse))
    body = _eval(e.body, env)
    made = Cells(shape)
    for key, value in _items(body, False):
        at = key if isinstance(key, tuple) else (key,)
        if any(not 0 <= k < n for k, n in zip(at, shape)):
            made.dropped.append(at)
        elif at in made.entries:
            raise ClashError(f"two choices write cell {at}")
        else:
            made.entries[at] = value
    made.fill = False if made.entries and all(
        isinstance(v, bool) for v in made.entries.values()) else 0
    return made
