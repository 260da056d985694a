"""Recognizing dense products that NumPy's matmul (BLAS) computes.

Operands are dense, or one of them keeps some rows, each as a whole (``;0;1``): its values are a
dense matrix of these rows, and so are those of the product, which keeps the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tensorel.algebra import ops
from tensorel.ir.given import about
from tensorel.ir.nodes import Axis, Call, Expr, Index, Lambda, Read, Reduce
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.loops.aggregate import Assignment
from tensorel.plan.physical import BlasStep
from tensorel.plan.slot_facts import Known
from tensorel.storage.format import Format
from tensorel.storage.formats.coo import mixed
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack

if TYPE_CHECKING:
    from tensorel.plan.steps.build import StepBuilder


class _Part(NamedTuple):
    """An operand with its indices by axis, or, if it has ``listed`` levels, as these nest them."""

    read: Read
    names: tuple[str, ...]
    listed: int

    @property
    def slot(self) -> Slot:
        return self.read.tensor.data  # type: ignore[attr-defined, no-any-return]


def listed_levels(fmt: Format) -> int:
    """How many outer levels keep some positions alone, each with all that is below it; 0: the
    format is not such a one."""
    if type(fmt) is not Stack or not fmt.levels or not isinstance(fmt.levels[-1], Dense):
        return 0
    sparse = [k for k, level in enumerate(fmt.levels) if not isinstance(level, Dense)]
    outer = fmt.levels[: len(sparse)]
    return len(sparse) if all(isinstance(x, Compressed) and not x.runs for x in outer) else 0


def _part(e: Expr) -> _Part | None:
    if not isinstance(e, Read) or not e.indices:
        return None
    fmt = e.tensor.data.format  # type: ignore[attr-defined]
    listed, at = 0, e.indices
    if not all(isinstance(level, Dense) for level in fmt.levels):
        listed = listed_levels(fmt)
        if not listed or e.tensor.fill.value != 0:  # type: ignore[attr-defined]
            return None
        at = tuple([e.indices[k] for k in fmt.order])
    names = tuple(i.name for i in at if isinstance(i, Index))
    if len(names) != len(e.indices) or len(set(names)) != len(names):
        return None
    return _Part(e, names, listed)


def _parts(body: Expr, axes: tuple[Axis, ...], reduced: tuple[Axis, ...]
           ) -> tuple[_Part, _Part] | None:
    """The factors of a sum of products in floating point over whole axes, one that keeps some of
    its rows first; None of any other formula."""
    if not isinstance(body, Call) or body.op is not ops.multiply or body.dtype.kind not in "fc":
        return None
    if any(a.dtype != body.dtype for a in body.args):
        return None
    left, right = (_part(a) for a in body.args)
    if left is None or right is None:
        return None
    names, out = ({a.name for a in group} for group in (reduced, axes))
    rows, columns = set(left.names), set(right.names)
    extents = {a.name: a.extent for a in (*axes, *reduced)}
    matches = all(
        e.tensor.shape[k] == extents[i.name]  # type: ignore[attr-defined]
        for e in (left.read, right.read) for k, i in enumerate(e.indices)
    )
    if not matches or not names <= (rows & columns) or out != (rows | columns) - names:
        return None
    return (right, left) if right.listed else (left, right)


def blas_step(chooser: StepBuilder, made: Assignment) -> BlasStep | None:
    """A step for sum(products of two such reads) in floating point, else None."""
    axes, op, reduced, body, fill = made.axes, made.op, made.reduced, made.body, made.fill
    if op is not ops.add or not reduced or not axes or chooser.strict:
        return None  # a dot product is as fast in a loop, and wakes no other threads
    parts = _parts(body, axes, reduced)
    if parts is None:
        return None
    left, right = parts
    out = tuple(a.name for a in axes)
    extents, shape = made.extents, made.shape
    if left.listed and (right.listed or fill.value != 0 or not {*right.names}.isdisjoint(
            left.names[: left.listed])):
        return None
    known: tuple[Known, ...] = tuple(
        chooser.known_of(e.read.tensor) for e in (left, right))  # type: ignore[arg-type]
    item = body.dtype.itemsize
    if left.listed:
        kept = left.names[: left.listed]
        inner = tuple([n for n in out if n not in kept])
        if not inner:
            return None  # nothing is left below the positions: they would be a list
        fmt = mixed((), tuple([out.index(n) for n in kept]), tuple([out.index(n) for n in inner]))
        if made.want not in (None, fmt):
            return None
        out = (*kept, *inner)
        wide = about([extents[n] for n in left.names[left.listed :]])
        room = about([extents[n] for n in kept])
        narrow = about([extents[n] for n in inner])
        size = known[0].count / max(wide, 1.0) * narrow
        slot = Slot(made.name, fmt, known[0].slot.dtypes)
        bytes_ = chooser.bytes_of(fmt, shape, body.dtype, size)
        most = min(chooser.bound_of(known[0]) / max(wide * item, 1.0), room) * narrow
        bound = 2 * chooser.bytes_of(fmt, shape, body.dtype, most)
    else:
        fmt = resolve("dense", shape, body.dtype)
        size = about(shape)
        slot = chooser.slot(made.name, fmt, body.dtype, shape, size)
        bytes_ = size * item
        bound = 2 * bytes_
    summed = about([a.extent for a in reduced])
    copies = sum(k.count * item for k in known)
    work = size * summed / chooser.costs.blas_speed + (bytes_ + copies) * chooser.costs.memory
    return BlasStep(
        slot, shape, body.dtype, fill, size, bytes_, bound + copies, work,
        left=left.slot.name, right=right.slot.name, left_axes=left.names, right_axes=right.names,
        out_axes=out, listed=left.listed,
        formula=Lambda(axes, Reduce(op, reduced, body)))
