"""Columns of a result as objects of table libraries, which are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.errors import UnsupportedError

Vector = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class ResultColumn:
    """Values of one length and dtype. ``null``: where there is no value (None: nowhere). With
    ``labels``, values are positions in them, e.g. of texts. ``extent``: values are whole numbers
    below it, where that is known."""

    values: Vector
    null: Mask | None = None
    labels: Vector | None = None
    extent: int | None = None

    def decoded(self) -> Vector:
        """The values themselves; what stands at nulls means nothing."""
        if self.labels is None:
            return self.values
        codes = self.values if self.null is None else np.where(self.null, 0, self.values)
        if not self.labels.size:
            return np.zeros(codes.size, self.labels.dtype)
        return np.asarray(self.labels[codes])

    def tolist(self) -> list[Any]:
        """Python's values, None for null."""
        found: list[Any] = self.decoded().tolist()
        if self.null is None:
            return found
        return [None if gone else v for v, gone in zip(found, self.null.tolist())]


Columns = Mapping[str, ResultColumn]


def _imported(name: str, needs: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise UnsupportedError(f"this needs {name}, which is not installed",
                               hint=f"pip install {needs}") from None


def to_arrow(columns: Columns) -> Any:
    """A pyarrow.Table; texts by labels are dictionaries."""
    pa = _imported("pyarrow", "pyarrow")
    arrays = {}
    for name, c in columns.items():
        if c.labels is None:
            arrays[name] = pa.array(c.values, mask=c.null)
        else:
            codes = pa.array(c.values, mask=c.null)
            arrays[name] = pa.DictionaryArray.from_arrays(codes, pa.array(c.labels.tolist()))
    return pa.table(arrays)


def to_pandas(columns: Columns) -> Any:
    """A pandas.DataFrame; integers and booleans with nulls have pandas' nullable dtypes."""
    pd = _imported("pandas", "pandas")
    found: dict[str, Any] = {}
    for name, c in columns.items():
        if c.null is None or not c.null.any():
            found[name] = c.decoded()
        elif c.labels is not None or c.values.dtype.kind not in "biuf":
            found[name] = c.tolist()
        elif c.values.dtype.kind == "f":
            found[name] = np.where(c.null, np.nan, c.values)
        elif c.values.dtype.kind == "b":
            found[name] = pd.arrays.BooleanArray(c.values.copy(), c.null.copy())
        else:
            found[name] = pd.arrays.IntegerArray(c.values.copy(), c.null.copy())
    return pd.DataFrame(found)


def to_polars(columns: Columns) -> Any:
    """A polars.DataFrame."""
    pl = _imported("polars", "polars")
    found = []
    for name, c in columns.items():
        if c.labels is not None or c.values.dtype.kind not in "biuf":
            found.append(pl.Series(name, c.tolist()))
            continue
        series = pl.Series(name, c.values)
        if c.null is not None:
            series = series.set(pl.Series(c.null), None)
        found.append(series)
    return pl.DataFrame(found)
