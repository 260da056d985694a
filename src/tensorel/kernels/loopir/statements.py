"""Loop IR: what a kernel does, statement by statement.

Scalar expressions are those of the calculus (``ir.nodes``): ``Const``, ``Local`` (a scalar
variable), ``Call``, and ``Read(Array, (position,))`` of one-dimensional physical arrays. All
index arithmetic is int64; a Read of a narrower index array is widened by ``cast_int64``.
A kernel is a function of its arrays, its growable buffers, its scalar parameters and the range
[lo, hi) of its outer loop; it returns a status.
"""

from __future__ import annotations

from enum import IntEnum

from tensorel.base.records import dataclass
from tensorel.ir.nodes import Const, DType, Expr, Local, Source, const


class Status(IntEnum):
    """What a kernel returns."""

    DONE = 0
    CANCELLED = 1
    NO_MEMORY = 2  # the system has none left
    OVER_LIMIT = 3  # growing a buffer would pass the memory limit
    OUT_OF_BOUNDS = 4  # a checked kernel met a position outside its array


def array(name: str, dtype: DType) -> Source:
    """A one-dimensional physical array that kernels read and write."""
    return Source(name, (-1,), dtype, const(0, dtype))


@dataclass(frozen=True, slots=True)
class Buffer:
    """A growable output of a kernel. Run-time state: data pointer, length, capacity."""

    name: str
    dtype: DType


#: Buffers that only grow together, a record at a time: they have one length and one capacity.
Table = tuple[Buffer, ...]


class Stmt:
    """Base of statements."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """Set a local variable; the first assignment on a path declares it. ``value`` already has
    the dtype of ``target``."""

    target: Local
    value: Expr


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    """``array[position] = value``; value has the array's dtype."""

    array: Source
    position: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Prefetch(Stmt):
    """``array[position]`` will be read soon; changes nothing."""

    array: Source
    position: Expr


@dataclass(frozen=True, slots=True)
class Await(Stmt):
    """Go on when ``array[position]`` (int64), which another thread announces, is at least
    ``value``. Leave the kernel when it is cancelled, or ``failed[0]`` is not 0."""

    array: Source
    position: Expr
    value: Expr
    failed: Source


@dataclass(frozen=True, slots=True)
class Announce(Stmt):
    """``array[position] = value`` (int64), for threads that wait: whoever sees it sees all that was
    stored before."""

    array: Source
    position: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Append(Stmt):
    """Append one record, a value for each buffer of a table, which grows by half when full.

    Growth is charged to the kernel's memory budget; on failure the kernel returns."""

    table: Table
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Reserve(Stmt):
    """Make room for ``count`` more records, so that the next ``count`` AppendReserved need no
    check."""

    table: Table
    count: Expr


@dataclass(frozen=True, slots=True)
class AppendReserved(Stmt):
    """Append to a table in which room was reserved: no check. With a condition, the record is
    written in any case and kept where it holds, without a branch."""

    table: Table
    values: tuple[Expr, ...]
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Length(Stmt):
    """``target`` (int64) = number of records appended to the table so far."""

    target: Local
    table: Table


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """``for target in range(lo, hi): body``; lo and hi are evaluated once. ``apart``: what holds
    for all turns together says little, loops inside are made for each turn alone."""

    target: Local
    lo: Expr
    hi: Expr
    body: tuple[Stmt, ...]
    checked: bool = False  # look at the cancel flag in each iteration
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Lanes(Stmt):
    """``for target in range(start, start + count): body``, all turns at once: what differs from
    turn to turn is a vector (``varying``). Turns do not depend on each other, loops inside run
    through the same range in each, and no array that is written is read."""

    target: Local
    start: Expr
    count: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """``while condition: body``; ``condition`` is evaluated with short-circuit ``logical_and``
    (the second operand is evaluated only if the first is true)."""

    condition: Expr
    body: tuple[Stmt, ...]
    checked: bool = False


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """``if condition: then else: otherwise``; ``condition`` short-circuits like While's."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    """Leave the innermost loop."""


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    """Go on with the next iteration of the innermost loop (For increments first)."""


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """Leave the kernel, which is done."""


@dataclass(frozen=True, slots=True)
class Comment(Stmt):
    """For readers of the printed kernel."""

    text: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled unit.

    arrays: physical arrays in the order of the call; names of those written are in ``written``.
    tables: growable outputs; a call passes all their buffers, in order.
    scalars: int64 or float parameters, Locals already defined on entry, in order.
    lo, hi: Locals (int64) that hold the range of the outer loop for this call.
    workspace arrays are ordinary arrays that the caller allocates per thread.
    """

    name: str
    arrays: tuple[Source, ...]
    written: frozenset[str]
    tables: tuple[Table, ...]
    scalars: tuple[Local, ...]
    lo: Local
    hi: Local
    body: tuple[Stmt, ...]

    @property
    def buffers(self) -> Table:
        """Those of all tables, in the order of the call."""
        return tuple(b for table in self.tables for b in table)


__all__ = [
    "Announce", "Append", "AppendReserved", "Assign", "Await", "Break", "Buffer", "Comment",
    "Const", "Continue", "Expr", "For", "If", "Kernel", "Lanes", "Length", "Local", "Prefetch",
    "Reserve", "Return", "Status", "Stmt", "Store", "Table", "While", "array",
]
