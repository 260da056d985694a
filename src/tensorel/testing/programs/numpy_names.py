"""The public names of tensorel on dense NumPy arrays: the expected values of random programs.

Where NumPy has the name, it is NumPy's own function; results in float16 are computed in float32,
as tensorel has no float16.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops

Array = npt.NDArray[Any]


def _without_half(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        result = function(*args, **named)
        if getattr(result, "dtype", None) != np.float16:
            return result
        wide = (a.astype(np.float32) if hasattr(a, "astype") else a for a in args)
        return function(*wide, **named)

    return call


class Dense:
    """The namespace ``xp``."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, np.ufunc) and name not in ("add", "minimum", "maximum"):
            found = _without_half(found)
        self.__dict__[name] = found
        return found

    @staticmethod
    def map(function: Callable[..., Any], *arrays: Array) -> Array:
        return np.asarray(function(*arrays))

    @staticmethod
    def einsum(text: str, *arrays: Array, add: str = "sum", mul: str = "multiply") -> Array:
        if add == "sum" and mul == "multiply":
            dtype = np.result_type(*arrays)  # one after another, singles lose digits
            wide = np.result_type(dtype, np.float64) if dtype.kind in "fc" else dtype
            return np.asarray(np.einsum(text, *arrays, dtype=wide)).astype(dtype, copy=False)
        return semiring_einsum(text, arrays, ops.MONOIDS[add], ops.operator(mul))

    @staticmethod
    def reduce(function: Callable[..., Any], x: Array, axis: int, identity: Any = None) -> Array:
        parts = np.moveaxis(x, axis, 0)
        if isinstance(function, np.ufunc):
            return np.asarray(function.reduce(x, axis=axis, dtype=x.dtype))
        return np.asarray(functools.reduce(function, parts))

    @staticmethod
    def unique_values(x: Array) -> Array:
        return np.unique(x)

    @staticmethod
    def sort(x: Array, axis: int = -1, descending: bool = False) -> Array:
        ascending = np.sort(x, axis=axis)
        return np.flip(ascending, axis) if descending else ascending

    @staticmethod
    def argsort(x: Array, axis: int = -1, descending: bool = False) -> Array:
        if not descending:
            return np.argsort(x, axis=axis, kind="stable")
        places = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        return np.flip(x.shape[axis] - 1 - places, axis)

    @classmethod
    def topk(cls, x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
        places = np.take(cls.argsort(x, axis, largest), np.arange(k), axis=axis)
        return np.take_along_axis(x, places, axis), places


xp = Dense()


def semiring_einsum(
    text: str, arrays: Sequence[Array], add: ops.Operator, mul: ops.Operator
) -> Array:
    """``reduce(add, rest, mul(...))`` by broadcasting; ``text`` has explicit one-letter terms.

    >>> semiring_einsum("ij,jk->ik", [np.eye(2), np.eye(2)], ops.maximum, ops.add).tolist()
    [[1.0, 2.0], [2.0, 1.0]]
    """
    terms, _, output = text.partition("->")
    names = sorted(set(text) & set(string.ascii_letters))
    dtype = np.result_type(*arrays)
    factors = [_spread(t, a.astype(dtype), names) for t, a in zip(terms.split(","), arrays)]
    body: Any = factors[0]
    for factor in factors[1:]:
        body = mul.meaning(body, factor)
    extents = {n: max(f.shape[names.index(n)] for f in factors) for n in names}
    if any(f.shape[names.index(n)] == 0 for n in names for f in factors):
        extents |= {n: 0 for n in names if any(f.shape[names.index(n)] == 0 for f in factors)}
    body = np.broadcast_to(body, [extents[n] for n in names])
    rest = tuple(k for k, n in enumerate(names) if n not in output)
    kept = [n for n in names if n in output]
    folded = _fold(add, body, rest)
    return np.asarray(folded.transpose([kept.index(n) for n in output]))


def _spread(term: str, array: Array, names: Sequence[str]) -> Array:
    """The operand with one axis per name, repeated names on the diagonal."""
    unique = "".join(sorted(set(term)))
    plain = np.einsum(f"{term}->{unique}", array)
    return np.asarray(plain[tuple(slice(None) if n in unique else None for n in names)])


def _fold(add: ops.Operator, body: Array, axes: tuple[int, ...]) -> Array:
    if math.prod(body.shape[k] for k in axes) == 0:
        shape = [n for k, n in enumerate(body.shape) if k not in axes]
        assert add.identity is not None
        return np.full(shape, np.asarray(add.identity(body.dtype)).astype(body.dtype))
    assert isinstance(add.meaning, np.ufunc)
    return np.asarray(add.meaning.reduce(body, axis=axes)).astype(body.dtype)
