"""Analyses of the calculus as folds over the DAG: fill, index ranges, affine forms, reads.

Every fold is iterative and visits a node once; facts of interned nodes are kept as long as the
nodes live.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.ir.nodes import (
    Bulk,
    Call,
    Const,
    DType,
    Expr,
    Lambda,
    Memo,
    Node,
    Operator,
    Read,
    Reduce,
    Source,
    Tensor,
    children,
    const,
    postorder,
)
from tensorel.ir.ranges import Affine, Range, index_range, is_affine, subexpressions


# -- operators on NumPy values ---------------------------------------------------------------
def apply(op: Operator, *args: Any) -> Any:
    """``op`` on NumPy arrays or scalars with dtypes exactly as ``Operator.resolve`` says.

    >>> apply(ops.add, np.int8(100), np.int8(100)).item()
    -56
    """
    into, out = op.resolve(*(a.dtype for a in args))
    with np.errstate(all="ignore"):
        result = np.asarray(op.meaning(*(_cast(a, d) for a, d in zip(args, into))))
        return _cast(result, out)


def _cast(value: Any, dtype: DType) -> Any:
    if value.dtype == dtype:
        return value
    if value.dtype.kind == "c" and dtype.kind not in "cb":
        value = value.real
    with np.errstate(all="ignore"):
        return value.astype(dtype)


def repeat(op: Operator, value: Any, count: int) -> Any:
    """The monoid ``op`` over ``count`` copies of ``value`` in the dtype of ``value``.

    >>> repeat(ops.add, np.int8(100), 3).item()
    44
    """
    dtype = value.dtype
    if count == 0:
        assert op.identity is not None
        return np.asarray(op.identity(dtype)).astype(dtype)
    if op.idempotent or count == 1:
        return _cast(apply(op, value, value), dtype) if op.idempotent else value
    if op.repeat is not None and dtype.kind in "fc":
        return _cast(apply(ops.operator(op.repeat), value, dtype.type(count)), dtype)
    # By associativity count copies are the product of the doublings that count's bits name.
    result, doubled, left = None, value, count
    while left:
        if left & 1:
            result = doubled if result is None else _cast(apply(op, result, doubled), dtype)
        left >>= 1
        if left:
            doubled = _cast(apply(op, doubled, doubled), dtype)
    return result


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
            return _bulk_fill(node)
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
    """Programs ask for the same few again and again; each takes NumPy 10 us."""
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
        and const(_cast(a.value, dtype), dtype) is const(_cast(b.value, dtype), dtype)
    )


#: Bulk operators that move entries: the fill of the first operand stays.
_MOVES = frozenset({"reshape", "take", "sort", "topk_values"})
_SCANS = {"cumulative_sum": ops.add, "cumulative_prod": ops.multiply}


def _bulk_fill(node: Bulk) -> Const:
    first = _fills[node.args[0]] if node.args else None
    if first is None:
        return _zero(node.dtype)
    value = const(_cast(first.value, node.dtype), node.dtype)
    if node.op in _MOVES:
        return value
    scan = _SCANS.get(node.op)
    if scan is not None and const(repeat(scan, value.value, 2), node.dtype) is value:
        return value  # every prefix of c, c, c, ... reduces to c
    return _zero(node.dtype)


# -- indices ---------------------------------------------------------------------------------
def free_indices(expr: Expr) -> frozenset[str]:
    """The names of indices that ``expr`` does not bind itself."""
    return expr.free


def reads(*exprs: Expr) -> tuple[Read, ...]:
    """The distinct Reads in the expressions (not inside the tensors that they read)."""
    return tuple(e for e in subexpressions(*exprs) if isinstance(e, Read))


def tensors(*roots: Node) -> tuple[Tensor, ...]:
    """Every tensor below the roots once, operands first."""
    return tuple(n for n in postorder(*roots) if isinstance(n, Tensor))


def sources(*roots: Node) -> tuple[Source, ...]:
    """Every stored tensor below the roots once, in order of first appearance."""
    return tuple(n for n in postorder(*roots) if isinstance(n, Source))


def count_nodes(*roots: Node) -> int:
    """Number of distinct nodes below the roots."""
    return len(postorder(*roots))


__all__ = [
    "Affine", "Range", "apply", "count_nodes", "fill", "fill_expr", "free_indices", "index_range",
    "is_affine", "reads", "repeat", "sources", "stands", "subexpressions", "tensors",
]
