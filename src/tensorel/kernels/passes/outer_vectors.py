"""Loops around sums as vectors: neighbouring cells are summed side by side, in tiles of registers.

The turns of a loop over cells are independent; where they read neighbouring entries, or the same
one, a vector has one cell in each lane and the loops inside run once for all of them (outer-loop
vectorization; Allen and Kennedy, Optimizing Compilers, 8 and 9). Sums stay in registers, a factor
that all cells share is loaded once, and the terms of each cell are added in the order in which they
are written. Several vectors are taken at a time, so that additions do not wait for each other; the
last ones overlap those before: what they compute again is the same.

Where vectors that are read inside do not depend on a loop further out, ``ROWS`` turns of that are
taken at a time (unroll and jam): each such vector is loaded once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorel.algebra import ops
from tensorel.ir.build import compare, minus, plus
from tensorel.ir.nodes import Call, Expr, Local, Read, postorder
from tensorel.kernels.loopir.queries import VECTOR_BYTES, expressions, statements
from tensorel.kernels.loopir.statements import (
    Assign,
    Comment,
    For,
    If,
    Lanes,
    Stmt,
    Store,
    While,
)
from tensorel.kernels.loopir.varying import Varying, runs_at_once, varying
from tensorel.kernels.passes.unroll_and_jam import Jam, depending, sets_first

GROUP, ROWS = 4, 4  # vectors at a time, and rows of them
MAX_GROUPED_STATEMENTS, MAX_STATEMENTS = 24, 64

Fresh = Callable[[str, Local], Local]  # a local of its own, of the same dtype


def in_vectors(loop: For, fresh: Fresh, extent: int | None) -> list[Stmt] | None:
    """Statements that do what the loop does; None where its turns cannot be taken at once, or
    where another loop is the better one to be made into vectors. ``extent``: how many turns it has,
    if that is known."""
    body, inside = loop.body, statements(loop.body)
    if not any(isinstance(s, For) for s in body) or len(inside) > MAX_STATEMENTS \
            or not all(isinstance(s, Assign | Store | For) for s in inside) \
            or not sets_first(body, set(), _assigned(body)):
        return None
    found = varying(body, loop.target)
    lanes = _lanes(body, found)
    if not lanes or not runs_at_once(body, found):
        return None
    most = GROUP if len(inside) <= MAX_GROUPED_STATEMENTS else 1
    at, begin, end, count = (fresh(n, loop.target) for n in ("at", "begin", "end", "count"))

    def vectors(number: int) -> tuple[Stmt, ...]:
        first = fresh(loop.target.name, loop.target)
        start = Call(ops.minimum, (at, minus(end, lanes * number)))
        own = [x for x in (*found.places, *found.vectors) if x is not loop.target]
        tables = [_names(own, fresh, loop.target, plus(first, lanes * k)) for k in range(number)]
        made = Jam(tables, {loop.target, *own}).block(body)
        more = (Lanes(first, start, lanes, made), Assign(at, plus(at, lanes * number)))
        return Assign(at, begin), While(compare(ops.less, at, end), more, loop.checked)

    limits = Assign(begin, loop.lo), Assign(end, loop.hi)
    if extent is not None:
        fits = range(1, min(extent // lanes, most) + 1)
        number = min(fits, key=lambda k: (-(-extent // (lanes * k)) * k, -k), default=0)
        return [*limits, *vectors(number)] if number else None
    alone: tuple[Stmt, ...] = (For(loop.target, begin, end, body, loop.checked),)
    for number in sorted({1, most}):
        enough = compare(ops.greater_equal, count, lanes * number)
        alone = (If(enough, vectors(number), alone),)
    return [*limits, Assign(count, minus(end, begin)), *alone]


def _names(own: list[Local], fresh: Fresh, target: Local, turn: Expr) -> dict[Expr, Expr]:
    """What one of several turns has for the counter of the loop, and for what differs."""
    return {target: turn, **{x: fresh(x.name, x) for x in own}}


def _lanes(body: tuple[Stmt, ...], found: Varying) -> int:
    """So many cells fit into a vector of the widest numbers that differ from cell to cell; 0 where
    no loop inside reads neighbours."""
    loops = tuple(s for s in body if isinstance(s, For))
    if not any(found.growth(e.indices[0]) == 1 for e in _reads(loops)):
        return 0
    sizes = [x.dtype.itemsize for x in found.vectors]
    return VECTOR_BYTES // max(sizes) if sizes else 0


def _reads(body: tuple[Stmt, ...]) -> Iterator[Read]:
    return (e for s in statements(body) for e in postorder(*expressions(s)) if isinstance(e, Read))


def _assigned(body: tuple[Stmt, ...]) -> set[Local]:
    return {s.target for s in statements(body) if isinstance(s, Assign)}


def in_tiles(loop: For, fresh: Fresh) -> list[Stmt] | None:
    """A loop around one of vectors, several rows of which share what they read; None elsewhere."""
    inside = statements(loop.body)
    vectors = [s for s in inside if isinstance(s, Lanes)]
    if len(vectors) != 1 or not all(
            isinstance(s, Assign | Store | For | While | Lanes | Comment) for s in inside):
        return None
    rows, body = depending(loop.body, loop.target), loop.body
    found = varying(vectors[0].body, vectors[0].target)

    def differs(e: Expr) -> bool:
        return any(isinstance(x, Local) and x in rows for x in postorder(e))

    control = [e for s in inside if not isinstance(s, Assign | Store) for e in expressions(s)]
    written = {s.array for s in inside if isinstance(s, Store)}
    shared = [e for e in _reads(tuple(s for s in vectors[0].body if isinstance(s, For)))
              if found.growth(e.indices[0]) == 1 and not differs(e)]
    if not shared or any(map(differs, control)) or not sets_first(body, set(), _assigned(body)) \
            or any(e.tensor in written for e in _reads(body)) \
            or not all(differs(s.position) for s in inside if isinstance(s, Store)):
        return None
    at, end = fresh("tile", loop.target), fresh("end", loop.target)
    own = [x for x in rows if x is not loop.target]
    tables = [_names(own, fresh, loop.target, plus(at, k)) for k in range(ROWS)]
    more = compare(ops.less_equal, plus(at, ROWS), end)
    tile = (*Jam(tables, rows).block(body), Assign(at, plus(at, ROWS)))
    return [Assign(at, loop.lo), Assign(end, loop.hi), While(more, tile, loop.checked),
            For(loop.target, at, end, body, loop.checked)]
