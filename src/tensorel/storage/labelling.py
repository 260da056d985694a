"""Names and labels of the axes of a program's result: a fold over the calculus.

Law: an axis of a result has the labels of an axis that is read at exactly its index, those cut out
where it is read at an affine index, those taken where it is read at places that a vector holds.
Reads that cover parts of the axis give the labels one after the other, if together they cover all
of it. Reads that disagree leave the axis without labels. So whatever a language or a function makes
of a labelled tensor, labels follow, and no function has to know of them."""

from __future__ import annotations

from dataclasses import replace
from re import compile as pattern

import numpy as np

from tensorel.base.records import dataclass
from tensorel.ir.affine import split_affine
from tensorel.ir.build import int_value
from tensorel.ir.interning import Memo
from tensorel.ir.nodes import Axis, Bulk, Call, Expr, Lambda, Read, Reduce, Source, Tensor
from tensorel.storage.convert import to_dense
from tensorel.storage.stored import Stored
from tensorel.tables.labels import PLAIN, Axes, AxisLabels, Labels, joined, same_axes

#: Indices of the calculus are identifiers; those that say how an axis is named begin so.
_NAMED, _NAMELESS = "named_", "nameless_"
_ESCAPED, _PLAIN = pattern(r"_([0-9a-f]+)_"), pattern(r"[A-Za-z0-9]")
_memo = Memo[tuple[Axes | None]]("_axes")


def index_name(name: str | None, axis: int) -> str:
    """The index that says that an axis has that name, or none.

    >>> index_name("user", 0), axis_name(index_name("a b", 1)), axis_name("i0")
    ('named_user', 'a b', None)
    """
    if name is None:
        return f"{_NAMELESS}{axis}"
    return _NAMED + "".join(c if _PLAIN.match(c) else f"_{ord(c):x}_" for c in name)


def axis_name(index: str) -> str | None:
    """The name that an index says its axis has: "" if none, None if it says nothing."""
    if index.startswith(_NAMELESS):
        return ""
    if not index.startswith(_NAMED):
        return None
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), index.removeprefix(_NAMED))


def labelled(stored: Stored, axes: Axes | None) -> Stored:
    """The same tensor with these names and labels; itself where it has them."""
    if same_axes(stored.axes, axes):
        return stored
    known = stored.derived.copy()
    known.settled = None  # which has the labels of before
    return replace(stored, derived=known, axes=axes)


def axes_of(node: Tensor) -> Axes | None:
    """Names and labels of a tensor; None where there are none."""
    found = _memo.get(node)
    if found is None:
        stack: list[Tensor] = [node]
        while stack:
            top = stack[-1]
            missing = [t for t in _below(top) if t not in _memo]
            if missing:
                stack += missing
            else:
                _memo[stack.pop()] = (_axes(top),)
        found = _memo[node]
    return found[0]


def _below(node: Tensor) -> tuple[Tensor, ...]:
    if isinstance(node, Lambda):
        return node.body.reads
    return node.args if isinstance(node, Bulk) else ()


def _axes(node: Tensor) -> Axes | None:
    """Where those of the tensors below are known."""
    if isinstance(node, Source):
        return getattr(node.data, "axes", None)
    below = _below(node)
    known = any(axes_of(t) is not None for t in below)
    found: Axes = ()
    if isinstance(node, Lambda):
        names = [axis_name(a.name) for a in node.axes]
        if not known and not any(names):
            return None
        read = _of_reads(node) if known else (PLAIN,) * len(node.axes)
        found = tuple([a if n is None else AxisLabels(n or None, a.labels)
                       for n, a in zip(names, read)])
    elif isinstance(node, Bulk) and known:
        found = _of_bulk(node)
    return found if any(found) else None


def _of_bulk(node: Bulk) -> Axes:
    """Fibres along an axis are treated each by itself: the other axes stay as they are, and this
    one where running values stand in place of the entries."""
    first, axis = axes_of(node.args[0]), node.op.axis(node.params)
    plain = (PLAIN,) * len(node.shape)
    if axis is None or first is None:
        return plain
    if node.op.running is not None:
        return first
    rest = first[:axis] + first[axis + 1:]
    if len(node.shape) == len(first):
        return (*first[:axis], replace(first[axis], labels=None), *first[axis + 1:])
    return rest if len(node.shape) == len(rest) else plain


# -- reads --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Part:
    """Labels of the positions [lo, hi) of an axis, and the name of where they come from."""

    lo: int
    hi: int
    labels: Labels | None
    name: str | None


def _of_reads(node: Lambda) -> Axes:
    reads, bound = _reads_and_bound(node.body)
    places = {a.name: a for a in node.axes if a.name not in bound}
    parts: dict[str, list[_Part]] = {name: [] for name in places}
    for read in reads:
        axes = axes_of(read.tensor)
        for at, axis, extent in zip(read.indices, axes or (), read.tensor.shape):
            names = at.free & places.keys()
            if axis and len(names) == 1 == len(at.free):
                (name,) = names
                part = _part(at, places[name], axis, extent)
                if part is not None:
                    parts[name].append(part)
    return tuple([_settled(parts.get(a.name, []), a.extent) for a in node.axes])


def _reads_and_bound(body: Expr) -> tuple[list[Read], set[str]]:
    """The reads in a formula itself, not in the tensors that it reads, in the order of the text,
    and the indices that its reductions bind."""
    reads, bound = list[Read](), set[str]()
    stack, seen = [body], {body}
    while stack:
        e = stack.pop()
        below: tuple[Expr, ...] = ()
        if isinstance(e, Read):
            reads.append(e)
            below = e.indices
        elif isinstance(e, Call):
            below = e.args
        elif isinstance(e, Reduce):
            bound.update(a.name for a in e.axes)
            below = (e.body,)
        for k in reversed(below):
            if k.reads and k not in seen:
                seen.add(k)
                stack.append(k)
    return reads, bound


def _part(at: Expr, own: Axis, axis: AxisLabels, extent: int) -> _Part | None:
    """What an axis that is read at ``at`` says of the axis whose index is in ``at``."""
    if isinstance(at, Read):
        taken = _places(at, own)
        if taken is None:
            return None
        labels = None if axis.labels is None else axis.labels.take(taken)
        return _Part(0, own.extent, labels, axis.name)
    affine = split_affine(at, own.name)
    start = None if affine is None else int_value(affine[1])
    if affine is None or start is None or not affine[0]:
        return None
    step = affine[0]
    # Positions i with 0 <= step * i + start < extent.
    ends = sorted((-start / step, (extent - 1 - start) / step)) if extent else (0.0, -1.0)
    lo = max(int(np.ceil(ends[0])), 0)
    hi = min(int(np.floor(ends[1])) + 1, own.extent)
    if hi <= lo and own.extent:
        return None
    labels = axis.labels
    if labels is not None:
        labels = labels.cut(start + step * lo, step, hi - lo)
    return _Part(lo, max(hi, lo), labels, axis.name)


def _places(at: Read, own: Axis) -> np.ndarray | None:
    """The vector that a read goes through, if it holds places and is read whole."""
    source = at.tensor
    if not isinstance(source, Source) or source.shape != (own.extent,) \
            or not isinstance(source.data, Stored):
        return None
    affine = split_affine(at.indices[0], own.name)
    if affine is None or affine[0] != 1 or int_value(affine[1]) != 0:
        return None
    found: np.ndarray = to_dense(source.data)
    return found


def _settled(parts: list[_Part], extent: int) -> AxisLabels:
    """What the reads of an axis agree on."""
    if not parts:
        return PLAIN
    name = next((p.name for p in parts if p.name is not None), None)
    known = [p for p in parts if p.labels is not None]
    whole = [p.labels for p in known if (p.lo, p.hi) == (0, extent) and p.labels is not None]
    if whole:
        agreed = all(whole[0].same(other) for other in whole[1:])
        return AxisLabels(name, whole[0] if agreed else None)
    at, found = 0, list[Labels]()
    for p in sorted(known, key=lambda p: (p.lo, p.hi)):
        if p.lo != at or p.labels is None:
            return AxisLabels(name)
        found.append(p.labels)
        at = p.hi
    return AxisLabels(name, joined(found) if found and at == extent else None)
