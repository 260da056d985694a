"""Recognizing dense products that NumPy's matmul (BLAS) computes."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Const, Expr, Index, Lambda, Read, Tensor
from tensorel.ir.printer import show
from tensorel.plan.physical import BlasStep
from tensorel.storage.format import Format
from tensorel.storage.levels import Dense
from tensorel.storage.registry import resolve

if TYPE_CHECKING:
    from tensorel.plan.steps import StepBuilder


def _dense_read(e: Expr) -> tuple[Read, tuple[str, ...]] | None:
    if not isinstance(e, Read) or not e.indices:
        return None
    fmt = e.tensor.data.format  # type: ignore[attr-defined]
    if not all(isinstance(level, Dense) for level in fmt.levels):
        return None
    names = tuple(i.name for i in e.indices if isinstance(i, Index))
    if len(names) != len(e.indices) or len(set(names)) != len(names):
        return None
    return e, names


def _text(name: str, out: tuple[str, ...], summed: list[str], body: Expr,
          names: dict[Tensor, str]) -> str:
    return f"{name}[{', '.join(out)}] = sum({', '.join(summed)}) {show(body, names)}"


def blas_step(chooser: StepBuilder, name: str, lam: Lambda, op: ops.Operator | None,
              reduced: tuple[Axis, ...], body: Expr, fill: Const, want: Format | None
              ) -> BlasStep | None:
    """A step for sum(products of two dense reads) in floating point, else None."""
    if op is not ops.add or not reduced or not lam.axes or chooser.strict:
        return None  # a dot product is as fast in a loop, and wakes no other threads
    if not isinstance(body, Call) or body.op is not ops.multiply or body.dtype.kind not in "fc":
        return None
    if any(a.dtype != body.dtype for a in body.args):
        return None
    left, right = (_dense_read(a) for a in body.args)
    if left is None or right is None:
        return None
    names = {a.name for a in reduced}
    out = tuple(a.name for a in lam.axes)
    rows, columns = set(left[1]), set(right[1])
    extents = {a.name: a.extent for a in (*lam.axes, *reduced)}
    matches = all(
        e.tensor.shape[k] == extents[n]
        for e, axes in (left, right) for k, n in enumerate(axes)
    )
    if not matches or not names <= (rows & columns) or set(out) != (rows | columns) - names:
        return None
    fmt = resolve("dense", lam.shape, body.dtype)
    size = math.prod(float(n) for n in lam.shape)
    from_names: dict[Tensor, str] = {
        e.tensor: e.tensor.data.name for e, _ in (left, right)}  # type: ignore[attr-defined]
    text = partial(_text, name, out, sorted(names), body, from_names)
    slot = chooser.slot(name, fmt, body.dtype, lam.shape, size)
    bytes_ = size * body.dtype.itemsize
    copies = sum(math.prod(e.tensor.shape) * e.dtype.itemsize for e, _ in (left, right))
    work = size * math.prod(float(a.extent) for a in reduced) / chooser.costs.blas_speed \
        + (bytes_ + copies) * chooser.costs.memory
    return BlasStep(
        slot, lam.shape, body.dtype, fill, text, size, bytes_, 2 * bytes_ + copies, work,
        left=left[0].tensor.data.name, right=right[0].tensor.data.name,  # type: ignore[attr-defined]
        left_axes=left[1], right_axes=right[1], out_axes=out)
