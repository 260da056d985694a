"""The attributes of a tensor as a relation: coordinates and the value of each entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.front.array.base import Base
from tensorel.front.array.convert import source
from tensorel.front.array.scalars import UFUNCS, Tracer
from tensorel.ir import nodes as ir
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.build import both
from tensorel.relational.evaluate import COMPARE, Scope

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

VALUE = "val"
#: Functions that a text may call: operators of one or two numbers.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs, **{op.name: function for function, op in UFUNCS.items()
                   if callable(function) and op.arity <= 2}}


def is_plain(t: Tensor) -> bool:
    """Whether nothing but shape, dtype and fill says what a text means: axes have no names."""
    return not t.program.is_labelled


def axis_of(t: Tensor, name: str) -> int | None:
    """The axis that a name means: its own name, ``i0``, ``i1``, ..., or ``rid`` and ``cid`` of a
    matrix (``rid`` of a vector)."""
    names = t.names
    if name in names:
        return names.index(name)
    low = name.lower()
    if low[:1] == "i" and low[1:].isdigit() and int(low[1:]) < t.ndim:
        return int(low[1:])
    if low in ("rid", "cid") and t.ndim in (1, 2):
        k = ("rid", "cid").index(low)
        return k if k < t.ndim else None
    return None


def known_names(t: Tensor) -> str:
    """The attributes of a tensor, for messages."""
    names = [n for n in t.names if n]
    names += ["rid", "cid"][: t.ndim] if t.ndim in (1, 2) else []
    return ", ".join([*names, *(f"i{k}" for k in range(t.ndim)), VALUE])


def scope_of(text: str, t: Tensor, at: tuple[ir.Expr, ...], value: ir.Expr) -> Scope:
    """What a text may say of an entry at these indices."""

    def attribute(name: str) -> Tracer | None:
        axis = axis_of(t, name)
        if axis is not None:
            return Tracer(at[axis])
        return Tracer(value) if name.lower() == VALUE else None

    def compare_text(op: str, name: str, wanted: str) -> Tracer:
        axis = axis_of(t, name)
        assert axis is not None
        return Tracer(labelled(t, axis, op, wanted, at[axis]))

    return Scope(text, attribute, known_names(t), FUNCTIONS, is_truth,
                 compare_text if t.program.is_labelled else None)


def is_truth(value: object) -> bool:
    """Whether a value is a boolean."""
    return isinstance(value, bool) or (isinstance(value, Tracer) and value.dtype == ops.BOOL)


def labelled(t: Tensor, axis: int, op: str, wanted: str, at: ir.Expr) -> ir.Expr:
    """Whether the label at a place compares with a text; one that is equal is a place."""
    labels = t.labels[axis]
    if labels is None:
        raise TypeError_(f"axis {axis} has no labels to compare with {wanted!r}",
                         hint="compare it with positions, which are whole numbers")
    if labels.dtype.kind == "M":
        met = COMPARE[op](labels, np.datetime64(wanted))
    else:
        met = COMPARE[op](labels.astype(str), wanted)
    (places,) = np.nonzero(met)
    if op == "==" and places.size == 1:
        return ir.Call(ops.equal, (at, ir.const(int(places[0]), ir.INT64)))
    return ir.Read(source(np.asarray(met, bool)), (at,))


def present(t: Base, value: ir.Expr) -> ir.Expr:
    """Whether a cell is an entry: it differs from the fill, where nan is nan."""
    return differs(value, fill_of(t.node))


def differs(value: ir.Expr, fill: ir.Const) -> ir.Expr:
    """Whether a value is another one than the fill."""
    if value.dtype == ops.BOOL:
        return ir.Call(ops.logical_not, (value,)) if bool(fill.value) else value
    if bool(np.not_equal(fill.value, fill.value)):
        return ir.Call(ops.equal, (value, value))
    return ir.Call(ops.not_equal, (value, fill))


def conjuncts(e: ir.Expr) -> list[ir.Expr]:
    """What holds together wherever a condition does, in its order."""
    if isinstance(e, ir.Call):
        if e.op in (ops.bitwise_and, ops.logical_and) and e.dtype == ops.BOOL:
            return [c for a in e.args for c in conjuncts(a)]
        if e.op in (ops.logical_not, ops.invert) and isinstance(e.args[0], ir.Call):
            inner = e.args[0]
            if inner.op in (ops.logical_not, ops.invert) and inner.dtype == ops.BOOL \
                    and inner.args[0].dtype == ops.BOOL:
                return conjuncts(inner.args[0])
            if inner.op is ops.not_equal and all(a.dtype.kind in "iu" for a in inner.args):
                return [ir.Call(ops.equal, inner.args)]
    return [e]


def together(parts: list[ir.Expr]) -> ir.Expr | None:
    """The conjunction; None of none."""
    return both(*parts)
