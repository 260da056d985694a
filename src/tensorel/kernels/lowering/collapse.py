"""Leading loops whose index nothing but one operand knows.

sum(A * A), sum(A @ x), A.sum(axis=0) by rows: in which row an entry stands does not matter. The
entries of a range of rows lie side by side, so one loop over them replaces the loops over the
levels: it is vectorized where nothing else is read, and short or empty rows cost nothing.

The entries of a list have all of their coordinates: one loop over them needs no ends of runs,
whoever else asks for the coordinates, so long as nothing is made once for a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorel.base.records import dataclass
from tensorel.ir.nodes import Expr, Index, Read, below_calls
from tensorel.kernels.lowering.nest import Slot
from tensorel.kernels.lowering.support import Formula
from tensorel.storage.levels import Compressed, Dense, Listed
from tensorel.storage.stack import Stack


@dataclass(frozen=True, slots=True)
class Flat:
    """One loop over the entries of a read's level serves for the loops over the levels down to
    it. ``plain``: nothing else asks for their coordinate."""

    read: Read
    level: int
    plain: bool


def flat_level(roots: Sequence[Expr], names: Sequence[str], extents: Mapping[str, int]
               ) -> Flat | None:
    """The operand whose levels are the loops ``names``, the first of which nothing else knows.
    None where loops below the first leave out entries (the first is cut into ranges, whatever its
    extent)."""
    users = _users(roots)
    read = next(iter(users.get(names[0], ())), None)
    if not isinstance(read, Read):
        return None
    fmt = read.tensor.data.format  # type: ignore[attr-defined]
    if type(fmt) is not Stack or fmt.is_dense:
        return None
    count = 0  # levels that are loops, one by one
    while count < min(len(names), len(fmt.order)) and _is_loop(read, count, names, extents):
        count += 1
    below = [read.indices[a] for a in fmt.order[count:]]
    alone = 0  # of these, the ones that nothing else knows
    while alone < count and users[names[alone]] == {read} \
            and not any(names[alone] in i.free for i in below):
        alone += 1
    last = alone if alone < count and type(fmt.levels[alone]) is Compressed else alone - 1
    return Flat(read, last, last < alone) if last > 0 else None


def _is_loop(read: Read, k: int, names: Sequence[str], extents: Mapping[str, int]) -> bool:
    slot = read.tensor.data  # type: ignore[attr-defined]
    assert isinstance(slot, Slot)
    axis, level = slot.format.order[k], slot.format.levels[k]
    index = read.indices[axis]
    if not isinstance(index, Index) or index.name != names[k]:
        return False
    if k and extents[names[k]] != read.tensor.shape[axis]:
        return False
    return isinstance(level, Dense) or (type(level) is Compressed and not level.runs)


def listed_levels(read: Read, depth: int, names: Sequence[str], extents: Mapping[str, int]
                  ) -> int:
    """How many of the loops ``names`` one loop over the entries of a list serves for, whose level
    ``depth`` is the first. A first loop that is cut into ranges has no extent in ``extents``."""
    slot = read.tensor.data  # type: ignore[attr-defined]
    assert isinstance(slot, Slot)
    order, levels = slot.format.order, slot.format.levels
    for count, (k, name) in enumerate(zip(range(depth, len(levels)), names), 1):
        index, level, size = read.indices[order[k]], levels[k], read.tensor.shape[order[k]]
        if not isinstance(index, Index) or index.name != name or extents.get(name, size) != size:
            break
        if not isinstance(level, Listed) and not (isinstance(level, Compressed) and level.runs):
            break
        if not level.runs:
            return count
    return 0  # runs are left: what they have is not one entry


def _users(roots: Sequence[Expr]) -> dict[str, set[Expr]]:
    """Who knows an index: reads, inner reductions, or the bare index in the formula."""
    found: dict[str, set[Expr]] = {}
    for e in below_calls(*roots):
        for name in e.free:
            found.setdefault(name, set()).add(e)
    return found


def needs(support: Formula, read: Read) -> bool:
    """There is nothing where the read has no entry."""
    parts = support.parts if support.kind == "and" else (support,)
    return any(p.kind == "has" and p.read is read for p in parts)
