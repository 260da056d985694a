"""Tables that lie in Python: pandas' frames, mappings of arrays. No column is walked in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorel.errors import UnsupportedError
from tensorel.io.tables.arrow_import import ArrowTable
from tensorel.storage.lending import lend
from tensorel.tables.column import Column, Mask, Piece, Vector
from tensorel.tables.table import Range, Table, check_names
from tensorel.tables.texts import Texts


class ArrayTable:
    """A ``TableSource`` of a mapping from names to one-dimensional arrays or lists."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.given))

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        names = self.names if columns is None else tuple(columns)
        check_names(names, self.names)
        return Table({name: from_array(self.given[name], name) for name in names})


class PandasTable:
    """A ``TableSource`` of a data frame of pandas; missing values of whatever kind are null."""

    def __init__(self, given: Any) -> None:
        self.given = given

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.given.columns))

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        known = self.names
        names = known if columns is None else tuple(columns)
        check_names(names, known)
        if len(set(known)) < len(known):
            twice = next(n for n in names if known.count(n) > 1)
            raise UnsupportedError(f"two columns of the frame have the name {twice!r}",
                                   hint="rename one of them")
        return Table({n: _from_series(self.given.iloc[:, known.index(n)], n) for n in names},
                     len(self.given))


def _from_series(series: Any, name: str) -> Column:
    """The memory that a series lies in, where it is NumPy's or Arrow's."""
    array, dtype = series.array, series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return from_array(series.to_numpy(), name, nan_is_null=True)
    if hasattr(array, "categories"):
        inner = _from_series(array.categories.to_series(), name)
        codes = np.asarray(array.codes)
        return Column([Piece(lend(codes), _nulls(codes < 0), _single(inner))], inner.zone,
                      inner.dtype)
    if getattr(dtype, "tz", None) is not None:
        times = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return Column(from_array(times, name).pieces, str(dtype.tz))
    if hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", "") == "pyarrow":
        held = ArrowTable(array.__arrow_array__())
        return held.read()[held.names[0]]
    if getattr(dtype, "numpy_dtype", None) is not None and dtype.numpy_dtype.kind != "O":
        nulls = np.asarray(array.isna())  # pandas' own integers and booleans with nulls
        values = array.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type())
        return Column([Piece(lend(values), _nulls(nulls))])
    codes, found = series.factorize()
    return Column([Piece(codes, _nulls(codes < 0), _dictionary(list(found), name))])


def _single(column: Column) -> Vector | Texts:
    """The entries of a column of one piece or of none, without nulls."""
    if column.dtype is not None:
        return column.values
    if column.has_dictionary:  # of objects, which are all different: codes count up
        known = column.pieces[0].dictionary
        assert isinstance(known, Texts)
        return known
    pieces = [p.values.block(0, len(p)) for p in column.pieces
              if not isinstance(p.values, np.ndarray)]
    return pieces[0] if len(pieces) == 1 else Texts.joined(pieces)


def from_array(given: Any, name: str, nan_is_null: bool = False) -> Column:
    """The column of an array; NaT is null, nan where that is asked for."""
    array = np.asarray(given)
    if array.ndim != 1:
        raise UnsupportedError(f"column {name!r} has {array.ndim} dimensions, not 1")
    kind = array.dtype.kind
    if kind in "UT":
        return Column([_texts(array, name)])
    if kind == "O":
        return _objects(array, name)
    if kind == "f" and array.dtype.itemsize == 2:
        array = array.astype(np.float32)
    if kind not in "biufcmM" or array.dtype.itemsize > 16:
        raise UnsupportedError(f"column {name!r} has dtype {array.dtype}",
                               hint="columns hold numbers, booleans, dates, times or texts")
    nulls = np.isnat(array) if kind in "mM" else \
        np.isnan(array) if kind == "f" and nan_is_null else None
    return Column([Piece(lend(array), None if nulls is None else _nulls(nulls))])


def _nulls(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _texts(array: Vector, name: str) -> Piece:
    """Texts of NumPy's fixed width: one dictionary of them, sorted by NumPy."""
    found, codes = np.unique(array, return_inverse=True)
    return Piece(codes, None, Texts.of(found.tolist()))


def _objects(array: Vector, name: str) -> Column:
    """Python's objects: what they are is known when all were seen; here lists come in, and what no
    library has a better form of."""
    found: dict[object, int] = {}
    codes = np.array([-1 if x is None or x != x else found.setdefault(x, len(found))
                      for x in array.tolist()], np.int64)
    return Column([Piece(codes, _nulls(codes < 0), _dictionary(list(found), name))])


def _dictionary(found: list[Any], name: str) -> Vector | Texts:
    """Different objects of one kind as texts or as a vector."""
    if all(isinstance(x, str) for x in found):
        return Texts.of(found)
    try:
        array = np.array(found)
        if array.dtype.kind == "O" and found:
            array = np.array(found, "M8")
    except (ValueError, TypeError):
        array = np.empty(0, object)
    if array.dtype.kind not in "biufcmM" or any(isinstance(x, str) for x in found):
        kinds = sorted({type(x).__name__ for x in found})
        raise UnsupportedError(
            f"column {name!r} holds objects of type {', '.join(kinds)}",
            hint="columns hold numbers, booleans, dates, times or texts, all of one kind")
    return array
