"""What a kernel computes: a loop nest over operands, and how its result is assembled."""

from __future__ import annotations

import math
from enum import Enum

from tensorel.base.records import dataclass
from tensorel.ir.nodes import (
    INT64,
    Axis,
    Const,
    DType,
    Expr,
    Index,
    Operator,
    Read,
    Reduce,
    postorder,
)
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

    def __hash__(self) -> int:
        return hash(self.name)  # of one plan they differ by it


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

    @property
    def rekeys(self) -> bool:
        """Entries get other coordinates than those of the loops."""
        return self.coords != tuple([Index(n) for n in self.axes])


@dataclass(frozen=True, slots=True)
class Let:
    """A workspace that is filled once for each iteration of the nest's outer loops and used up
    inside it: ``w[axis] = reduce(op, the other loops, body)``.

    slot: what reads of it name; its format is ``kernels.lowering.workspaces.workspace``.
    depth: so many of the nest's loops are bound when it is filled.
    loops: its own loops in order, ``axis`` among them; no other loop of the nest has their names.
    op: combines what meets at one coordinate; None where each is visited at most once.
    Outside the body's support it is the fill of its reads, which therefore is the body's
    background, and the identity of ``op``.
    """

    slot: Slot
    depth: int
    axis: str
    loops: tuple[str, ...]
    op: Operator | None
    body: Expr


@dataclass(frozen=True, slots=True)
class Nest:
    """``output[axes] = reduce(op, reduced, body)`` with its loop order.

    body: over Reads whose tensors are Sources with a Slot as data; may contain inner Reduces.
    extents: of every index, by name; kernels read them as parameters.
    gallop: levels of slots, by name and depth, that are searched instead of merged when they
    follow.
    fetch: slots whose rows are fetched ahead, because jumps between them miss the caches, each
    with the number of cache lines of a row (0: its bounds and its first entry).
    residual: body where nothing sparse is stored; with ``counted`` the kernel counts the visited
    points and the rest, each equal to ``residual``, are combined by repetition. ``everywhere``:
    every point is visited, because what is not stored can be neither skipped nor repeated;
    ``whole_cells``: so are all points of a cell that is visited at all.
    lets: workspaces, each read by the body or by a later one. A body that reads them is not
    counted, nor everywhere, nor whole_cells.
    speculative: sums multiply by the zeros of workspaces instead of asking for marks; where the
    result has a nan, it must be computed without that.
    """

    loops: tuple[str, ...]
    extents: tuple[tuple[str, int], ...]
    reduced: frozenset[str]
    op: Operator | None
    body: Expr
    output: Output
    gallop: frozenset[tuple[str, int]] = frozenset()
    residual: Expr | None = None
    counted: bool = False
    everywhere: bool = False
    whole_cells: bool = False
    fetch: frozenset[tuple[str, int]] = frozenset()
    lets: tuple[Let, ...] = ()
    speculative: bool = False

    @property
    def serial(self) -> bool:
        """One call runs all of it: the rest of a counted scalar is known only inside."""
        scalar = not self.output.axes
        return scalar and self.counted and not isinstance(self.residual, Const)

    @property
    def whole(self) -> Expr:
        """The body with its reduction."""
        return self.body if self.op is None else Reduce(
            self.op, tuple([Axis(n, self.extent[n]) for n in sorted(self.reduced)]), self.body)

    @property
    def extent(self) -> dict[str, int]:
        return dict(self.extents)

    @property
    def operands(self) -> dict[Read, Slot]:
        """The reads of stored tensors, in order of appearance; workspaces are none."""
        own = {let.slot for let in self.lets}
        roots = [self.body, *(let.body for let in self.lets), *self.output.coords]
        roots += [e for e in (self.residual, self.output.guard) if e is not None]
        return {
            e: e.tensor.data for e in postorder(*roots)  # type: ignore[attr-defined]
            if isinstance(e, Read) and e.tensor.data not in own}  # type: ignore[attr-defined]
