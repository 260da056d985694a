"""Reductions over all entries of one operand need not know where the entries are.

sum(A * A), max(A), the trace of A.T @ A: each stored value is visited once, whatever its row. The
entries of a range of rows lie side by side, so one loop over the value array replaces the loops
over the levels: it is vectorized, and empty rows cost nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tensorel.ir.nodes import Call, Expr, Index, Read, Reduce
from tensorel.kernels.spec import Slot
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.stack import Stack


def flat_read(body: Expr, order: tuple[str, ...], extents: Mapping[str, int]) -> Read | None:
    """The one read of a body whose levels are just the loops ``order``, in that order; None if
    the body depends on these indices in any other way, or if the loops below the first leave out
    some of its entries (the first one is cut into ranges, whatever its extent)."""
    found: Read | None = None
    stack = [body]
    while stack:
        e = stack.pop()
        if e.free.isdisjoint(order):
            continue
        match e:
            case Read():
                if found is not None and e is not found:
                    return None
                found = e
            case Call():
                stack.extend(e.args)
            case Index() | Reduce():
                return None
            case _:
                return None
    if found is None or len(order) < 2 or not _levels_are(found, order):
        return None
    shape = found.tensor.shape
    axes = found.tensor.data.format.order  # type: ignore[attr-defined]
    return found if all(
        extents[n] == shape[a] for n, a in zip(order[1:], axes[1:])) else None


def _levels_are(read: Read, order: tuple[str, ...]) -> bool:
    slot = read.tensor.data  # type: ignore[attr-defined]
    assert isinstance(slot, Slot)
    fmt = slot.format
    if type(fmt) is not Stack or fmt.is_dense or len(fmt.order) != len(order):
        return False
    places = [read.indices[a] for a in fmt.order]
    plain = all(isinstance(i, Index) and i.name == n for i, n in zip(places, order))
    return plain and all(
        isinstance(level, Dense) or (type(level) is Compressed and not level.runs)
        for level in fmt.levels)
