"""Types of numbers and arrays, and what becomes of two together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, FLOAT64, INT64, DType


class Scalar(NamedTuple):
    """A number; ``weak``: one of Python's."""

    dtype: DType
    weak: bool = False

    def __str__(self) -> str:
        return {"b": "bool", "i": "int", "f": "float", "c": "complex"}[self.dtype.kind] \
            if self.weak else self.dtype.name


class ArrayOf(NamedTuple):
    """An array, whose extents are known when the program is called."""

    dtype: DType
    rank: int

    def __str__(self) -> str:
        return f"array of {self.dtype.name} with {self.rank} axes"


Type = Scalar | ArrayOf
PY_BOOL, PY_INT, PY_FLOAT = Scalar(BOOL, True), Scalar(INT64, True), Scalar(FLOAT64, True)
PY_COMPLEX = Scalar(ops.COMPLEX128, True)
_ORDER = "biufc"


def type_of(value: object) -> Scalar:
    """The type of a Python or NumPy number."""
    if isinstance(value, np.generic):
        return Scalar(ops.check_dtype(value.dtype))
    for kind, found in ((bool, PY_BOOL), (int, PY_INT), (float, PY_FLOAT)):
        if isinstance(value, kind):
            return found
    return PY_COMPLEX


def is_whole(t: Type | None) -> bool:
    return isinstance(t, Scalar) and t.dtype.kind in "biu"


def join(a: Type, b: Type) -> Type | None:
    """The type of a variable that holds both, None if there is none."""
    if a == b:
        return a
    if isinstance(a, ArrayOf) or isinstance(b, ArrayOf):
        return None
    if a.weak and b.weak:
        return max(a, b, key=lambda t: _ORDER.index(t.dtype.kind))
    if a.weak or b.weak:
        weak, strong = (a, b) if a.weak else (b, a)
        if _rank(weak) <= _rank(strong):
            return strong
        if strong.dtype.kind == "b":
            return weak
        return Scalar(np.result_type(strong.dtype, weak.dtype))
    pair = {a.dtype.kind, b.dtype.kind}
    if BOOL in (a.dtype, b.dtype):
        return a if b.dtype == BOOL else b
    if FLOAT64 in (a.dtype, b.dtype) and pair <= {"i", "u", "f"}:
        return Scalar(FLOAT64)
    return None


def _rank(t: Scalar) -> int:
    return "biufc".replace("u", "").index(t.dtype.kind.replace("u", "i"))


def beside(weak: Scalar, other: DType) -> DType:
    """The dtype that a Python number takes beside a NumPy number."""
    kind = weak.dtype.kind
    if kind == "b" or (kind == "i" and other.kind in "iufc") or (
            kind == "f" and other.kind in "fc") or (kind == "c" and other.kind == "c"):
        return BOOL if kind == "b" else other
    if kind == "c":
        return np.result_type(other, np.complex64) if other.kind == "f" else ops.COMPLEX128
    return INT64 if kind == "i" else FLOAT64


def taken(*args: Scalar) -> list[DType]:
    """The dtypes of operands, those of Python numbers as NumPy takes them."""
    strong = [a.dtype for a in args if not a.weak]
    if not strong:
        return [a.dtype for a in args]
    other = np.result_type(*strong)
    return [beside(a, other) if a.weak else a.dtype for a in args]
