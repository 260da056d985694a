"""The namespace's constants, dtypes and what can be asked of them (Array API)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import check_dtype
from tensorel.errors import TypeError_
from tensorel.front.array.base import Base
from tensorel.front.array.convert import to_device_check
from tensorel.front.array.scalars import can_cast_to, is_weak

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
api_version = "2024.12"

_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}


def _dtype_of(x: Any) -> Any:
    if is_weak(x):
        return x
    return x.dtype if isinstance(x, (Base, np.ndarray, np.generic)) else check_dtype(x)


def result_type(*xs: object) -> ops.DType:
    """The dtype that tensors, dtypes and scalars have in common."""
    if not xs:
        raise TypeError_("result_type: give at least one tensor or dtype")
    return check_dtype(np.result_type(*(_dtype_of(x) for x in xs)))


def can_cast(x: object, to: object, casting: Any = "safe") -> Any:
    """Whether converting loses nothing by kind and size; ``casting`` as NumPy's."""
    found = _dtype_of(x)
    if is_weak(found):
        raise TypeError_(f"can_cast: {x!r} has no dtype of its own",
                         hint="give a tensor or a dtype")
    return can_cast_to(found, check_dtype(to), casting)


def isdtype(dtype: object, kind: object) -> Any:
    """Whether a dtype is one, or of a kind such as "integral" or "real floating"."""
    found = check_dtype(dtype)
    for k in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(k, str) and k in _KINDS:
            if found.kind in _KINDS[k]:
                return True
        elif check_dtype(k) == found:
            return True
    return False


def finfo(x: Any) -> Any:
    """Limits of a floating dtype."""
    dtype = np.result_type(_dtype_of(x))
    if dtype.kind not in "fc":
        raise TypeError_(f"finfo: {dtype} is not a floating dtype", hint="use iinfo")
    return np.finfo(dtype)


def iinfo(x: Any) -> Any:
    """Limits of an integer dtype."""
    dtype = np.result_type(_dtype_of(x))
    if dtype.kind not in "iu":
        raise TypeError_(f"iinfo: {dtype} is not an integer dtype", hint="use finfo")
    return np.iinfo(dtype)


class NamespaceInfo:
    """What the Array API asks of a namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Shapes may depend on data; up to 64 axes are interned."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The only device."""
        return "cpu"

    def devices(self) -> list[str]:
        """All devices."""
        return ["cpu"]

    def default_dtypes(self, *, device: object = None) -> dict[str, ops.DType]:
        """The dtypes of Python's scalars."""
        to_device_check(device)
        return {"real floating": float64, "complex floating": complex128,
                "integral": int64, "indexing": int64}

    def dtypes(self, *, device: object = None, kind: object = None) -> dict[str, ops.DType]:
        """The dtypes by name, of a kind if one is given."""
        to_device_check(device)
        return {d.name: d for d in ops.DTYPES if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """What the Array API asks of a namespace."""
    return NamespaceInfo()


__all__ = [
    "__array_namespace_info__", "bool", "can_cast", "complex128", "complex64",
    "e", "finfo", "float32", "float64", "iinfo", "inf", "int16", "int32", "int64", "int8",
    "isdtype", "nan", "newaxis", "pi", "result_type", "uint16", "uint32", "uint64", "uint8",
]
