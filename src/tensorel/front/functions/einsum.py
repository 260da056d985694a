"""Einstein summation over any semiring: one reduction over one product.

Letters ("ij,jk->ik") or, when a term has a space or a word, named indices
("user item, item tag -> user tag"); ellipsis; repeated indices; implicit output.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.errors import ParseError, ShapeError, TypeError_
from tensorel.front.array.base import (
    ZERO,
    Base,
    axes_of,
    call,
    formed,
    indices,
    reduce_axes,
    summed,
    whole,
)
from tensorel.front.array.convert import asarray
from tensorel.front.array.scalars import UFUNCS, check_cast
from tensorel.front.labels.alignment import aligned
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

ELLIPSIS = "..."
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True, slots=True)
class Spec:
    """Labels per operand and of the result; ``...`` stands among them. Positions are those of
    the terms in the text."""

    text: str
    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    positions: tuple[int, ...]


@lru_cache(maxsize=512)
def parse(text: str) -> Spec:
    """The terms of an einsum text.

    >>> parse("ij,jk").output
    ('i', 'k')
    """
    left, arrow, right = text.partition("->")
    if "->" in right:
        raise ParseError("einsum: more than one '->'", text=text,
                         position=text.index("->", text.index("->") + 2))
    terms, positions, start = left.split(","), [], 0
    for term in terms:
        positions.append(start)
        start += len(term) + 1
    named = _is_named([*terms, right])
    inputs = tuple(
        _labels(term, at, text, named) for term, at in zip(terms, positions)
    )
    if arrow:
        output = _labels(right, len(left) + 2, text, named)
        _check_output(output, inputs, text, len(left) + 2)
    else:
        output = _implicit(inputs, named)
    return Spec(text, inputs, output, tuple(positions))


def _is_named(terms: Sequence[str]) -> bool:
    """Named mode: some term has words separated by spaces (single letters too)."""
    return any(re.search(r"\w\s+[\w.]|\.\s+\w", term.strip()) for term in terms)


def _labels(term: str, at: int, text: str, named: bool) -> tuple[str, ...]:
    pattern = r"\.\.\.|[^\W\d]\w*|\s+" if named else r"\.\.\.|[^\W\d_]|\s+"
    found: list[str] = []
    k = 0
    while k < len(term):
        match = re.compile(pattern).match(term, k)
        if match is None:
            raise ParseError(
                f"einsum: {term[k]!r} cannot stand here", text=text, position=at + k,
                hint="write letters ('ij,jk->ik') or names ('user item, item tag -> user tag')",
            )
        if not match[0].isspace():
            if match[0] == ELLIPSIS and ELLIPSIS in found:
                raise ParseError("einsum: a term has one '...' at most", text=text,
                                 position=at + k)
            found.append(match[0])
        k = match.end()
    return tuple(found)


def _check_output(
    output: tuple[str, ...], inputs: Sequence[tuple[str, ...]], text: str, at: int
) -> None:
    known = {label for labels in inputs for label in labels} | {ELLIPSIS}
    for k, label in enumerate(output):
        place = text.find(label, at)
        if label not in known:
            raise ParseError(
                f"einsum: output index {label!r} is in no operand", text=text, position=place,
                hint=f"indices of the operands are {', '.join(sorted(known - {ELLIPSIS}))}",
            )
        if label in output[:k]:
            again = text.find(label, place + len(label))
            raise ParseError(f"einsum: output index {label!r} is given twice", text=text,
                             position=again)


def _implicit(inputs: Sequence[tuple[str, ...]], named: bool) -> tuple[str, ...]:
    """NumPy's rule: the indices that appear once, in alphabetical order (words: as they come)."""
    flat = [label for labels in inputs for label in labels if label != ELLIPSIS]
    once = [label for label in flat if flat.count(label) == 1]
    dots = (ELLIPSIS,) if any(ELLIPSIS in labels for labels in inputs) else ()
    return (*dots, *(once if named else sorted(once)))


def _expand(spec: Spec, shapes: Sequence[tuple[int, ...]]) -> tuple[list[tuple[str, ...]],
                                                                   tuple[str, ...]]:
    """Labels with each ellipsis replaced by anonymous ones, aligned at the last axis."""
    most = 0
    widths = []
    for k, (labels, shape) in enumerate(zip(spec.inputs, shapes)):
        dots = ELLIPSIS in labels
        width = len(shape) - (len(labels) - dots)
        if width < 0 or (width and not dots):
            raise ShapeError(
                f"einsum {spec.text!r}: operand {k} has {len(shape)} axes of shape {shape}, "
                f"its term names {len(labels) - dots}",
                hint="name each axis, or write '...' for the rest",
            )
        widths.append(width)
        most = max(most, width)
    names = tuple(f"...{k}" for k in range(most))

    def open_dots(labels: tuple[str, ...], width: int) -> tuple[str, ...]:
        if ELLIPSIS not in labels:
            return labels
        k = labels.index(ELLIPSIS)
        return labels[:k] + names[most - width:] + labels[k + 1:]

    inputs = [open_dots(labels, w) for labels, w in zip(spec.inputs, widths)]
    if most and ELLIPSIS not in spec.output:
        raise ShapeError(
            f"einsum {spec.text!r}: the output does not say where the {most} axes of '...' go",
            hint="write '...' in the output term",
        )
    return inputs, open_dots(spec.output, most)


def _extents(
    spec: Spec, inputs: Sequence[tuple[str, ...]], shapes: Sequence[tuple[int, ...]]
) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes):
        for label, n in zip(labels, shape):
            known = sizes.setdefault(label, n)
            if known != n:
                if known != 1 and n != 1:
                    raise ShapeError(
                        f"einsum {spec.text!r}: index {label!r} has sizes {known} and {n}",
                        hint="an index has one size, or 1",
                    )
                sizes[label] = n if known == 1 else known
    return sizes


def einsum(
    subscripts: object = None, *operands: object, add: object = None, mul: object = None,
    dtype: object = None, casting: str = "safe", optimize: object = None,
) -> Tensor:
    """Sum of products over named indices, in any semiring. As in NumPy, indices may also be lists
    of numbers, one after each operand and perhaps one for the result.

    >>> import tensorel as tr
    >>> tr.einsum("ij,j->i", [[1, 2], [3, 4]], [1, 1]).to_numpy().tolist()
    [3, 7]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists([subscripts, *operands])
    spec = parse(subscripts)
    tensors = [asarray(x) for x in operands]
    if len(tensors) != len(spec.inputs):
        raise ParseError(
            f"einsum: {len(spec.inputs)} terms for {len(tensors)} operands", text=spec.text,
            position=spec.positions[min(len(tensors), len(spec.inputs) - 1)],
        )
    if dtype is not None or casting != "safe":
        into = np.result_type(*(t.dtype for t in tensors)) if dtype is None else (
            ops.check_dtype(dtype))
        for t in tensors:
            check_cast("einsum", t.dtype, into, casting)
    return contract(spec, tensors, as_operator(add, ops.add, monoid=True),
                    as_operator(mul, ops.multiply), dtype)


def _from_lists(given: Sequence[object]) -> tuple[str, tuple[object, ...]]:
    """The text for operands that have lists of numbers behind them."""
    operands, labels = tuple(given[: len(given) // 2 * 2 : 2]), given[1::2]
    hint = "e.g. tr.einsum('ij,jk->ik', A, B) or tr.einsum(A, [0, 1], B, [1, 2])"
    if not operands:
        raise ParseError("einsum: give the text of the indices, and operands", hint=hint)
    if not all(isinstance(x, (list, tuple)) for x in labels):
        raise TypeError_("einsum: the first argument is the text of the indices", hint=hint)
    text = ",".join(_lettered(x) for x in labels)
    return text + (f"->{_lettered(given[-1])}" if len(given) % 2 else ""), operands


def _lettered(labels: object) -> str:
    """Numbers as letters, in the same order."""
    found = ""
    for label in labels if isinstance(labels, (list, tuple)) else (labels,):
        k = -1 if label is Ellipsis else whole(label, "einsum: an index in a list")
        if label is not Ellipsis and not 0 <= k < len(_LETTERS):
            raise ParseError(f"einsum: an index in a list is 0 to {len(_LETTERS) - 1}, not {k}")
        found += ELLIPSIS if label is Ellipsis else _LETTERS[k]
    return found


def contract(
    spec: Spec, tensors: Sequence[Tensor], add: ops.Operator, mul: ops.Operator,
    dtype: object = None,
) -> Tensor:
    """The one Lambda of an einsum: ``reduce(add, rest, mul(...))``."""
    into = None if dtype is None else ops.check_dtype(dtype)
    if any(t.program.is_labelled for t in tensors):
        inputs, _ = _expand(spec, [t.shape for t in tensors])
        tensors = aligned(f"einsum {spec.text!r}", mul, tensors, inputs)
    return formed((spec.text, add, mul, into), partial(_contraction, spec, add, mul, into),
                  *tensors, takes_extents=True)


def _contraction(spec: Spec, add: ops.Operator, mul: ops.Operator, into: ops.DType | None,
                 *tensors: Base) -> ir.Tensor:
    axes, over, places = _layout(spec, tuple([t.node.shape for t in tensors]))
    if into is None:
        first = tensors[0].dtype
        into = first if len(tensors) == 1 else np.result_type(*[t.dtype for t in tensors])
    if into.kind == "b":  # NumPy's sums and products of booleans
        add = ops.logical_or if add is ops.add else add
        mul = ops.logical_and if mul is ops.multiply else mul
    body: ir.Expr | None = None
    for t, at in zip(tensors, places):
        entry = convert(ir.Read(t.node, at), into)
        body = entry if body is None else call(mul, body, entry)
    assert body is not None
    if over:
        body = ir.Reduce(add, over, body)
    return ir.Lambda(axes, body)


Axes = tuple[ir.Axis, ...]


@lru_cache(maxsize=512)
def _layout(spec: Spec, shapes: tuple[tuple[int, ...], ...]) -> tuple[
        Axes, Axes, tuple[tuple[ir.Expr, ...], ...]]:
    """The axes of the result, the reduced ones, and where each operand is read."""
    inputs, output = _expand(spec, shapes)
    sizes = _extents(spec, inputs, shapes)
    rest = [label for label in sizes if label not in output]
    at: dict[str, ir.Expr] = dict(zip(output, indices(len(output))))
    at.update(zip(rest, summed(len(rest))))
    places = tuple(
        tuple(ZERO if n == 1 and sizes[label] != 1 else at[label] for label, n in zip(labels, own))
        for labels, own in zip(inputs, shapes)
    )
    axes = axes_of([sizes[label] for label in output])
    return axes, reduce_axes([sizes[label] for label in rest]), places


# -- operators by whatever name users have for them ----------------------------------------------
#: The operators of our functions, entered by their modules: tr.min -> minimum.
FUNCTIONS: dict[object, ops.Operator] = {}
_NAMES = ops.MONOIDS | {
    "+": ops.add, "*": ops.multiply, "or": ops.logical_or, "and": ops.logical_and,
    "-": ops.subtract, "/": ops.divide, "amin": ops.minimum, "amax": ops.maximum,
}


def as_operator(given: object, default: ops.Operator, monoid: bool = False) -> ops.Operator:
    """The operator that an Operator, a function of ours, a NumPy ufunc or a name stands for."""
    if given is None:
        return default
    found = find_operator(given)
    if found is None or found.arity != 2:
        raise TypeError_(
            f"{given!r} does not name an operator of two arguments",
            hint="e.g. tr.add, tr.min, np.maximum, 'sum', or an Operator",
        )
    if monoid and not found.is_monoid:
        raise TypeError_(
            f"{found.name} cannot be reduced with: it has no identity or is not associative",
            hint="monoids are sum, prod, min, max, any, all",
        )
    return found


def find_operator(given: object) -> ops.Operator | None:
    """The operator that ``given`` means, or None."""
    if isinstance(given, ops.Operator):
        return given
    if isinstance(given, str):
        if given in _NAMES:
            return _NAMES[given]
        return next((op for op in ops.operators() if op.name == given), None)
    own = getattr(given, "op", None)
    if isinstance(own, ops.Operator):
        return own
    if callable(given):
        return FUNCTIONS.get(given) or UFUNCS.get(given)
    return None
