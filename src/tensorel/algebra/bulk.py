"""Whole-tensor operators as objects: those whose result is no formula per entry.

Adding one is one statement at the end: its NumPy meaning, the kinds of its operands and
parameters, and the rules for shape, dtype and fill of its result. Rules and planners ask these,
never names. What is quicker on stored tensors is registered under the object by the engine
(``engines/in_process/whole_tensors.py``); without that the meaning runs, on dense arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import joins, ops
from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.errors import ShapeError, TypeError_

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Params = tuple[Any, ...]


class Kind(Enum):
    """What an operand or a parameter is.

    AXIS: the axis of the first operand along which the operator works. It treats each fibre
    along it by itself; the result has the axis at the same place, or not at all.
    """

    TENSOR = "any tensor"
    PLACES = "a vector of whole numbers"
    AXIS = "an axis of the first operand"
    AXIS_OR_ALL = "such an axis, or None: all entries in C order are one fibre"
    COUNT = "at most the extent of the axis"
    EXTENT = "any extent"
    FLAG = "True or False"
    SHAPE = "the shape of the result"
    CONDITIONS = "which entries of two tensors are joined, and what becomes of a pair"
    PROGRAM = "statements that run in order, with their meaning as interpret(operands, record)"
    RECORD = "shapes and dtypes of several results, which lie in one record of bytes"
    METHOD = "by which method, or an empty text"


_AXES = (Kind.AXIS, Kind.AXIS_OR_ALL)


@dataclass(frozen=True, eq=False, slots=True)
class BulkOperator:
    """A whole-tensor operator.

    meaning: NumPy function of the operands and then the parameters, the definition that all
    engines must meet.
    operands, params: what they are, in order.
    shape, dtype: of the result, from the shapes (the dtypes) of operands, then the parameters.
    fill: the value where no operand has an entry, from the fill of the first operand. Zero, for
    which any fill is right, where it depends on the place.
    ranks: it keeps few entries of each fibre, or their places, so that its operand need never be
    whole.
    places: the operator that finds, with the same parameters, where along the axis the entries of
    the result stand.
    running: the monoid whose running values along the axis the result holds. Engines then work on
    the fibres that have entries alone, and ``ufunc.accumulate`` of the monoid is this operator.
    whole: the result is dense, however few entries its operands have.
    several: it takes one operand or more, of any kinds.
    effort: multiply-adds, from the shapes and the parameters, of an operator whose result has a
    value everywhere and that mixes all entries of its operands.
    """

    name: str
    meaning: Callable[..., Any]
    params: tuple[Kind, ...]
    shape: Callable[..., Shape]
    dtype: Callable[..., DType]
    fill: Callable[[Any], object]
    operands: tuple[Kind, ...] = (Kind.TENSOR,)
    ranks: bool = False
    places: BulkOperator | None = None
    running: ops.Operator | None = None
    whole: bool = False
    several: bool = False
    effort: Callable[..., float] | None = None

    def check(self, operands: Sequence[object], params: Params) -> None:
        """Refuse another number of operands or parameters."""
        given, wanted = (len(operands), len(params)), (len(self.operands), len(self.params))
        if self.several and given[0] and given[1] == wanted[1]:
            return
        if given != wanted:
            raise TypeError_(f"{self.name} takes {wanted[0]} operands and {wanted[1]} parameters, "
                             f"not {given[0]} and {given[1]}")

    def axis(self, params: Params) -> int | None:
        """The axis along which each fibre is treated by itself; None if there is none."""
        found = [p for kind, p in zip(self.params, params) if kind in _AXES]
        return found[0] if found else None

    def along(self, params: Params, axis: int) -> Params:
        """The parameters with another axis."""
        return tuple([axis if kind in _AXES else p for kind, p in zip(self.params, params)])

    def apply(self, operands: Sequence[Array], params: Params,
              meaning: Callable[..., Any] | None = None) -> Array:
        """The result for dense operands; ``meaning``: a quicker way to it.

        >>> sort.apply([np.array([3, 1, 2])], (0, True)).tolist()
        [3, 2, 1]
        """
        with np.errstate(all="ignore"):
            found = np.asarray((meaning or self.meaning)(*operands, *params))
        return found.astype(self.dtype(*[a.dtype for a in operands], *params), copy=False)

    def __repr__(self) -> str:
        return f"<bulk operator {self.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        return bulk_operator, (self.name,)


#: All whole-tensor operators, by name, in order of declaration.
BULK_OPERATORS: dict[str, BulkOperator] = {}


def bulk_operator(name: str) -> BulkOperator:
    """The whole-tensor operator of that name."""
    found = BULK_OPERATORS.get(name) or PROGRAM_OPERATORS.get(name)
    if found is None:
        raise TypeError_(f"unknown whole-tensor operator {name!r}",
                         hint=f"there are {', '.join(BULK_OPERATORS)}")
    return found


# -- rules -----------------------------------------------------------------------------------------
def _same(first: Any, *others: object) -> Any:
    """The shape or dtype of the first operand; its fill, where entries are moved."""
    return first


def _zero(fill: Any) -> object:
    return 0


def _int64(*given: object) -> DType:
    return ops.INT64


def declare(name: str, meaning: Callable[..., Any], *params: Kind,
            shape: Callable[..., Shape] = _same, dtype: Callable[..., DType] = _same,
            fill: Callable[[Any], object] = _zero, **more: Any) -> BulkOperator:
    """A new operator in the table. As long as nothing is said, the result has shape and dtype of
    the first operand and is filled with zeros."""
    found = BULK_OPERATORS[name] = BulkOperator(name, meaning, params, shape, dtype, fill, **more)
    return found


def _reshaped(shape: Shape, into: Shape) -> Shape:
    if math.prod(shape) != math.prod(into):
        raise ShapeError(f"a tensor of shape {shape} cannot be reshaped to {into}")
    return into


def _taken(shape: Shape, places: Shape, axis: int) -> Shape:
    return (*shape[:axis], *places, *shape[axis + 1 :])


def _first(shape: Shape, count: int, axis: int, largest: bool) -> Shape:
    return (*shape[:axis], count, *shape[axis + 1 :])


def _reduced(shape: Shape, axis: int | None) -> Shape:
    if 0 in (shape if axis is None else shape[axis : axis + 1]):
        raise ShapeError(f"a tensor of shape {shape} has no smallest or largest entry "
                         + ("" if axis is None else f"along axis {axis}"))
    return () if axis is None else (*shape[:axis], *shape[axis + 1 :])


def _prefix(op: ops.Operator) -> Callable[[Any], object]:
    """The fill of running values of a monoid: c if every prefix of c, c, c, ... reduces to c."""

    def rule(fill: Any) -> object:
        with np.errstate(all="ignore"):
            both: Any = np.asarray(op.meaning(fill, fill)).astype(fill.dtype)
        return fill if both.tobytes() == fill.tobytes() else 0

    return rule


# -- meanings --------------------------------------------------------------------------------------
def order(array: Array, axis: int, descending: bool) -> Array:
    """Positions in sorted order, nan last (first when descending), ties by lower position."""
    if not descending:
        return np.argsort(array, axis=axis, kind="stable")
    positions: Array = np.argsort(np.flip(array, axis), axis=axis, kind="stable")
    turned: Array = np.flip(array.shape[axis] - 1 - positions, axis)
    return turned


def _sorted(array: Array, axis: int, descending: bool) -> Array:
    ascending = np.sort(array, axis=axis)
    return np.flip(ascending, axis) if descending else ascending


def _topk_indices(array: Array, count: int, axis: int, largest: bool) -> Array:
    return np.take(order(array, axis, largest), np.arange(count), axis=axis)


def _topk_values(array: Array, count: int, axis: int, largest: bool) -> Array:
    return np.take_along_axis(array, _topk_indices(array, count, axis, largest), axis=axis)


def _take(array: Array, places: Array, axis: int) -> Array:
    """Like reads, places out of range occur only where nobody looks: any entry will do."""
    found: Array = np.take(array, places, axis=axis, mode="clip")
    return found


# -- the operators ---------------------------------------------------------------------------------
reshape = declare("reshape", np.reshape, Kind.SHAPE, shape=_reshaped, fill=_same)
take = declare("take", _take, Kind.AXIS, shape=_taken, fill=_same,
               operands=(Kind.TENSOR, Kind.PLACES))
#: S[j, k] = (places[k] == j)
one_hot = declare("one_hot", lambda places, extent: np.arange(extent)[:, None] == places,
                  Kind.EXTENT, operands=(Kind.PLACES,), dtype=lambda places, extent: ops.BOOL,
                  shape=lambda places, extent: (extent, *places))
sort = declare("sort", _sorted, Kind.AXIS, Kind.FLAG, fill=_same)
argsort = declare("argsort", order, Kind.AXIS, Kind.FLAG, dtype=_int64)
argmin = declare("argmin", np.argmin, Kind.AXIS_OR_ALL, shape=_reduced, dtype=_int64, ranks=True)
argmax = declare("argmax", np.argmax, Kind.AXIS_OR_ALL, shape=_reduced, dtype=_int64, ranks=True)
cumulative_sum = declare("cumulative_sum", lambda a, axis: np.cumsum(a, axis, a.dtype), Kind.AXIS,
                         fill=_prefix(ops.add), running=ops.add)
cumulative_prod = declare("cumulative_prod", lambda a, axis: np.cumprod(a, axis, a.dtype),
                          Kind.AXIS, fill=_prefix(ops.multiply), running=ops.multiply)
topk_indices = declare("topk_indices", _topk_indices, Kind.COUNT, Kind.AXIS, Kind.FLAG,
                       shape=_first, dtype=_int64, ranks=True)
topk_values = declare("topk_values", _topk_values, Kind.COUNT, Kind.AXIS, Kind.FLAG,
                      shape=_first, fill=_same, ranks=True, places=topk_indices)
#: The pairs of entries that meet conditions; its axes are those of A, then some of B.
join = declare("join", joins.meaning, Kind.CONDITIONS, shape=joins.result_shape,
               dtype=joins.result_dtype, operands=(Kind.TENSOR, Kind.TENSOR))


# -- programs --------------------------------------------------------------------------------------
#: Operators that belong to programs of statements (``loops.unit``), by name.
PROGRAM_OPERATORS: dict[str, BulkOperator] = {}
#: Each result in a record begins at a multiple of so many bytes.
RECORD_ALIGNMENT = 64
_UINT8 = np.dtype("uint8")
Record = tuple[tuple[Shape, str], ...]


def record_starts(record: Record) -> list[int]:
    """Where the results in a record begin, and where the last one ends.

    >>> record_starts((((3,), "float64"), ((), "int64")))
    [0, 64, 128]
    """
    starts = [0]
    for shape, dtype in record:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        starts.append(starts[-1] + -(-size // RECORD_ALIGNMENT) * RECORD_ALIGNMENT)
    return starts


def record_field(record: Array, layout: Record, k: int) -> Array:
    """A result in the memory of its record."""
    (shape, dtype), start = layout[k], record_starts(layout)[k]
    size = math.prod(shape) * np.dtype(dtype).itemsize
    found: Array = record[start : start + size].view(dtype).reshape(shape)
    return found


def _of_program(name: str, meaning: Callable[..., Any], *params: Kind, **about: Any
                ) -> BulkOperator:
    found = PROGRAM_OPERATORS[name] = BulkOperator(
        name, meaning, params, fill=_zero, whole=True, **about)
    return found


#: The record of the results of a program.
run_program = _of_program(
    "run", lambda *given: given[-2].interpret(given[:-2], given[-1]), Kind.PROGRAM, Kind.RECORD,
    shape=lambda *given: (record_starts(given[-1])[-1],), dtype=lambda *given: _UINT8,
    several=True)
#: One result of a record.
result_of_program = _of_program(
    "result", record_field, Kind.RECORD, Kind.COUNT,
    shape=lambda shape, layout, k: layout[k][0],
    dtype=lambda record, layout, k: np.dtype(layout[k][1]))
