"""Rows that a loop will need soon are asked for in advance.

A loop that jumps to a row of another operand at each step (A[i, k] * B[k, j]; A[rows]) waits for
memory at each jump: for the bounds of the row, then for its entries, whose places processors cannot
predict. The indices of the jumps to come are already known, so the loop fetches the bounds of the
row ``BOUNDS_ROWS_AHEAD`` steps ahead and the entries of the row ``ENTRY_ROWS_AHEAD`` steps ahead. A
dense row has no bounds: all its lines are fetched; of a vector, the line of the cell."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.algebra import ops
from tensorel.ir.build import minus
from tensorel.ir.nodes import INT64, Call, Expr, Read, const, postorder
from tensorel.kernels.loopir.statements import Prefetch
from tensorel.kernels.lowering.operand_reads import Access, Reading
from tensorel.storage.levels import Compressed

ENTRY_ROWS_AHEAD, BOUNDS_ROWS_AHEAD = 8, 16
CELLS_AHEAD = 16  # entries ahead for single cells: a loop over them is quick
RESULT = ""  # stands among the slots for the result, where cells are added to at jumps
LINE_BYTES = 64  # bytes that come together from memory


def fetch_ahead(low: Reading, name: str, ahead: Callable[[int], Expr], led: bool) -> None:
    """Fetch for each operand that this loop enters at rows of its choice. ``ahead(d)``: the value
    of the loop's index d steps on; ``led``: it comes from a stored operand, not from counting."""
    lines = dict(low.nest.fetch)
    for a in list(low.accesses.values()):
        if a.slot.name in lines and _jumps(low, a, name, led):
            if a.slot.format.rank == 1 and a.slot.format.is_dense:
                _fetch_cell(low, a, name, ahead)
            elif lines[a.slot.name]:
                _fetch_dense(low, a, name, ahead, lines[a.slot.name])
            else:
                _fetch(low, a, name, ahead)


def _jumps(low: Reading, a: Access, name: str, led: bool) -> bool:
    """The read locates a row by this index and then walks through it, or a cell of a vector."""
    fmt = a.slot.format
    if a.resolved or a.depth >= fmt.rank or name not in a.index.free or not a.level.full:
        return False
    if a.depth + 1 < fmt.rank:
        following = fmt.levels[a.depth + 1]
        row = isinstance(following, Compressed) or (following.full and a.depth + 2 == fmt.rank)
    else:
        row = fmt.rank == 1 and fmt.is_dense
    if not row or a.valid is not None:
        return False
    if not all(n == name or n in low.bound for n in a.index.free):
        return False
    reads = [e for e in postorder(a.index) if isinstance(e, Read)]
    if not all(r.tensor.data.format.is_dense for r in reads):  # type: ignore[attr-defined]
        return False
    return bool(reads) or led


def _fetch(low: Reading, a: Access, name: str, ahead: Callable[[int], Expr]) -> None:
    fmt = a.slot.format
    following = fmt.levels[a.depth + 1]
    for distance in (BOUNDS_ROWS_AHEAD, ENTRY_ROWS_AHEAD):
        at = _index_at(low, a, name, ahead(distance))
        found = a.level.find(a.arrays, a.position, a.coords, at)
        if found is None:
            return
        walk = following.walk(a.arrays, found.child, (*a.coords, at))
        assert walk is not None
        if distance == BOUNDS_ROWS_AHEAD:
            _emit(low, walk.lo)
            continue
        first = low.let("soon", walk.lo)
        _emit(low, walk.coord(first))
        if a.depth + 2 == fmt.rank:
            _emit(low, fmt.value(a.arrays, walk.child(first)))


def _fetch_dense(low: Reading, a: Access, name: str, ahead: Callable[[int], Expr],
                 lines: int) -> None:
    fmt = a.slot.format
    at = _index_at(low, a, name, ahead(ENTRY_ROWS_AHEAD))
    found = a.level.find(a.arrays, a.position, a.coords, at)
    name_of = fmt.value_array
    if found is None or name_of is None:
        return
    width = LINE_BYTES // a.arrays[name_of].dtype.itemsize
    for k in range(lines):
        cell = fmt.levels[a.depth + 1].find(
            a.arrays, found.child, (*a.coords, at), const(k * width, INT64))
        value = None if cell is None else fmt.value(a.arrays, cell.child)
        if isinstance(value, Read):
            low.emit(Prefetch(value.tensor, value.indices[0]))  # type: ignore[arg-type]


def _fetch_cell(low: Reading, a: Access, name: str, ahead: Callable[[int], Expr]) -> None:
    at = _index_at(low, a, name, ahead(CELLS_AHEAD))
    found = a.level.find(a.arrays, a.position, a.coords, at)
    if found is not None:
        _emit(low, a.slot.format.value(a.arrays, found.child))


def _index_at(low: Reading, a: Access, name: str, v: Expr) -> Expr:
    """The index of the read for another value of the loop's index, kept within its axis."""
    bound = low.bound
    reads = [low.accesses[e] for e in postorder(a.index) if isinstance(e, Read)]
    states = [r.state() for r in reads]
    low.bound = {**bound, name: v}
    at = low.let("ahead", low.value(a.index))
    low.bound = bound
    for r, state in zip(reads, states):
        r.restore(state)
    if not reads:
        return at
    axis = a.slot.format.order[a.depth]
    last = minus(low.axis_extent(a, axis), 1)
    inside = Call(ops.maximum, (Call(ops.minimum, (at, last)), const(0, INT64)))
    return low.let("ahead", inside)


def _emit(low: Reading, element: Expr) -> None:
    """Fetch the one element that an expression reads."""
    for e in postorder(element):
        if isinstance(e, Read):
            low.emit(Prefetch(e.tensor, e.indices[0]))  # type: ignore[arg-type]
            return
