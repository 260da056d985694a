"""``@tr.comprehension``: Python functions whose body is a comprehension, read from their source."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

import numpy as np

from tensorel.comprehension import syntax as s
from tensorel.comprehension.python_source import Source, read
from tensorel.errors import ShapeError, TypeError_
from tensorel.front.array.convert import asarray
from tensorel.front.array.tensor import Tensor
from tensorel.front.languages.comprehension_program import Program


def compiled(function: Callable[..., Any], shape: Any = None, **other: object
             ) -> Callable[..., Tensor]:
    """The function of tensors that a function of its source is."""
    if other:
        raise TypeError_(f"comprehension: {', '.join(sorted(other))} is no option of the decorator",
                         hint="options: shape=")
    if not inspect.isfunction(function):
        raise TypeError_("comprehension: only plain functions can be read",
                         hint="write it with def")
    made = Comprehended(function, shape)
    update_wrapper(made, function)
    return made


class Comprehended:
    """A function that gives the lazy tensor of its comprehension. ``shape``: of the result, a
    number or numbers, or names of arguments that are numbers."""

    def __init__(self, function: Callable[..., Any], shape: Any) -> None:
        if isinstance(shape, (int, np.integer, str)):
            shape = (shape,)
        self.function = function
        self.signature = inspect.signature(function)
        self.source: Source = read(function, None if shape is None else tuple(shape))
        self.program = Program(self.source.body, self.source.text)
        self.locals = [Program(value, self.source.text) for _, value in self.source.locals]
        self.direct = self._direct()

    def __call__(self, *args: Any, **named: Any) -> Tensor:
        if not named and len(args) == self.direct:
            return self.program(dict(zip(self.signature.parameters, args)))
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        source = self.source
        known: dict[str, Any] = {
            n: v for n, v in bound.arguments.items() if n in source.outer}
        later = {n for n, _ in source.locals} | {x.known for x in source.extents}
        for name in sorted(source.outer - known.keys() - later):
            found = self._around(name)
            if found is not None:
                known[name] = found
        self._measure(known, *known)
        for (name, value), program in zip(source.locals, self.locals):
            known[name] = program(_only(known, s.free(value)))
            self._measure(known, name)
        return self.program(_only(known, s.free(source.body)))

    def _direct(self) -> int:
        """How many arguments make the whole environment of the body, if nothing else does; else
        -1."""
        source, names = self.source, self.signature.parameters
        plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in names.values())
        alone = not source.locals and not source.extents
        return len(names) if plain and alone and {*names} == s.free(source.body) else -1

    def _measure(self, known: dict[str, Any], *names: str) -> None:
        """The extents that the function asks of what has become known."""
        for x in self.source.extents:
            if x.name in names:
                known[x.known] = _extent(known[x.name], x.name, x.axis)

    def _around(self, name: str) -> Any:
        """What a name means outside of the function, now."""
        cells = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or ()))
        if name in cells:
            return cells[name].cell_contents
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        if hasattr(builtins, name):
            raise TypeError_(f"comprehension: {name} is a function, and is used as a value")
        return None


def _only(known: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {n: v for n, v in known.items() if n in names}


def _extent(value: Any, name: str, axis: int) -> int:
    shape: Sequence[int] = asarray(value).shape
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"comprehension: {name} has {len(shape)} axes, and not axis {axis}")
    return shape[axis]
