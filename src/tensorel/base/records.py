"""A ``dataclass`` that is quick to import: what the standard one makes at definition, this one
makes at first use.

The standard decorator compiles six functions for each frozen class, half of the time of
importing this package. Here comparing, hashing, printing and freezing are shared functions, and
the initializer is compiled when the first object is made. Fields are the standard ones, so
``replace`` and ``fields`` of ``dataclasses`` work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

import numpy as np

C = TypeVar("C", bound=type)
_set = object.__setattr__

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """As that of ``functools``, without the lock that it has before Python 3.12: after a fork
        while another thread holds it, the child would wait for ever."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            found = instance.__dict__[self.name] = self.compute(instance)
            return found


@overload
@dataclass_transform(field_specifiers=(field,))
def dataclass(cls: C, /) -> C: ...
@overload
@dataclass_transform(field_specifiers=(field,))
def dataclass(*, frozen: bool = False, eq: bool = True, slots: bool = False,
              weakref_slot: bool = False) -> Callable[[C], C]: ...
def dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False,
              weakref_slot: bool = False) -> Any:
    """As ``dataclasses.dataclass``, with those of its options that we use.

    >>> @dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1) == Point(1, 0), Point(2)
    (True, Point(x=2, y=0))
    """

    def decorate(cls: Any) -> Any:
        own = set(vars(cls))
        made: Any = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot)(cls)
        fields = dataclasses.fields(made)
        methods: dict[str, object] = {"__init__": _late_init(made, fields, frozen)}
        methods["__repr__"] = _repr
        if eq:
            methods |= _by_value(made, tuple(f.name for f in fields if f.compare), frozen)
        if frozen:
            methods |= {"__setattr__": _refuse, "__delattr__": _refuse,
                        "__getstate__": _state, "__setstate__": _restore}
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made

    return decorate if cls is None else decorate(cls)


#: So many objects of a class are made step by step before its constructor is compiled.
_UNCOMPILED_OBJECTS = 16


def _late_init(cls: type, fields: tuple[Field[Any], ...], frozen: bool) -> Callable[..., None]:
    made = count()

    def __init__(self: object, *args: object, **named: object) -> None:
        if next(made) < _UNCOMPILED_OBJECTS and _fill(self, fields, args, named):
            if hasattr(self, "__post_init__"):
                self.__post_init__()
            return
        compiled = _compiled_init(cls, fields, frozen)
        cls.__init__ = compiled  # type: ignore[misc]
        compiled(self, *args, **named)

    return __init__


def _fill(self: object, fields: tuple[Field[Any], ...], args: tuple[object, ...],
          named: dict[str, object]) -> bool:
    """Set all fields; False if the arguments do not fit: a compiled constructor then raises the
    error."""
    if len(args) > len(fields):
        return False
    for f, value in zip(fields, args):
        _set(self, f.name, value)
    used = 0
    for f in fields[len(args) :]:
        if f.name in named:
            value, used = named[f.name], used + 1
        elif f.default_factory is not MISSING:
            value = f.default_factory()
        elif f.default is not MISSING:
            value = f.default
        else:
            return False
        _set(self, f.name, value)
    return used == len(named)


def _compiled_init(
    cls: type, fields: tuple[Field[Any], ...], frozen: bool
) -> Callable[..., None]:
    names: dict[str, object] = {"_set": _set, "_missing": MISSING}
    parameters, lines = ["self"], []
    for f in fields:
        value = f.name
        if f.default_factory is not MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            value = f"_make_{f.name}() if {f.name} is _missing else {f.name}"
            parameters.append(f"{f.name}=_missing")
        elif f.default is not MISSING:
            names[f"_default_{f.name}"] = f.default
            parameters.append(f"{f.name}=_default_{f.name}")
        else:
            parameters.append(f.name)
        lines.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"])
    exec(text, names)
    made: Any = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made  # type: ignore[no-any-return]


def _by_value(cls: type, compared: tuple[str, ...], frozen: bool) -> dict[str, object]:
    values: Callable[[Any], object] = attrgetter(*compared) if compared else lambda self: ()

    def __eq__(self: object, other: object) -> object:
        if self is other:
            return True
        if self.__class__ is not other.__class__:
            return NotImplemented
        return values(self) == values(other)

    def __hash__(self: object) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(self: Any) -> str:
    shown = ", ".join(
        f"{f.name}={_shown(getattr(self, f.name))}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _shown(value: object) -> str:
    """The same text in every process: elements of sets are sorted."""
    if isinstance(value, frozenset) and value:
        return f"frozenset({{{', '.join(sorted(map(repr, value)))}}})"
    return repr(value)


def _refuse(self: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(f"field {name!r} of {type(self).__name__} is frozen")


def _state(self: Any) -> list[object]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for f, value in zip(dataclasses.fields(self), state):
        _set(self, f.name, _own(value))


def _own(value: Any) -> Any:
    """The one object of each dtype in a process, for the copies that pickles hold: programs compare
    dtypes by identity."""
    if type(value) is tuple:
        return tuple(map(_own, value))
    return np.dtype(value.str) if isinstance(value, np.dtype) and not value.names else value


__all__ = ["cached_property", "dataclass", "field"]
