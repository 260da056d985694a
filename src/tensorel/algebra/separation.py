"""Functions of a and b as sums of products of a function of a and one of b.

A sum of such a function over pairs needs no pairs: it is the sum over a times the sum over b.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.algebra.steps import Steps, cast

Array = npt.NDArray[Any]
#: Values of a function of a, and of one of b, which are multiplied.
Term = tuple[Array, Array]
MAX_TERMS = 8


class _Value(NamedTuple):
    """A step: a function of one side ("a", "b", "" for a number), or a sum of products."""

    dtype: ops.DType
    side: str
    array: Array
    terms: tuple[Term, ...] = ()


def separated(steps: Steps, a: Mapping[str, Array], b: Mapping[str, Array], dtype: ops.DType
              ) -> list[Term] | None:
    """The terms of a function of the arguments in ``a`` and ``b``, with values of ``dtype``; None
    where it is no such sum, or integers would have to be widened after they were multiplied.

    >>> x, y = np.array([1.0, 2.0]), np.array([5.0])
    >>> f = (("a", "<f8"), ("b", "<f8"), ("multiply", 0, 1), ("add", 2, 0))
    >>> [(p.tolist(), q.tolist()) for p, q in separated(f, {"a": x}, {"b": y}, x.dtype)]
    [([1.0, 2.0], [5.0]), ([1.0, 2.0], 1.0)]
    """
    made: list[_Value] = []
    with np.errstate(all="ignore"):
        for step in steps:
            match step:
                case (bytes() as bits, kind):
                    number = np.frombuffer(bits, kind)[0]
                    made.append(_Value(number.dtype, "", np.asarray(number)))
                case (name, str() as kind):
                    side = "a" if name in a else "b"
                    array = (a if side == "a" else b)[name].astype(kind, copy=False)
                    made.append(_Value(array.dtype, side, array))
                case (name, *places):
                    found = _applied(ops.operator(name), [made[k] for k in places])
                    if found is None:
                        return None
                    made.append(found)
        last = made[-1]
        if last.dtype != dtype:
            return None
        return list(_terms(last))


def _applied(op: ops.Operator, args: list[_Value]) -> _Value | None:
    into, out = op.resolve(*[v.dtype for v in args])
    sides = {v.side for v in args} - {""}
    if len(sides) < 2 and "ab" not in sides:
        found = np.asarray(op.meaning(*[cast(v.array, d) for v, d in zip(args, into)]))
        return _Value(out, "".join(sides), cast(found, out))
    combine = _COMBINED.get(op)
    if combine is None or out.kind not in "iufc" or any(d != out for d in into) or any(
            v.dtype != out for v in args if v.side == "ab"):
        return None
    terms = combine(*[v._replace(dtype=out, array=v.array if v.side == "ab" else cast(
        v.array, out)) for v in args])
    if terms is None or len(terms) > MAX_TERMS:
        return None
    return _Value(out, "ab", np.empty(0, out), terms)


def _terms(v: _Value) -> tuple[Term, ...]:
    if v.side == "ab":
        return v.terms
    one = np.ones((), v.dtype)
    return ((one, v.array),) if v.side == "b" else ((v.array, one),)


def _sum(x: _Value, y: _Value) -> tuple[Term, ...]:
    return _terms(x) + _terms(y)


def _difference(x: _Value, y: _Value) -> tuple[Term, ...]:
    return _terms(x) + tuple([(np.negative(f), g) for f, g in _terms(y)])


def _negative(x: _Value) -> tuple[Term, ...]:
    return tuple([(np.negative(f), g) for f, g in _terms(x)])


def _product(x: _Value, y: _Value) -> tuple[Term, ...]:
    return tuple([(f * p, g * q) for f, g in _terms(x) for p, q in _terms(y)])


def _quotient(x: _Value, y: _Value) -> tuple[Term, ...] | None:
    """By a function of one side."""
    if y.side == "ab" or y.dtype.kind not in "fc":
        return None
    if y.side == "b":
        return tuple([(f, g / y.array) for f, g in _terms(x)])
    return tuple([(f / y.array, g) for f, g in _terms(x)])


_COMBINED: dict[ops.Operator, Callable[..., tuple[Term, ...] | None]] = {
    ops.add: _sum, ops.subtract: _difference, ops.multiply: _product, ops.negative: _negative,
    ops.divide: _quotient}
