"""Types of columns."""

from __future__ import annotations

from enum import Enum

import numpy as np

from tensorel.algebra.ops import BOOL, FLOAT64, INT64, DType

FLOAT32 = np.dtype(np.float32)


class Type(Enum):
    """What a column holds. Whole numbers have 64 bits; dates count days and timestamps
    microseconds from 1970 on; texts are numbers of entries of a sorted dictionary."""

    INTEGER = "BIGINT"
    DOUBLE = "DOUBLE"
    FLOAT = "FLOAT"
    BOOLEAN = "BOOLEAN"
    TEXT = "VARCHAR"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"
    NULL = "NULL"
    MATRIX = "MATRIX"

    @property
    def dtype(self) -> DType:
        """In which kernels compute with it."""
        return _DTYPES.get(self, INT64)

    @property
    def is_number(self) -> bool:
        return self in NUMBERS

    @property
    def is_real(self) -> bool:
        return self in (Type.DOUBLE, Type.FLOAT)

    @property
    def is_time(self) -> bool:
        return self in (Type.DATE, Type.TIMESTAMP)


NUMBERS = (Type.INTEGER, Type.FLOAT, Type.DOUBLE)
_DTYPES: dict[Type, DType] = {Type.DOUBLE: FLOAT64, Type.FLOAT: FLOAT32, Type.BOOLEAN: BOOL}


def common(types: list[Type]) -> Type | None:
    """The type that values of several types have in one column; None if there is none.

    >>> common([Type.INTEGER, Type.NULL, Type.DOUBLE])
    <Type.DOUBLE: 'DOUBLE'>
    """
    found = Type.NULL
    for t in types:
        if found is Type.NULL or found is t:
            found = t
        elif t is Type.NULL:
            continue
        elif found in NUMBERS and t in NUMBERS:
            found = NUMBERS[max(NUMBERS.index(found), NUMBERS.index(t))]
        elif found.is_time and t.is_time:
            found = Type.TIMESTAMP
        else:
            return None
    return found


def of_dtype(dtype: DType) -> Type | None:
    """The type of the values of an array; None if there is none."""
    if dtype.kind in "iu":
        return Type.INTEGER
    if dtype.kind == "f":
        return Type.FLOAT if dtype.itemsize <= 4 else Type.DOUBLE
    return Type.BOOLEAN if dtype.kind == "b" else None
