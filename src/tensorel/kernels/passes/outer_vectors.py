"""Loops around sums as vectors: neighbouring cells are summed side by side.

The turns of a loop over cells are independent; where they read neighbouring entries, or the same
one, a vector has one cell in each lane and the loops inside run once for all of them (outer-loop
vectorization; Allen and Kennedy, Optimizing Compilers, 8 and 9). Sums stay in registers, a factor
that all cells share is loaded once, and the terms of each cell are added in the order in which they
are written. ``GROUP`` vectors are taken at a time, so that additions do not wait for each other.

The last vectors overlap those before them: what they compute again is the same. Runs that are
shorter than one vector go cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorel.algebra import ops
from tensorel.ir.build import compare, minus, plus
from tensorel.ir.nodes import Call, Expr, Local, Read, postorder
from tensorel.kernels.loopir.queries import VECTOR_BYTES, expressions, statements
from tensorel.kernels.loopir.statements import Assign, For, If, Lanes, Stmt, Store, While
from tensorel.kernels.loopir.varying import Varying, runs_at_once, varying
from tensorel.kernels.passes.unroll_and_jam import Jam, sets_first

GROUP = 4  # vectors at a time
MAX_GROUPED_STATEMENTS, MAX_STATEMENTS = 24, 64

Fresh = Callable[[str, Local], Local]  # a local of its own, of the same dtype


def in_vectors(loop: For, fresh: Fresh) -> list[Stmt] | None:
    """Statements that do what the loop does; None where its turns cannot be taken at once, or
    where another loop is the better one to be made into vectors."""
    body, inside = loop.body, statements(loop.body)
    if not any(isinstance(s, For) for s in body) or len(inside) > MAX_STATEMENTS \
            or not all(isinstance(s, Assign | Store | For) for s in inside):
        return None
    own = {s.target for s in inside if isinstance(s, Assign)}
    if not sets_first(body, {s.target for s in inside if isinstance(s, For)}, own):
        return None
    found = varying(body, loop.target)
    lanes = _lanes(loop.body, found)
    if not lanes or not runs_at_once(body, found):
        return None
    at, begin, end, count = (fresh(n, loop.target) for n in ("at", "begin", "end", "count"))
    differing = {**dict.fromkeys(found.places), **dict.fromkeys(found.vectors)}
    group = GROUP if len(inside) <= MAX_GROUPED_STATEMENTS else 1

    def vectors(number: int) -> tuple[Stmt, ...]:
        first = fresh(loop.target.name, loop.target)
        start = Call(ops.minimum, (at, minus(end, lanes * number)))
        made = Jam([_names(found, first, lanes * k, loop.target, fresh) for k in range(number)],
                   differing).block(body)
        more = (Lanes(first, start, lanes, made), Assign(at, plus(at, lanes * number)))
        return Assign(at, begin), While(compare(ops.less, at, end), more, loop.checked)

    alone: tuple[Stmt, ...] = (For(loop.target, begin, end, body, loop.checked),)
    for number in sorted({1, group}):
        enough = compare(ops.greater_equal, count, lanes * number)
        alone = (If(enough, vectors(number), alone),)
    return [Assign(begin, loop.lo), Assign(end, loop.hi), Assign(count, minus(end, begin)), *alone]


def _lanes(body: tuple[Stmt, ...], found: Varying) -> int:
    """So many cells fit into a vector of the widest numbers that differ from cell to cell; 0 where
    no loop inside reads neighbours."""
    loops = tuple(s for s in body if isinstance(s, For))
    reads = [e for s in statements(loops) for e in postorder(*expressions(s))
             if isinstance(e, Read)]
    if not any(found.growth(e.indices[0]) == 1 for e in reads):
        return 0
    sizes = [x.dtype.itemsize for x in found.vectors]
    return VECTOR_BYTES // max(sizes) if sizes else 0


def _names(found: Varying, first: Local, by: int, target: Local, fresh: Fresh) -> dict[Expr, Expr]:
    """What one vector of a group has for what differs."""
    table: dict[Expr, Expr] = {x: fresh(x.name, x) for x in (*found.places, *found.vectors)
                               if x is not target}
    return {**table, target: plus(first, by)}
