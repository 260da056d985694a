"""Tables as labelled sparse tensors, and back."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorel.algebra.ops import DTYPES
from tensorel.errors import NullKeyWarning, TypeError_, UnsupportedError
from tensorel.front.array.base import from_stored
from tensorel.front.array.convert import stored_of
from tensorel.front.labels.alignment import axes_of_tensor
from tensorel.io.tables.arrow_export import arrow_table
from tensorel.io.tables.encode import Encoded, encode
from tensorel.io.tables.sources import open_table
from tensorel.storage import convert as storage
from tensorel.storage.entries import differs
from tensorel.storage.format import FormatLike
from tensorel.storage.labelling import labelled
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored
from tensorel.tables.column import Column, Mask, Piece
from tensorel.tables.labels import PLAIN, AxisLabels, Labels
from tensorel.tables.table import Range, Table, check_names

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

_TIMES = ("date", "datetime", "duration")


def from_table(table: Any, keys: Sequence[str] | str, value: str | Sequence[str] | None = None,
               duplicates: str = "sum", format: FormatLike | None = None, fill: object = 0,
               ranges: Mapping[str, Range] | None = None) -> Any:
    """A sparse tensor whose axes are the key columns of a table, labelled with the keys that occur.

    ``value``: the column of the entries; a list of columns gives a dict of tensors on the same
    axes; None counts the rows. Rows with one key are added up (``duplicates``: "sum", "last",
    "error"), a null value is no entry, rows with a null key are left out with a warning.
    ``ranges``: only rows with columns from a least to a largest value, ``{"day": (low, high)}``
    (None: no bound); of Parquet files other groups of rows are not read.

    >>> import tensorel as tr
    >>> sales = {"shop": ["b", "a", "b"], "day": [1, 1, 3], "sold": [5.0, 2.0, 7.0]}
    >>> T = tr.from_table(sales, keys=["shop", "day"], value="sold")
    >>> T.labels[0].tolist(), T.to_numpy().tolist()
    (['a', 'b'], [[2.0, 0.0], [5.0, 7.0]])
    """
    axes = _listed("keys", keys)
    if not axes:
        raise TypeError_("from_table: name at least one key column")
    if len(set(axes)) < len(axes):
        raise TypeError_(f"from_table: keys {axes} name a column twice")
    values = [] if value is None else _listed("value", value)
    limits = _limits(ranges or {})
    source = open_table(table)
    check_names([*axes, *values, *limits], source.names)
    held = source.read(list(dict.fromkeys([*axes, *values, *limits])), limits)
    found = _encoded(held, axes, _outside(held, limits))
    named = tuple([AxisLabels(name, e.labels) for name, e in zip(axes, found)])
    made = {name: _tensor(held, name, found, duplicates, format, fill) for name in values or [""]}
    tensors = {name: from_stored(labelled(stored, named)) for name, stored in made.items()}
    if value is not None and not isinstance(value, str):
        return tensors
    return next(iter(tensors.values()))


def _listed(what: str, names: Sequence[str] | str) -> list[str]:
    """Names of columns, of which one may stand alone."""
    found = [names] if isinstance(names, str) else names
    if not isinstance(found, list | tuple) or not all(isinstance(n, str) for n in found):
        raise TypeError_(f"from_table: {what} is {names!r}",
                         hint="say the name of a column, or a list of names")
    return list(found)


def _limits(ranges: Mapping[str, Range]) -> dict[str, Range]:
    if not isinstance(ranges, Mapping) or not all(
            isinstance(r, tuple | list) and len(r) == 2 for r in ranges.values()):
        raise TypeError_(f"from_table: ranges is {ranges!r}",
                         hint='give the least and the largest value, e.g. {"day": (1, None)}')
    return {name: (low, high) for name, (low, high) in ranges.items()}


def _encoded(table: Table, keys: Sequence[str], left_out: Mask | None) -> list[Encoded]:
    """The codes of the key columns; -1 in all of them for rows that are left out."""
    nulls = _either([_nulls(table[name]) for name in keys])
    if nulls is not None:
        if left_out is not None:
            nulls = nulls & ~left_out
        count = int(nulls.sum())
        if count:
            named = ", ".join(name for name in keys if _nulls(table[name]) is not None)
            warnings.warn(f"from_table: {count} of {table.rows} rows are left out, because they "
                          f"have no key ({named} is null)", NullKeyWarning, stacklevel=3)
    absent = _either([nulls, left_out])
    return [encode(_hidden(table[name], absent)) for name in keys]


def _nulls(column: Column) -> Mask | None:
    if column.kind != "float":
        return column.mask
    hidden: Mask = np.isnan(column.values)
    return _either([column.mask, hidden if hidden.any() else None])


def _either(masks: Sequence[Mask | None]) -> Mask | None:
    """Where one of them holds; None: nowhere."""
    known = [m for m in masks if m is not None]
    return functools.reduce(np.logical_or, known) if known else None


def _hidden(column: Column, absent: Mask | None) -> Column:
    """The column with nulls in these rows."""
    if absent is None:
        return column
    pieces, at = [], 0
    for p in column.pieces:
        pieces.append(replace(p, mask=absent[at:at + len(p)]))
        at += len(p)
    return Column(pieces, column.zone, column.dtype)


def _outside(table: Table, limits: Mapping[str, Range]) -> Mask | None:
    """Rows that are not asked for; null is in no range."""
    masks: list[Mask | None] = []
    for name, (low, high) in limits.items():
        column = table[name]
        if column.kind == "text":
            found = encode(column)
            array, codes = found.labels.array, found.codes
            low, high = cast(Any, low), cast(Any, high)
            lo = 0 if low is None else int(np.searchsorted(array, low))
            hi = len(array) if high is None else int(np.searchsorted(array, high, "right"))
            masks.append((codes < lo) | (codes >= hi))
            continue
        values, of = column.values, column.values.dtype.type
        try:
            inside = np.ones(table.rows, bool)
            if low is not None:
                inside &= values >= (of(low) if column.kind in _TIMES else low)
            if high is not None:
                inside &= values <= (of(high) if column.kind in _TIMES else high)
        except (TypeError, ValueError) as error:
            raise TypeError_(f"from_table: column {name!r} holds {values.dtype}, so the range "
                             f"({low!r}, {high!r}) says nothing: {error}") from error
        masks += [~inside, column.mask]
    return _either(masks)


def _tensor(table: Table, name: str, keys: Sequence[Encoded], duplicates: str,
            format: FormatLike | None, fill: object) -> Stored:
    """The tensor of one value column; of none, each row counts one."""
    absent = keys[0].codes < 0 if keys[0].has_nulls else None
    data: Any = np.int64(1)
    if name:
        column = table[name]
        if column.dtype is None or column.dtype not in DTYPES:
            raise UnsupportedError(
                f"from_table: the value column {name!r} holds {column.dtype or 'texts'}, a tensor "
                "holds numbers or booleans", hint="make it a key, or convert it first")
        data, absent = column.values, _either([absent, column.mask])
    shape = tuple([len(e.labels) for e in keys])
    coords = [e.codes for e in keys]
    if absent is not None:
        kept = ~absent
        width = 0 if data.ndim == 0 else data.itemsize
        require((4 * len(coords) + width) * table.rows, f"the entries of {table.rows} rows")
        coords = [c[kept] for c in coords]
        data = data[kept] if data.ndim else data
    return storage.from_coo(coords, data, shape, fill=fill, duplicates=duplicates, format=format)


def to_table(t: Tensor, value: str = "val") -> Any:
    """The entries that differ from the fill as an Arrow table: see ``Tensor.to_table``."""
    return arrow_table(entries_table(t, value))


def entries_table(t: Tensor, value: str = "val") -> Table:
    """The entries that differ from the fill: a column for each axis, then their values."""
    stored = stored_of(t)
    coo = storage.to_coo(stored)
    coords, values = coo.coords, coo.values
    if storage.count_nonfill(stored) != coo.count:
        kept = differs(values, stored.fill)
        coords, values = tuple([c[kept] for c in coords]), values[kept]
    require(sum(c.nbytes for c in coords) + values.nbytes, f"a table of {values.size} rows")
    columns: dict[str, Column] = {}
    for k, (c, axis) in enumerate(zip(coords, axes_of_tensor(t) or (PLAIN,) * t.ndim)):
        columns[_unused(axis.name or f"i{k}", {*columns, value})] = _labels_at(c, axis.labels)
    return Table(columns | {value: Column([Piece(values)])}, values.size)


def _labels_at(places: Any, labels: Labels | None) -> Column:
    if labels is None:
        return Column([Piece(places.astype(np.int64))])
    if labels.is_text:
        return Column([Piece(places, None, labels.values)], labels.zone)
    assert isinstance(labels.values, np.ndarray)
    return Column([Piece(labels.values[places])], labels.zone)


def _unused(name: str, taken: Container[str]) -> str:
    """The name, with a number where two axes have one name."""
    made = chain([name], (f"{name}_{k}" for k in count(1)))
    return next(n for n in made if n not in taken)


__all__ = ["from_table"]
