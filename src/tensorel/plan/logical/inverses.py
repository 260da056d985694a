"""Inverses that are only multiplied, or of which little is asked for, are never made.

    sum(k) inv(A)[i, k] * R[k, j]     solve(A, R)[i, j]
    sum(l) solve(A, B)[i, l] * c[l]   solve(A, sum(l) B[.., l] * c[l])[i]
    inv(A)[.., j] for a few j         solve(A, columns of the identity)

and the same for the transpose. Law: matrices whose inverse exists have one solution. An inverse
that others read as well stays: a product with it costs less than another solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorel.algebra import matrices, ops
from tensorel.base.records import dataclass
from tensorel.ir.build import compare, convert
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Tensor,
    const,
    postorder,
)
from tensorel.ir.replacing import replaced, substitute
from tensorel.plan.definitions import Program

#: No indices that a user or the front gives are called so.
ROW, COLUMN = "row", "column"
MAX_SELECTED = 0.5  # of the rows or columns of an inverse; more cost as much as all


def solve_products(program: Program) -> None:
    """Replace what this page says, from the inside out."""
    roots = [d.tensor for d in program.definitions]
    while True:
        found = _next(roots)
        if found is None:
            break
        roots = replaced(roots, {}, found)  # type: ignore[assignment]
        program.fire("solve: inv(A) @ B -> solve(A, B)")
    program.definitions = [d.rewritten(t) for d, t in zip(program.definitions, roots)]


def _next(roots: Sequence[Tensor]) -> dict[Tensor, Tensor] | None:
    """One replacement; None where there is none left."""
    nodes = postorder(*roots)
    if not any(type(n) is Bulk and n.op in (matrices.inv, matrices.solve) for n in nodes):
        return None
    readers: dict[Tensor, int] = dict.fromkeys(roots, 2)
    for node in nodes:
        below = node.args if isinstance(node, Bulk) else (
            node.body.reads if isinstance(node, Lambda) else ())
        for t in below:
            readers[t] = readers.get(t, 0) + 1
    for node in nodes:
        if isinstance(node, Lambda):
            made = _selected(node, readers) if type(node.body) is Read else _product(node, readers)
            if made is not None:
                return {node: made}
    return None


@dataclass(frozen=True, slots=True)
class _Applied:
    """``inv(A)``, or its transpose, times ``right`` (None: the identity), as a factor of a product
    with a free index and one that is summed."""

    matrix: Tensor
    turned: bool
    right: Tensor | None
    free: Index
    summed: Index


def _applied(e: Expr, readers: Mapping[Tensor, int]) -> _Applied | None:
    """A read of an inverse or of a solution that nobody else reads."""
    if type(e) is not Read or len(e.indices) != 2 or readers.get(e.tensor, 0) != 1:
        return None
    t, (i, j) = e.tensor, e.indices
    inner = t.body if isinstance(t, Lambda) else None
    if type(inner) is Read and len(inner.indices) == 2 and readers.get(inner.tensor, 0) == 1:
        assert isinstance(t, Lambda)
        by = dict(zip([a.name for a in t.axes], e.indices))
        t, (i, j) = inner.tensor, tuple([substitute(x, by) for x in inner.indices])
    if not isinstance(i, Index) or not isinstance(j, Index) or i is j \
            or not isinstance(t, Bulk) or len(t.shape) != 2:
        return None
    if t.op is matrices.inv:
        return _Applied(t.args[0], False, None, i, j)
    if t.op is matrices.solve and t.params == ("",) and len(t.args[0].shape) == 2:
        return _Applied(t.args[0], False, t.args[1], i, j)
    return None


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, Call) and e.op is ops.multiply:
        return [f for a in e.args for f in _factors(a)]
    return [e]


def _product(lam: Lambda, readers: Mapping[Tensor, int]) -> Tensor | None:
    """A sum of products, one factor of which is an inverse or a solution."""
    body = lam.body
    if not isinstance(body, Reduce) or body.op is not ops.add:
        return None
    factors = _factors(body.body)
    over = {a.name: a for a in body.axes}
    extents = {a.name: a.extent for a in lam.axes}
    for k, factor in enumerate(factors):
        found = _applied(factor, readers)
        if found is None or factor.dtype != body.dtype:
            continue
        rest = factors[:k] + factors[k + 1 :]
        for one in _orientations(found):
            if one.summed.name not in over:
                continue
            if one.free.name in over:
                inner = _inner(lam, body, factor, one, rest)
                if inner is not None:
                    return inner
            if one.free.name not in extents:
                continue
            names = {n for f in rest for n in f.free}
            columns = [a for a in lam.axes if a.name in names]
            if one.free.name in names or len(columns) > 1 or any(
                    a.name not in names and a.name != one.free.name for a in lam.axes):
                continue
            if one.right is not None and columns and columns[0].extent > one.right.shape[1]:
                continue
            return _solved(lam, one, rest, [over[n] for n in over if n != one.summed.name],
                           columns, over[one.summed.name])
    return None


def _inner(lam: Lambda, body: Reduce, factor: Expr, one: _Applied, rest: Sequence[Expr]
           ) -> Tensor | None:
    """The same with a vector of its own for the sum over the other index, which is summed, too."""
    outer = [f for f in rest if one.free.name in f.free]
    inner = [f for f in rest if one.free.name not in f.free]
    inside = {n for f in (factor, *inner) for n in f.free} - {one.free.name}
    if any(n in f.free for n in inside for f in outer) or inside - {a.name for a in body.axes}:
        return None
    product: Expr = factor
    for f in inner:
        product = Call(ops.multiply, (product, f))
    axes = {a.name: a for a in body.axes}
    vector = Lambda((axes[one.free.name],), Reduce(
        ops.add, tuple([axes[n] for n in axes if n in inside]), product))
    whole: Expr = Read(vector, (one.free,))
    for f in outer:
        whole = Call(ops.multiply, (f, whole))
    rest_axes = tuple([axes[n] for n in axes if n not in inside])
    return Lambda(lam.axes, Reduce(ops.add, rest_axes, whole))


def _orientations(found: _Applied) -> list[_Applied]:
    """The factor as it is; an inverse also as the transpose."""
    if found.right is not None:
        return [found]
    return [found, _Applied(found.matrix, True, None, found.summed, found.free)]


def _solved(lam: Lambda, one: _Applied, rest: Sequence[Expr], others: list[Axis],
            columns: Sequence[Axis], summed: Axis) -> Tensor:
    """``lam`` as the solution for the rest of its product."""
    row = Index(ROW)
    if one.right is None:
        over = others
        parts = [substitute(f, {summed.name: row}) for f in rest]
    else:
        over = [*others, summed]
        parts = [Read(one.right, (row, one.summed)), *rest]
    body = parts[0] if parts else const(1, lam.dtype)
    for f in parts[1:]:
        body = Call(ops.multiply, (body, f))
    if over:
        body = Reduce(ops.add, tuple(over), body)
    column = columns[0] if columns else Axis(COLUMN, 1)
    right = Lambda((Axis(ROW, one.matrix.shape[0]), column), convert(body, lam.dtype))
    solution = Bulk(matrices.solve, (_oriented(one.matrix, one.turned), right), ("",))
    at = Index(columns[0].name) if columns else const(0, row.dtype)
    return Lambda(lam.axes, Read(solution, (one.free, at)))


def _oriented(matrix: Tensor, turned: bool) -> Tensor:
    if not turned:
        return matrix
    m, n = matrix.shape
    return Lambda((Axis(ROW, n), Axis(COLUMN, m)), Read(matrix, (Index(COLUMN), Index(ROW))))


def _selected(lam: Lambda, readers: Mapping[Tensor, int]) -> Tensor | None:
    """A few rows or columns of an inverse."""
    read = lam.body
    assert isinstance(read, Read)
    t = read.tensor
    if not isinstance(t, Bulk) or t.op is not matrices.inv or len(t.shape) != 2 \
            or readers.get(t, 0) != 1:
        return None
    for turned, (along, at) in ((False, read.indices), (True, read.indices[::-1])):
        picked = [a for a in lam.axes if a.name in at.free]
        if len(picked) > 1 or not (picked or isinstance(at, Const)) or not along.free.isdisjoint(
                at.free) or not isinstance(along, (Index, Const)):
            continue
        if (picked[0].extent if picked else 1) > MAX_SELECTED * t.shape[0]:
            continue
        column = picked[0] if picked else Axis(COLUMN, 1)
        one = compare(ops.equal, Index(ROW), at)
        right = Lambda((Axis(ROW, t.shape[0]), column), convert(one, t.dtype))
        solution = Bulk(matrices.solve, (_oriented(t.args[0], turned), right), ("",))
        place = Index(column.name) if picked else const(0, at.dtype)
        return Lambda(lam.axes, Read(solution, (along, place)))
    return None
