"""Analyses of the calculus as folds over the DAG: fill, index ranges, affine forms, reads.

Every fold is iterative and visits a node once; facts of interned nodes are kept as long as the
nodes live.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.ir.given import Given, is_given, is_same, lifted
from tensorel.ir.interning import Memo
from tensorel.ir.nodes import (
    Bulk,
    Call,
    Const,
    DType,
    Expr,
    Lambda,
    Node,
    Operator,
    Read,
    Reduce,
    Source,
    Tensor,
    children,
    const,
    is_same_literal,
    postorder,
)
from tensorel.ir.ranges import Affine, Range, index_range, is_affine, subexpressions


# -- operators on NumPy values ---------------------------------------------------------------
def apply(op: Operator, *args: Any) -> Any:
    """``op`` on NumPy arrays or scalars with dtypes exactly as ``Operator.resolve`` says.

    >>> apply(ops.add, np.int8(100), np.int8(100)).item()
    -56
    """
    if any([type(a) is Given for a in args]):  # noqa: C419
        return lifted(apply, op, *args)
    into, out = op.resolve(*(a.dtype for a in args))
    with np.errstate(all="ignore"):
        result = np.asarray(op.meaning(*(_cast(a, d) for a, d in zip(args, into))))
        return _cast(result, out)


def _cast(value: Any, dtype: DType) -> Any:
    if value.dtype == dtype:
        return value
    if type(value) is Given:
        return lifted(_cast, value, dtype)
    if value.dtype.kind == "c" and dtype.kind not in "cb":
        value = value.real
    with np.errstate(all="ignore"):
        return value.astype(dtype)


def repeat(op: Operator, value: Any, count: int) -> Any:
    """The monoid ``op`` over ``count`` copies of ``value`` in the dtype of ``value``.

    >>> repeat(ops.add, np.int8(100), 3).item()
    44
    """
    if type(value) is Given:
        return lifted(repeat, op, value, count)
    dtype = value.dtype
    if is_given(count):
        if op.identity is not None and is_same(
                value, np.asarray(op.identity(dtype)).astype(dtype)[()]):
            return value
        return repeat(op, value, 0 if count == 0 else 1) if op.idempotent \
            else lifted(repeat, op, value, count)
    if count == 0:
        assert op.identity is not None
        return np.asarray(op.identity(dtype)).astype(dtype)
    if op.idempotent or count == 1:
        return _cast(apply(op, value, value), dtype) if op.idempotent else value
    if op.repeat is not None:
        times, number = op.copies(dtype, count)
        return apply(times, value, number)
    # By associativity count copies are the product of the doublings that count's bits name.
    result, doubled, left = None, value, count
    while left:
        if left & 1:
            result = doubled if result is None else _cast(apply(op, result, doubled), dtype)
        left >>= 1
        if left:
            doubled = _cast(apply(op, doubled, doubled), dtype)
    return result


def as_float(count: float) -> float:
    """A number of cells; there may be more than floats reach."""
    return float(count) if count <= sys.float_info.max else math.inf


# -- fill ------------------------------------------------------------------------------------
_fills = Memo[Const | None]("_fill")
#: Whether a node has a stored value everywhere, so that its fill never shows.
_whole = Memo[bool]("_whole")


def fill(tensor: Tensor) -> Const:
    """The value of entries of ``tensor`` where no operand has a stored entry.

    It is the value of the body when each Read gives its tensor's fill. Where that depends on
    the index, it is zero: any fill is right, and zero is what users expect of ``eye``.

    >>> zeros = Source("A", (), np.dtype("float64"), const(0.0))
    >>> float(fill(Lambda((), Call(ops.exp, (Read(zeros, ()),)))).value)
    1.0
    """
    found = _fold(tensor)
    assert found is not None
    return found


def is_whole(node: Node) -> bool:
    """Whether a tensor or expression has a value everywhere, by its formula and the storage of its
    sources: then its fill never shows. What is stored everywhere has, and what is one value
    along an index: the fill of ``d`` cannot be that of ``A / d[:, None]``."""
    _fold(node)
    return _whole[node]


def fill_expr(expr: Expr) -> Const | None:
    """The value of ``expr`` when each Read gives its tensor's fill; None if it depends on an
    index or a local variable."""
    return _fold(expr)


def _fold(root: Node) -> Const | None:
    if root not in _fills:
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [k for k in _fill_parts(node) if k not in _fills]
            if missing and node not in _fills:
                stack.extend(missing)
                continue
            stack.pop()
            if node not in _fills:
                deciding = _deciding(node) if type(node) is Call else []
                _whole[node] = _is_whole(node, deciding)
                _fills[node] = _fill_of(node, deciding)
    return _fills[root]


def _fill_parts(node: Node) -> tuple[Node, ...]:
    return (node.tensor,) if isinstance(node, Read) else children(node)


def _fill_of(node: Node, deciding: list[Expr]) -> Const | None:
    match node:
        case Const():
            return node
        case Source():
            return node.fill
        case Read():
            return _fills[node.tensor]
        case Lambda():
            return _fills[node.body] or _zero(node.dtype)
        case Bulk():
            return const(lifted(node.op.fill, fill(node.args[0]).value), node.dtype)
        case Reduce():
            return _reduce_fill(node, _fills[node.body])
        case Call():
            return _call_fill(node, [_fills[a] for a in node.args], deciding)
        case _:
            return None


def _is_whole(node: Node, deciding: list[Expr]) -> bool:
    match node:
        case Const():
            return False
        case Source():
            known = getattr(node.data, "whole", None)
            if known is None:
                known = getattr(getattr(node.data, "format", None), "is_dense", False)
            return bool(known)
        case Call():
            if deciding:
                return all(stands(a, node) for a in deciding)
            return any(stands(a, node) for a in node.args)
        case Read() if not node.free:  # one value for all entries: A / A.sum() has fill 0
            return True
        case Lambda() if _repeats(node.body, frozenset(a.name for a in node.axes)):
            return True
        case _:
            parts = _fill_parts(node)
            return any(_whole[p] for p in parts) if parts else True


def stands(arg: Expr, call: Call) -> bool:
    """An argument of a call whose fill never shows: whole, or one value along an index."""
    return is_whole(arg) or _repeats(arg, call.free)


def _repeats(e: Expr, names: frozenset[str]) -> bool:
    return bool(e.free) and e.free < names


def _deciding(node: Call) -> list[Expr]:
    """Arguments that, where they are not stored, decide the result alone.

    A literal does not (only entries that are not stored annihilate inf and nan); and 0/0 of two
    fills is NumPy's, so a one-sided zero decides only against what is stored everywhere."""
    found: list[Expr] = []
    results = set()
    for k, arg in enumerate(node.args):
        fill = _fills[arg]
        result = None if fill is None else node.op.decided(k, fill.value, node.dtype)
        if result is None or (isinstance(arg, Const) and node.dtype.kind in "fc"):
            continue
        others = [a for j, a in enumerate(node.args) if j != k]
        if None in node.op.annihilators and not any(
                stands(a, node) or _fills[a] is None for a in others):
            continue
        found.append(arg)
        results.add(result)
    return found if len(results) < 2 else []  # inf - inf is nan


@lru_cache(maxsize=64)
def _zero(dtype: DType) -> Const:
    return const(0, dtype)


def _reduce_fill(node: Reduce, body: Const | None) -> Const | None:
    count = math.prod(a.extent for a in node.axes)
    if body is None:
        return None if count else _repeated(node.op, _zero(node.dtype), 0)
    return _repeated(node.op, body, count)


@lru_cache(maxsize=1024)
def _repeated(op: Operator, value: Const, count: int) -> Const:
    return const(repeat(op, value.value, count), value.dtype)


def _call_fill(node: Call, args: list[Const | None], deciding: list[Expr]) -> Const | None:
    if node.op is ops.where:
        return _where_fill(node, args)
    for arg in deciding:
        fill = _fills[arg]
        assert fill is not None
        return const(node.op.decided(node.args.index(arg), fill.value, node.dtype), node.dtype)
    known = tuple([a for a in args if a is not None])
    return None if len(known) < len(args) else _applied(node.op, known, node.dtype)


@lru_cache(maxsize=1024)
def _applied(op: Operator, args: tuple[Const, ...], dtype: DType) -> Const | None:
    """An operator on constants. Programs ask for the same few again and again."""
    try:
        return const(apply(op, *(a.value for a in args)), dtype)
    except (ValueError, TypeError_):  # NumPy refuses, e.g. integers to negative powers
        return None


def _where_fill(node: Call, args: list[Const | None]) -> Const | None:
    condition, chosen, other = args
    if condition is not None:
        picked = chosen if condition.value else other
    else:
        picked = chosen if _same(chosen, other, node.dtype) else None
    return None if picked is None else const(_cast(picked.value, node.dtype), node.dtype)


def _same(a: Const | None, b: Const | None, dtype: DType) -> bool:
    return (
        a is not None
        and b is not None
        and is_same_literal(*[const(_cast(c.value, dtype), dtype) for c in (a, b)])
    )


# -- indices ---------------------------------------------------------------------------------
def tensors(*roots: Node) -> tuple[Tensor, ...]:
    """Every tensor below the roots once, operands first."""
    return tuple(n for n in postorder(*roots) if isinstance(n, Tensor))


def sources(*roots: Node) -> tuple[Source, ...]:
    """Every stored tensor below the roots once, in order of first appearance."""
    return tuple(n for n in postorder(*roots) if isinstance(n, Source))


__all__ = [
    "Affine", "Range", "apply", "fill", "fill_expr", "index_range", "is_affine", "repeat",
    "sources", "stands", "subexpressions", "tensors",
]
