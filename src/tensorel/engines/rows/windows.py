"""Window functions: rows sorted by partition and order, each with bounds of the rows that it sees.

Sums of reals, least and largest values are running ones where all bounds begin with the partition
(or, turned around, end with it); else each row visits its frame. Whole numbers are differences of
running sums, which are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64
from tensorel.base.records import dataclass
from tensorel.engines.rows.compacting import Rows
from tensorel.engines.rows.frames import ROW, Each, Frame
from tensorel.engines.rows.keys import comparable
from tensorel.engines.rows.ordering import permutation, words_of_column
from tensorel.engines.rows.overflows import sum_overflow
from tensorel.engines.rows.updates import Update
from tensorel.engines.rows.vectors import Array, Vector, concatenated
from tensorel.ir.nodes import INT64
from tensorel.sql.algebra import Window, WindowCall
from tensorel.sql.intervals import WHOLE
from tensorel.sql.scalars import Column
from tensorel.sql.types import Type
from tensorel.storage.key_matching import group_ids
from tensorel.storage.limits import require

_OPS = {"sum": ops.add, "avg": ops.add, "product": ops.multiply, "min": ops.minimum,
        "max": ops.maximum, "bool_and": ops.minimum, "bool_or": ops.maximum}


def windowed(rows: Rows, node: Window, frame: Frame) -> Frame:
    """The frame with a column for each window function."""
    frame = rows.compact(frame)
    require(112 * frame.count, f"windows over {frame.count} rows")
    orders: dict[object, _Partitions] = {}
    cells = dict(frame.cells)
    for column, call in node.calls:
        key = (call.partition, call.order)
        if key not in orders:
            orders[key] = _partitions(rows, frame, call)
        cells[column] = rows.arrays.cell(_Evaluation(rows, frame, orders[key], call).of(column))
    return frame.with_cells(cells)


@dataclass(frozen=True, eq=False, slots=True)
class _Partitions:
    """The rows in order, and for each place there the bounds of its partition and of its peers,
    which are equal in the order; ends are behind the last."""

    order: Array
    first: Array
    last: Array
    peers_first: Array
    peers_last: Array

    @property
    def places(self) -> Array:
        return np.arange(len(self.order))


def _partitions(rows: Rows, frame: Frame, call: WindowCall) -> _Partitions:
    scalars = [*call.partition, *[k.value for k in call.order]]
    _, vectors = rows.vectors(frame, scalars)
    keys = vectors[:len(call.partition)]
    ids = np.zeros(frame.count, np.int64)
    if keys and frame.count:
        ids = group_ids([comparable(v) for v in keys],
                        [None if v.valid is None else ~v.valid for v in keys]).ids
    words = [w for k, v in zip(call.order, vectors[len(keys):])
             for w in words_of_column(v, k.descending, k.nulls_first)]
    order = permutation([ids, *words])
    new = _changes([ids[order]])
    peers = new | _changes([w[order] for w in words]) if words else new
    return _Partitions(order, *_bounds(new), *_bounds(peers))


def _changes(columns: Sequence[Array]) -> Array:
    """Where a row differs from the one before."""
    found = np.zeros(len(columns[0]), bool)
    found[:1] = True
    for c in columns:
        found[1:] |= c[1:] != c[:-1]
    return found


def _bounds(new: Array) -> tuple[Array, Array]:
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(new)))
    return np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)


class _Evaluation:
    """One window function."""

    def __init__(self, rows: Rows, frame: Frame, parts: _Partitions, call: WindowCall) -> None:
        self.rows = rows
        self.frame = frame
        self.parts = parts
        self.call = call

    def of(self, column: Column) -> Vector:
        """Its values, row by row as they came."""
        if not self.frame.count:
            words = np.array([""], object) if column.type is Type.TEXT else None
            return Vector(column.type, np.zeros(0, column.type.dtype), None, words)
        found = self._in_order(column.type)
        back = np.empty_like(self.parts.order)
        back[self.parts.order] = self.parts.places
        return found.take(back)

    def _in_order(self, type_: Type) -> Vector:
        name, p = self.call.function, self.parts
        match name:
            case "row_number":
                return Vector(type_, p.places - p.first + 1)
            case "rank":
                return Vector(type_, p.peers_first - p.first + 1)
            case "dense_rank":
                runs = np.cumsum(p.places == p.peers_first)
                return Vector(type_, runs - runs[p.first] + 1)
            case "percent_rank":
                others = p.last - p.first - 1
                return Vector(type_, (p.peers_first - p.first) / np.maximum(others, 1))
            case "cume_dist":
                return Vector(type_, (p.peers_last - p.first) / (p.last - p.first))
            case "ntile":
                return Vector(type_, _tiles(p, self.call.offset))
            case "lag" | "lead":
                return self._neighbour()
            case "first_value" | "last_value" | "nth_value":
                low, high = self._frame()
                at = {"first_value": low, "last_value": high - 1,
                      "nth_value": low + self.call.offset - 1}[name]
                return _taken(self._values(0), at, (at >= low) & (at < high))
        return self._aggregated(type_)

    def _values(self, k: int) -> Vector:
        """An argument, in the order of the partitions."""
        _, (found,) = self.rows.vectors(self.frame, [self.call.args[k]])
        return found.take(self.parts.order)

    def _neighbour(self) -> Vector:
        p, step = self.parts, self.call.offset * (-1 if self.call.function == "lag" else 1)
        at = p.places + step
        there = (at >= p.first) & (at < p.last)
        if len(self.call.args) == 1:
            return _taken(self._values(0), at, there)
        both = concatenated([self._values(0), self._values(1)])
        return both.take(np.where(there, at, len(p.order) + p.places))

    # -- frames ----------------------------------------------------------------------------------
    def _frame(self) -> tuple[Array, Array]:
        """From where to where each row sees."""
        p = self.parts
        low, high = self.call.start, self.call.end
        first = p.first if low.offset is None else p.peers_first if low.peers else (
            np.clip(p.places + low.offset, p.first, p.last))
        last = p.last if high.offset is None else p.peers_last if high.peers else (
            np.clip(p.places + high.offset + 1, p.first, p.last))
        return first, np.maximum(first, last)

    def _there(self, values: Vector | None) -> Array | None:
        """Which rows count."""
        found = None if values is None else values.valid
        if self.call.where is not None:
            frame, (where,) = self.rows.prepared(self.frame, [self.call.where])
            truth = self.rows.lowering(frame).test(where).true
            _, (kept,) = self.rows.pipelines.collect(frame, [truth])
            kept = kept[self.parts.order]
            found = kept if found is None else found & kept
        return found

    def _aggregated(self, type_: Type) -> Vector:
        name = self.call.function
        values = self._values(0) if self.call.args else None
        there, (low, high) = self._there(values), self._frame()
        if name == "count_if":
            assert values is not None
            there = values.values if there is None else there & values.values
        counts = high - low
        if there is not None:
            counts = _difference(there.astype(np.int64), low, high)
        if name in ("count", "count_if"):
            return Vector(Type.INTEGER, counts)
        assert values is not None
        valid = counts > 0
        if name == "sum" and not values.type.is_real:
            whole = values.values.astype(np.int64)
            found = _exact(whole if there is None else np.where(there, whole, 0), low, high)
        else:
            found = self._combined(values, there, low, high)
        if name == "avg":
            found = found / np.maximum(counts, 1)
        found = np.where(valid, found, 0)
        if type_ is Type.BOOLEAN:
            found = found > 0
        return Vector(type_, found, None if valid.all() else valid, values.words)

    def _combined(self, values: Vector, there: Array | None, low: Array, high: Array) -> Array:
        """Values combined over frames."""
        arrays, name = self.rows.arrays, self.call.function
        real = name in ("sum", "avg", "product") or values.type.is_real
        data = values.values.astype(FLOAT64 if real else INT64)
        n, p = len(data), self.parts

        def update(at: object, turned: bool) -> Update:
            step = slice(None, None, -1 if turned else 1)
            condition = None if there is None else arrays.read(there[step], at)  # type: ignore[arg-type]
            return Update(_OPS[name], arrays.read(np.ascontiguousarray(data[step]), at),  # type: ignore[arg-type]
                          condition)

        if self.call.start.offset is None:
            new = arrays.read(p.places == p.first, ROW)
            (found,) = self.rows.pipelines.running(n, new, [update(ROW, False)])
            return np.asarray(found[np.maximum(high - 1, 0)])
        if self.call.end.offset is None:
            new = arrays.read((p.places == p.last - 1)[::-1].copy(), ROW)
            (found,) = self.rows.pipelines.running(n, new, [update(ROW, True)])
            return np.asarray(found[::-1][np.minimum(low, n - 1)])
        at = arrays.local("seen")
        frame = Frame(n, (Each(at, arrays.position(low, ROW), arrays.position(high, ROW)),), {})
        (found,) = self.rows.pipelines.aggregate(frame, ROW, n, [update(at, False)])
        return found


def _tiles(p: _Partitions, count: int) -> Array:
    """Numbers of ``count`` parts of each partition, of which the first are larger by one."""
    size, at = p.last - p.first, p.places - p.first
    small = size // count
    large = size % count
    split = large * (small + 1)
    found: Array = np.where(at < split, at // (small + 1),
                            large + (at - split) // np.maximum(small, 1)) + 1
    return found


def _taken(values: Vector, at: Array, there: Array) -> Vector:
    """Values at places, null where there is none."""
    found = values.take(np.where(there, at, 0))
    if there.all():
        return found
    valid = there if found.valid is None else found.valid & there
    return Vector(found.type, found.values, valid, found.words)


def _exact(values: Array, low: Array, high: Array) -> Array:
    """The same of whole numbers of any size; an error where a sum has more than 64 bits. Sums of
    halves of the numbers tell."""
    found = _difference(values, low, high)
    longest = int((high - low).max(initial=0))
    largest = max(abs(int(values.min(initial=0))), abs(int(values.max(initial=0))))
    if largest * longest >= WHOLE:
        upper = _difference(values >> 32, low, high)
        lower = _difference(values & 0xFFFFFFFF, low, high)
        upper += lower >> 32
        if bool(((upper < -(2**31)) | (upper >= 2**31)).any()):
            raise sum_overflow()
    return found


def _difference(values: Array, low: Array, high: Array) -> Array:
    """Sums over frames as differences of sums from the first row on."""
    sums: Array = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    found: Array = sums[high] - sums[low]
    return found
