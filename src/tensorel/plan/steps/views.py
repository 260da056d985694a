"""Results that need no computing: permuted axes and row ranges share their source's arrays."""

from __future__ import annotations

from tensorel.ir.affine import split_affine
from tensorel.ir.build import int_value
from tensorel.ir.nodes import Axis, Expr, Index, Read
from tensorel.storage.format import Format
from tensorel.storage.levels import Compressed, Dense, Level
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack


def view_of(axes: tuple[Axis, ...], body: Expr) -> tuple[Read, tuple[int, ...], int | None] | None:
    """(read, permutation, first row): the result is the read's tensor with its axes permuted,
    from that position of its outer level on; None if it is not."""
    if not isinstance(body, Read) or len(body.indices) != len(axes) or not axes:
        return None
    fmt = body.tensor.data.format  # type: ignore[attr-defined]
    if type(fmt) is not Stack:
        return None
    names = [a.name for a in axes]
    start: int | None = None
    seen: list[int] = []
    for k, e in enumerate(body.indices):
        extent = body.tensor.shape[k]
        if len(e.free) != 1:
            return None
        name = next(iter(e.free))
        seen.append(names.index(name))
        wanted = axes[seen[-1]].extent
        if isinstance(e, Index) and wanted == extent:
            continue
        parts = split_affine(e, name)
        offset = None if parts is None else int_value(parts[1])
        if parts is None or parts[0] != 1 or offset is None or offset < 0:
            return None
        if not _can_start(fmt, k) or offset + wanted > extent:
            return None
        start = offset
    if len(set(seen)) != len(axes):
        return None
    # permutation[k]: which axis of the source the k-th axis of the result is
    permutation = tuple(seen.index(k) for k in range(len(axes)))
    return body, permutation, start


def _can_start(fmt: Format, axis: int) -> bool:
    """The axis is the outer level, dense, with segments right below it."""
    levels = fmt.levels
    return fmt.order[0] == axis and len(levels) > 1 and isinstance(levels[0], Dense) and (
        isinstance(levels[1], Compressed))


def permuted(fmt: Format, permutation: tuple[int, ...], shape: tuple[int, ...]) -> Format | None:
    """The format of the same arrays for a tensor with permuted axes."""
    if permutation == tuple(range(len(permutation))):
        return fmt
    order = tuple(permutation.index(a) for a in fmt.order)
    levels: list[Level] = []
    for axis, level in zip(order, fmt.levels):
        levels.append(Dense(axis) if isinstance(level, Dense) else level)
    wanted = Stack(fmt.name, order, tuple(levels))
    dtype = None
    names = ["dense", "dense_f", "csr", "csc", "dcsr", "dcsc", f"csf({','.join(map(str, order))})"]
    for name in names:
        try:
            known = resolve(name, shape, dtype)  # type: ignore[arg-type]
        except ValueError:
            continue
        if known.order == order and known.levels == tuple(levels):
            return known
    return Stack(f"{fmt.name.split('*')[0]}*", order, wanted.levels)
