"""What a kernel computes: a loop nest over operands, and how its result is assembled."""

from __future__ import annotations

import math
from enum import Enum

from tensorel.ir.nodes import INT64, Const, DType, Expr, Operator, Read
from tensorel.records import dataclass
from tensorel.storage.format import Format


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a stored tensor in a plan: kernels depend on its format and array dtypes.

    ``whole``: by its formula it has a value everywhere; None: as its format says. ``most``: no
    value is larger (strict programs ask which are finite; others do not know)."""

    name: str
    format: Format
    dtypes: tuple[tuple[str, str], ...]
    whole: bool | None = None
    most: float = math.inf


class Assembly(Enum):
    """How results are put together.

    DENSE: stored or accumulated at their place in a dense array.
    LEVELS: appended in order, dense levels first, then compressed ones.
    SHARED: only values; the result has the pattern of an operand and shares its index arrays.
    LIST: appended as a coordinate list in any order; the host sorts and combines.
    BUCKET: counted by the first axis, then scattered (two kernels): a transposition.
    """

    DENSE = "dense"
    LEVELS = "levels"
    SHARED = "shared"
    LIST = "list"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Output:
    """``axes``: indices in storage order. ``coords``: what is stored for each axis (the index
    itself unless the step rekeys). ``dense``: how many leading levels are dense;
    ``dense_tail``: so is the last one.
    ``index_dtypes``: of stored coordinates per axis. ``keep_fill``: store entries that equal the
    fill too. ``pattern``: the read whose stored entries are the result's (SHARED)."""

    assembly: Assembly
    axes: tuple[str, ...]
    coords: tuple[Expr, ...]
    dense: int
    dtype: DType
    fill: Const
    index_dtypes: tuple[DType, ...]
    guard: Expr | None = None
    keep_fill: bool = False
    bitmap_levels: int = 1
    dense_tail: bool = False
    place_dtype: DType = INT64
    pattern: Read | None = None


@dataclass(frozen=True, slots=True)
class Nest:
    """``output[axes] = reduce(op, reduced, body)`` with its loop order.

    body: over Reads whose tensors are Sources with a Slot as data; may contain inner Reduces.
    extents: of every index, by name; kernels read them as parameters.
    gallop: slots whose sorted levels are searched instead of merged when they follow.
    fetch: slots whose rows are fetched ahead, because jumps between them miss the caches.
    residual: body where nothing sparse is stored; with ``counted`` the kernel counts the visited
    points and the rest, each equal to ``residual``, are combined by repetition. ``everywhere``:
    every point is visited, because what is not stored can be neither skipped nor repeated;
    ``whole_cells``: so are all points of a cell that is visited at all.
    """

    loops: tuple[str, ...]
    extents: tuple[tuple[str, int], ...]
    reduced: frozenset[str]
    op: Operator | None
    body: Expr
    output: Output
    gallop: frozenset[str] = frozenset()
    residual: Expr | None = None
    counted: bool = False
    everywhere: bool = False
    whole_cells: bool = False
    fetch: frozenset[str] = frozenset()

    @property
    def serial(self) -> bool:
        """One call runs all of it: the rest of a counted scalar is known only inside."""
        scalar = not self.output.axes
        return scalar and self.counted and not isinstance(self.residual, Const)

    @property
    def extent(self) -> dict[str, int]:
        return dict(self.extents)
