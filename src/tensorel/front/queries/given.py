"""What users hand in as relations: tensors, tables, and results of other queries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tensorel.base.records import cached_property
from tensorel.engines.rows.vectors import Array, Vector, encoded, words_of
from tensorel.errors import TypeError_, UnsupportedError, ValueError_
from tensorel.front.array.base import Base
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.labels.axes import axes_or_plain
from tensorel.front.relations.relation_result import Relation
from tensorel.io.libraries.result_columns import ResultColumn
from tensorel.io.tables.encode import encode
from tensorel.io.tables.sources import is_table, open_table
from tensorel.sql.catalog import Field
from tensorel.sql.types import Type, of_dtype
from tensorel.storage import convert as storage
from tensorel.storage.entries import differs
from tensorel.tables.column import Column
from tensorel.tables.table import Table

_DAYS, _MICROSECONDS = np.dtype("M8[D]"), np.dtype("M8[us]")
#: Labels of axes that queries have met, with their numbers.
MAX_LABELS = 64
_label_numbers: list[tuple[Array, int]] = []
_fresh = count()
#: Columns of tables that live on are encoded once.
_encoded: WeakKeyDictionary[Column, Vector] = WeakKeyDictionary()


class Given:
    """A relation of named vectors."""

    is_tensor = False

    @property
    def fields(self) -> Sequence[Field]:
        raise NotImplementedError

    @property
    def rows(self) -> int:
        raise NotImplementedError

    def read(self, names: Sequence[str]) -> Mapping[str, Vector]:
        raise NotImplementedError


class GivenTensor(Given):
    """The entries of a tensor that differ from its fill."""

    def __init__(self, name: str, tensor: Any) -> None:
        self.name = name
        self.tensor = tensor
        self._label_vectors: dict[int, Vector] = {}
        if of_dtype(tensor.dtype) is None:
            raise TypeError_(f"sql: {name} has entries of dtype {tensor.dtype.name}, which SQL "
                             "does not know", hint="use its real and imaginary parts")

    @property
    def is_tensor(self) -> bool:  # type: ignore[override]
        return self.tensor.dtype.kind in "iuf" and bool(stored_of(self.tensor).fill == 0)

    @property
    def rows(self) -> int:
        return int(self.tensor.nnz)

    @cached_property
    def fields(self) -> Sequence[Field]:
        axes = axes_or_plain(self.tensor)
        found, hidden = list[Field](), list[Field]()
        for k, (axis, extent) in enumerate(zip(axes, self.tensor.shape)):
            index = Field(f"i{k}", Type.INTEGER, False, extent, k)
            if axis.labels is not None:
                found.append(Field(axis.name or index.name, self.label_vector(k).type, False,
                                   extent, k, False, self._labels_number(k)))
            elif axis.name is not None:
                found.append(replace(index, name=axis.name))
            else:
                found.append(index)
            if found[-1].name != index.name:
                hidden.append(replace(index, hidden=True))
        found.append(Field("val", of_dtype(self.tensor.dtype) or Type.DOUBLE, False))
        if self.tensor.ndim == 2:
            hidden += [Field(name, Type.INTEGER, False, self.tensor.shape[k], k, True)
                       for k, name in enumerate(("rid", "cid"))]
        known = {f.name for f in found}
        return found + [f for f in hidden if f.name not in known]

    def label_vector(self, axis: int) -> Vector:
        """The labels of an axis."""
        found = self._label_vectors.get(axis)
        if found is None:
            labels = axes_or_plain(self.tensor)[axis].labels
            assert labels is not None
            found = self._label_vectors[axis] = _of_labels(f"{self.name} axis {axis}", labels.array)
        return found

    def _labels_number(self, axis: int) -> int:
        """A number that equal labels share, as long as they live."""
        labels = axes_or_plain(self.tensor)[axis].labels
        assert labels is not None
        array = labels.array
        for other, number in _label_numbers:
            if other is array or (len(other) == len(array) and bool(np.array_equal(other, array))):
                return number
        _label_numbers.append((array, next(_fresh)))
        del _label_numbers[:-MAX_LABELS]
        return _label_numbers[-1][1]

    @cached_property
    def _entries(self) -> tuple[list[Array], Array]:
        stored = stored_of(self.tensor)
        coo = storage.to_coo(stored)
        if coo.count == self.rows:
            return list(coo.coords), coo.values
        kept = differs(coo.values, stored.fill)
        return [c[kept] for c in coo.coords], coo.values[kept]

    def ones(self, dtype: np.dtype[Any]) -> Any:
        """1 at each entry."""
        return (self.tensor != 0).astype(dtype).compute()

    @cached_property
    def least(self) -> float:
        """The smallest of the values; nan if one is."""
        values = self._entries[1]
        return float(values.min()) if values.size else 0.0

    def whole_bounds(self, name: str) -> tuple[int, int] | None:
        """The least and the largest of the whole numbers of a field."""
        field = next(f for f in self.fields if f.name == name)
        if field.axis is not None:
            return (0, max(self.tensor.shape[field.axis] - 1, 0)) if field.is_index else None
        values = self._entries[1]
        if values.dtype.kind not in "iub":
            return None
        return (int(values.min()), int(values.max())) if values.size else (0, 0)

    def read(self, names: Sequence[str]) -> Mapping[str, Vector]:
        coords, values = self._entries
        known = {f.name: f for f in self.fields}
        found: dict[str, Vector] = {}
        for name in names:
            axis = known[name].axis
            if axis is not None and known[name].labels is not None:
                found[name] = self.label_vector(axis).take(coords[axis])
                continue
            found[name] = _plain(f"{self.name}.{name}", values, None) if axis is None else (
                Vector(Type.INTEGER, coords[axis]))
        return found


class GivenTable(Given):
    """The columns of a table whose names a text mentions."""

    def __init__(self, name: str, table: Any, mentioned: frozenset[str] | None) -> None:
        source = open_table(table)
        names = [n for n in source.names if mentioned is None or n.lower() in mentioned]
        self.table: Table = source.read(names or list(source.names[:1]))
        self.vectors = {n: vector_of_column(f"{name}.{n}", c) for n, c in self.table.items()}

    @property
    def rows(self) -> int:
        return self.table.rows

    @cached_property
    def fields(self) -> Sequence[Field]:
        return [Field(n, v.type, v.valid is not None, _distinct(v))
                for n, v in self.vectors.items()]

    def read(self, names: Sequence[str]) -> Mapping[str, Vector]:
        # The arrays are their owner's, who may have written to them: bounds are looked at anew.
        return {n: _renewed(self.vectors[n]) for n in names}


class GivenVectors(Given):
    """Vectors by name, of which there is one at least."""

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self.vectors = dict(vectors)

    @property
    def rows(self) -> int:
        return len(next(iter(self.vectors.values())))

    @cached_property
    def fields(self) -> Sequence[Field]:
        return [Field(n, v.type, v.valid is not None, _distinct(v))
                for n, v in self.vectors.items()]

    def read(self, names: Sequence[str]) -> Mapping[str, Vector]:
        return {n: self.vectors[n] for n in names}


def given(name: str, x: object, mentioned: frozenset[str] | None) -> Given:
    """What stands for a name in a text. ``mentioned``: the columns that the text may mean."""
    if isinstance(x, Given):
        return x
    if isinstance(x, Relation):
        source = getattr(x, "__sql_source__", None)
        if source is not None:
            found: Given = source()
            return found
        return GivenVectors({n: _of_result(n, c) for n, c in x.held().items()})
    if not isinstance(x, Base) and (isinstance(x, Table) or is_table(x)):
        return GivenTable(name, x, mentioned)
    if isinstance(x, str | os.PathLike):
        raise TypeError_(f"sql: {name} is the path {os.fspath(x)!r}, which is no table",
                         hint="tables are Parquet and CSV files; tensors are read by tr.read")
    return GivenTensor(name, asarray(x))


def _renewed(v: Vector) -> Vector:
    return v if v.words is not None else Vector(v.type, v.values, v.valid)


def _distinct(v: Vector) -> int | None:
    bounds = v.bounds
    return None if bounds is None else min(bounds[1] - bounds[0] + 1, max(len(v), 1))


def vector_of_column(name: str, column: Column) -> Vector:
    """A column of a table; of one that lives on, once."""
    found = _encoded.get(column)
    if found is None:
        found = _encoded[column] = _read(name, column)
    return found


def _read(name: str, column: Column) -> Vector:
    """A column of a table as a vector."""
    if column.kind == "text":
        known = encode(column)
        words = words_of(list(known.labels.array)) if len(known.labels) else words_of([""])
        if not known.has_nulls:
            return Vector(Type.TEXT, known.codes, None, words)
        return Vector(Type.TEXT, np.maximum(known.codes, 0), known.codes >= 0, words)
    valid = None if column.mask is None or not column.mask.any() else ~column.mask
    return _plain(name, column.values, valid)


def _plain(name: str, values: Array, valid: Array | None) -> Vector:
    """Numbers, truth values, dates and times."""
    kind = values.dtype.kind
    if kind == "M":
        day = np.datetime_data(values.dtype)[0] == "D"
        if not day:
            values = values.astype(_MICROSECONDS)
        gone = np.isnat(values)
        if gone.any():
            valid = ~gone if valid is None else valid & ~gone
            values = np.where(gone, values.dtype.type(0, "D" if day else "us"), values)
        return Vector(Type.DATE if day else Type.TIMESTAMP, values.view(np.int64), valid)
    found = of_dtype(values.dtype)
    if found is None:
        raise UnsupportedError(f"sql: the column {name} has entries of dtype {values.dtype}, which "
                               "SQL does not know", hint="cast it, or leave it out")
    if values.dtype == np.uint64:
        if values.size and int(values.max()) >= 2**63:
            raise ValueError_(f"sql: the column {name} has numbers of 2**63 and more",
                              hint="whole numbers have 63 bits in SQL")
        values = values.astype(np.int64)
    if kind == "f" and values.dtype.itemsize not in (4, 8):
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    return Vector(found, values, valid)


def _of_labels(name: str, labels: Array) -> Vector:
    """The labels of an axis, one after the other."""
    if labels.dtype.kind in "OUT":
        return encoded([str(x) for x in labels.tolist()])
    return _plain(name, labels, None)


def _of_result(name: str, c: ResultColumn) -> Vector:
    valid = None if c.null is None or not c.null.any() else ~c.null
    if c.labels is None and c.values.dtype.kind not in "OUT":
        return _plain(name, c.values, valid)
    if c.labels is not None and c.labels.dtype.kind == "M":
        return _plain(name, c.decoded(), valid)
    labels = c.values if c.labels is None else c.labels
    texts = [str(x) for x in labels.tolist()] or [""]
    known = sorted(set(texts))
    at = {t: k for k, t in enumerate(known)}
    table = np.array([at[t] for t in texts], np.int32)
    codes = table if c.labels is None else table[np.maximum(c.values, 0)]
    return Vector(Type.TEXT, codes, valid, words_of(known))
