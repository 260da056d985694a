"""NumPy's calls as calls of ours. A keyword is passed on, has no effect on tensors, or is refused
by name; none is ignored silently. NumPy's own signatures say which parameter an argument stands
for."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tensorel.base.records import dataclass
from tensorel.errors import TypeError_, UnsupportedError, ValueError_

#: Parameters of functions that have no signature in older versions of NumPy.
UNTOLD: dict[str, Callable[..., None]] = {
    "can_cast": lambda from_, to, casting="safe": None,
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "dot": lambda a, b, out=None: None,
    "empty": lambda shape, dtype=None, order="C", *, device=None: None,
    "empty_like": lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *,
    device=None: None,
    "where": lambda condition, x=None, y=None, /: None,
    "zeros": lambda shape, dtype=None, order="C", *, device=None: None,
}


def _operands(*operands: object) -> None:
    """The parameters of any other function without a signature."""


#: Parameters that have another name here.
_RENAMED = {"a_min": "min", "a_max": "max"}
_LAYOUTS = ("C", "F", "A", "K")


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a function of NumPy is called with. The ``head`` operands come first and have no names;
    ``taken`` are the keywords of our function."""

    names: tuple[str, ...]
    head: int
    defaults: dict[str, object]
    taken: frozenset[str]


@cache
def parameters(function: Any, ours: Callable[..., Any]) -> Parameters:
    """The parameters of a function of NumPy and of ours."""
    names: list[str] = []
    defaults: dict[str, object] = {}
    head = 0
    for p in _signature(function).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            head = sys.maxsize
        elif p.kind is not p.VAR_KEYWORD:
            if p.kind is not p.KEYWORD_ONLY:
                names.append(p.name)
                head += p.default is p.empty
            defaults[p.name] = p.default
    taken = inspect.signature(ours).parameters.values()
    return Parameters(tuple(names), head, defaults,
                      frozenset(p.name for p in taken if p.kind is not p.POSITIONAL_ONLY))


def _signature(function: Any) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(UNTOLD.get(function.__name__, _operands))


def call_ours(function: Any, ours: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
    """Our function for a call of NumPy's."""
    known = parameters(function, ours)
    if not options and len(args) <= known.head:
        return ours(*args)
    given = dict(zip(known.names[known.head:], args[known.head:]), **options)
    head = [*args[:known.head]]
    head += [given.pop(name) for name in known.names[len(args):known.head] if name in given]
    passed: dict[str, Any] = {}
    for name, value in given.items():
        ours_is = _RENAMED.get(name, name)
        is_default = _same(value, known.defaults.get(name, np._NoValue))
        if is_default and (value is None or value is np._NoValue or ours_is not in known.taken):
            continue
        if ours_is in known.taken:
            passed[ours_is] = value
        elif not says_nothing(name, value, function):
            raise refusal(function.__name__, name, value)
    return ours(*head, **passed)


def _same(value: object, default: object) -> bool:
    plain = (bool, int, float, str)
    return value is default or (
        type(value) is type(default) and isinstance(value, plain) and value == default)


def says_nothing(name: str, value: object, function: object = None) -> bool:
    """Whether a keyword of NumPy's does not change values: the order of entries in memory and the
    class of an array have no meaning for tensors."""
    if value is np._NoValue or (value is None and name != "axis"):
        return True
    if name == "order" and function not in (np.sort, np.argsort):
        if value not in _LAYOUTS:
            raise ValueError_(f"order {value!r} is not known", hint="'C', 'F', 'A' or 'K'")
        return True
    return (name == "subok" or (name == "where" and value is True)
            or (name == "out" and isinstance(value, tuple) and all(v is None for v in value))
            or (name == "copy" and function is np.meshgrid))


def refusal(function: str, name: str, value: object) -> TypeError_ | UnsupportedError:
    """The error for a keyword that is not honoured."""
    if name == "out" or (name == "copy" and value is False):
        return TypeError_(f"np.{function}: tensors are never written to ({name}=...)",
                          hint="use the returned tensor")
    return UnsupportedError(f"np.{function} with {name}= is not known for tensors",
                            hint=f"leave {name} out, or convert with T.to_numpy() first")
