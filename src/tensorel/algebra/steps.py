"""Formulas of scalars as flat tuples, for parameters of operators: hashed, pickled and evaluated on
arrays without recursion.

A step is a literal ``(bytes, dtype)``, an argument ``(name, dtype)``, or an operator with the
places of its operands ``(name, place, ...)``; the last step is the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops

Steps = tuple[tuple[Any, ...], ...]
Array = npt.NDArray[Any]


def arguments(steps: Steps) -> frozenset[str]:
    """The names of the arguments.

    >>> sorted(arguments((("a", "<i8"), ("b0", "<i8"), ("add", 0, 1))))
    ['a', 'b0']
    """
    return frozenset(s[0] for s in steps if len(s) == 2 and type(s[0]) is str
                     and type(s[1]) is str)


def dtype_of(steps: Steps) -> ops.DType:
    """The dtype of the result."""
    found: list[ops.DType] = []
    for step in steps:
        match step:
            case (bytes(), dtype) | (str(), str() as dtype):
                found.append(np.dtype(dtype))
            case (name, *places):
                found.append(ops.operator(name).resolve(*[found[k] for k in places])[1])
    return found[-1]


def show(steps: Steps) -> str:
    """The formula for people.

    >>> show((("a", "<i8"), ("b0", "<i8"), ("add", 0, 1)))
    'add(a, b0)'
    """
    made: list[str] = []
    for step in steps:
        match step:
            case (bytes() as bits, dtype):
                made.append(str(np.frombuffer(bits, dtype)[0]))
            case (name, str()):
                made.append(name)
            case (name, *places):
                made.append(f"{name}({', '.join(made[k] for k in places)})")
    return made[-1]


def run(steps: Steps, given: Mapping[str, Array]) -> Array:
    """The result for arrays in place of the arguments, with NumPy's broadcasting.

    >>> run((("a", "<i8"), ("add", 0, 0)), {"a": np.array([1, 2])}).tolist()
    [2, 4]
    """
    made: list[Array] = []
    with np.errstate(all="ignore"):
        for step in steps:
            match step:
                case (bytes() as bits, dtype):
                    made.append(np.frombuffer(bits, dtype)[0])
                case (name, str() as dtype):
                    made.append(given[name].astype(dtype, copy=False))
                case (name, *places):
                    op, args = ops.operator(name), [made[k] for k in places]
                    into, out = op.resolve(*[a.dtype for a in args])
                    found = np.asarray(op.meaning(*[cast(a, d) for a, d in zip(args, into)]))
                    made.append(cast(found, out))
    return made[-1]


def cast(array: Array, dtype: ops.DType) -> Array:
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real
    return array.astype(dtype, copy=False)
