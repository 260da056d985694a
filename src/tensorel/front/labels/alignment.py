"""Alignment: axes that meet are brought to the same labels before a program is built.

Law: an operand is fill at labels that it has not. Axes that meet get the labels that both have
where a fill decides the result whatever the other operand holds (0 times anything), so that nothing
is lost; else the labels that one of them has. Operands without labels are matched by position.
Functions of several operands come here only if one of them is labelled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError
from tensorel.front.array.base import (
    Base,
    axes_of,
    call,
    choose,
    indices,
    reduce_axes,
    summed,
    wrap,
    zero_of,
)
from tensorel.io.tables.meeting import Positions, located, meet
from tensorel.ir import analysis
from tensorel.ir import nodes as ir
from tensorel.storage import convert as storage
from tensorel.storage.labelling import axes_of as names_and_labels
from tensorel.storage.labelling import labelled
from tensorel.storage.lending import freeze
from tensorel.tables.labels import PLAIN, Axes, AxisLabels, Labels

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

#: What stands at each axis of an operand: axes of several operands at which the same stands meet.
Places = Sequence[Hashable]
T = TypeVar("T")


def axes_of_tensor(t: Base) -> Axes | None:
    """Names and labels of the axes of a tensor, None where it has none."""
    if not t.program.is_labelled:
        return None
    data = t.program.data
    return names_and_labels(t.program.node) if data is None else data.axes


def broadcast_places(*operands: Base) -> list[Places]:
    """What stands at the axes of operands that broadcast: distances from the last axis."""
    return [range(-t.ndim, 0) for t in operands]


def aligned(name: str, op: ops.Operator, operands: Sequence[Base], places: Sequence[Places]
            ) -> list[Tensor]:
    """The operands with the same labels wherever they meet; ``op`` is what combines them."""
    found = [cast("Tensor", t) for t in operands]
    known = [axes_of_tensor(t) for t in found]
    met: dict[Hashable, list[tuple[int, int]]] = {}
    for k, at in enumerate(places):
        for axis, place in enumerate(at):
            met.setdefault(place, []).append((k, axis))
    for where in met.values():
        having = [(k, axis, own) for k, axis in where
                  if (axes := known[k]) is not None and (own := axes[axis].labels) is not None]
        if all(own.same(having[0][2]) for _, _, own in having[1:]):
            continue
        _check_others(name, found, where, having)
        inner = _decides(op, found, {k for k, _, _ in having})
        for k, axis, positions, labels in _met(having, inner):
            found[k] = _moved(found[k], axis, positions, labels)
    return found


def fitted(t: Tensor, axis: int, labels: Labels) -> Tensor:
    """The tensor with these labels along a labelled axis, fill at labels that it has not."""
    axes = axes_of_tensor(t)
    own = None if axes is None else axes[axis].labels
    if own is None or own.same(labels):
        return t
    return _moved(t, axis, _known(_located, False, labels, own), labels)


def _check_others(name: str, operands: Sequence[Base], where: Sequence[tuple[int, int]],
                  having: Sequence[tuple[int, int, Labels]]) -> None:
    """An axis without labels cannot be matched by position with axes that are about to change."""
    labelled_ = {(k, axis) for k, axis, _ in having}
    for k, axis in where:
        if (k, axis) not in labelled_ and operands[k].shape[axis] != 1:
            sizes = ", ".join(str(len(own)) for _, _, own in having)
            raise ShapeError(
                f"{name}: axis {axis} of operand {k} has no labels, the axes that it meets have "
                f"different ones ({sizes} labels)",
                hint="align the labelled operands first, e.g. with T.loc[labels]")


def _decides(op: ops.Operator, operands: Sequence[Base], having: set[int]) -> bool:
    """Whether an operand at its fill decides the result: absent there is absent in the result."""
    return any(op.decided(min(k, 1), analysis.fill(operands[k].node).value, operands[k].dtype)
               is not None for k in having)


def _met(having: Sequence[tuple[int, int, Labels]], inner: bool
         ) -> list[tuple[int, int, Positions | None, Labels]]:
    """For each axis the positions of the labels that all of them get."""
    labels = having[0][2]
    for _, _, own in having[1:]:
        if not own.same(labels):
            labels = _known(_met_labels, inner, labels, own)
    return [(k, axis, None if own.same(labels) else _known(_located, False, labels, own), labels)
            for k, axis, own in having]


def _met_labels(inner: bool, left: Labels, right: Labels) -> Labels:
    return meet(left, right, inner)


def _located(_: bool, wanted: Labels, own: Labels) -> Positions | None:
    return located(wanted, own)


def _known(f: Callable[[bool, Labels, Labels], T], flag: bool, left: Labels, right: Labels) -> T:
    """Remembered as long as both labels live: loops align the same ones again and again."""
    known = left.beside.setdefault(right, {})
    if (f, flag) not in known:
        found = f(flag, left, right)
        known[f, flag] = None if found is right else (found,)  # they would keep themselves alive
    held = known[f, flag]
    return cast(T, right) if held is None else held[0]


def _moved(t: Tensor, axis: int, places: Positions | None, labels: Labels) -> Tensor:
    """The tensor with ``labels`` along an axis, where it has the entries of ``places``."""
    if places is None:
        return t
    axes = axes_of_tensor(t)
    own = AxisLabels(axes[axis].name if axes else None, labels)
    return taken(t, axis, places, own) if (places >= 0).all() else \
        _scattered(t, axis, places, own)


def taken(t: Tensor, axis: int, places: Positions, own: AxisLabels) -> Tensor:
    """The tensor at these places of an axis, which has ``own`` labels then."""
    shape = (*t.shape[:axis], places.size, *t.shape[axis + 1:])
    at = list(indices(len(shape)))
    at[axis] = ir.Read(_labelled_source(places, own), (at[axis],))
    return wrap(ir.Lambda(axes_of(shape), ir.Read(t.node, tuple(at))))


def _labelled_source(array: Positions, axis: AxisLabels) -> ir.Source:
    stored = storage.from_dense(np.array(array, np.int64), 0)
    freeze(stored.arrays.values())
    held = labelled(stored, (axis,))
    return ir.Source(held, held.shape, held.dtype, held.fill_const)


def _scattered(t: Tensor, axis: int, places: Positions, own: AxisLabels) -> Tensor:
    """The entries at their new places, fill elsewhere: a join with the pairs of places, so that
    what is sparse stays so."""
    shape = (*t.shape[:axis], places.size, *t.shape[axis + 1:])
    there = np.flatnonzero(places >= 0)
    pairs = storage.from_coo([there, places[there]], np.ones(there.size, bool),
                             (places.size, t.shape[axis]), format="csr")
    held = labelled(pairs, (own, PLAIN))
    at, r = indices(len(shape)), summed(1)[0]
    pair = ir.Read(ir.Source(held, held.shape, held.dtype, held.fill_const), (at[axis], r))
    entry = ir.Read(t.node, (*at[:axis], r, *at[axis + 1:]))
    add = ops.logical_or if t.dtype.kind == "b" else ops.add
    body: ir.Expr = ir.Reduce(add, reduce_axes((t.shape[axis],)),
                              choose(pair, entry, zero_of(t.dtype)))
    fill = analysis.fill(t.node)
    if fill.value != 0:
        present = ir.Read(_labelled_source(places, own), (at[axis],))
        body = choose(call(ops.greater_equal, present, ir.const(0, ir.INT64)), body, fill)
    return wrap(ir.Lambda(axes_of(shape), body))
