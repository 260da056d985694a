"""Literals as text, exactly: ``2.5``, ``3:int8``, ``nan``, ``1.0+2.0j:complex64``, ``True``.

int64, float64, complex128 and bool need no mark. A literal that decimal text cannot say (a nan
with a payload) is written by its bits, ``0x7ff8000000000001:float64``.
"""

from __future__ import annotations

import numpy as np

from tensorel.algebra.ops import BOOL, DTYPES, FLOAT64, INT64, DType
from tensorel.ir.given import plain
from tensorel.ir.nodes import Const, const

_COMPLEX = np.dtype("complex128")
_UNMARKED = frozenset({BOOL, INT64, FLOAT64, _COMPLEX})
DTYPE_NAMES: dict[str, DType] = {d.name: d for d in DTYPES}


def show_literal(node: Const) -> str:
    """The text of a literal.

    >>> show_literal(const(3, np.dtype("int8")))
    '3:int8'
    """
    text = _plain(node)
    mark = "" if node.dtype in _UNMARKED else f":{node.dtype.name}"
    if read_literal(text, node.dtype).bits != node.bits:
        bits = int.from_bytes(node.bits, "little")
        return f"0x{bits:x}:{node.dtype.name}"
    return text + mark


def _plain(node: Const) -> str:
    value = plain(node.value)
    if node.dtype.kind != "c":
        return str(value)
    imaginary = str(value.imag)
    sign = "" if imaginary.startswith("-") else "+"
    return f"{value.real}{sign}{imaginary}j"


def read_literal(text: str, dtype: DType | None) -> Const:
    """The literal of a text in a dtype (None: by the look of the text). ValueError if it does
    not fit."""
    with np.errstate(all="ignore"):  # 1e300:float32 is inf
        return _read(text, dtype)


def _read(text: str, dtype: DType | None) -> Const:
    if text in ("True", "False"):
        return const(text == "True", dtype or BOOL)
    if text.startswith(("0x", "0X")):
        wanted = dtype or INT64
        return Const(int(text, 16).to_bytes(wanted.itemsize, "little"), wanted)
    if text.endswith("j"):
        value = complex(text)
        if dtype is not None and dtype.kind != "c":
            raise ValueError(f"{text} does not fit in {dtype}")
        return const(value, dtype or _COMPLEX)
    if any(c in text for c in ".enai"):
        if dtype is not None and dtype.kind not in "fc":
            raise ValueError(f"{text} does not fit in {dtype}")
        return const(float(text), dtype or FLOAT64)
    return _whole(int(text), dtype or INT64)


def _whole(value: int, dtype: DType) -> Const:
    if dtype.kind in "biu":
        result = np.array(value, dtype=dtype)  # OverflowError where it does not fit
        if int(result) != value:
            raise ValueError(f"{value} does not fit in {dtype}")
        return const(result)
    return const(float(value), dtype)
