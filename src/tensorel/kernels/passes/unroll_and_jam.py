"""Rows that share their walk are walked together.

The rows of a line of blocks have the same blocks: what a row's loops run through depends on it by
its line, ``i // R``, alone. Such a loop takes R rows at a time: each loop inside runs once for all
of them, and what differs from row to row (sums, places) is there R times, in registers. A block
is read as it lies, and a column of the other operand once for all rows of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import both, compare, plus
from tensorel.ir.nodes import INT64, Call, Const, Expr, Local, Read, Source, const, postorder
from tensorel.kernels.loopir.queries import expressions, statements
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
from tensorel.kernels.passes.exact_sums import renamed, replaced

MAX_ROWS = 8
MAX_STATEMENTS = 24  # statements of a body that is worth repeating

Fresh = Callable[[str, Local], Local]  # a local of its own, of the same dtype


def jammed(loop: For, fresh: Fresh, strict: bool) -> list[Stmt] | None:
    """The loop in lines of rows; None where rows do not come in lines, or are not independent."""
    rows = _rows(loop)
    if not 2 <= rows <= MAX_ROWS or len(statements(loop.body)) > MAX_STATEMENTS:
        return None
    quotient, rest = (Call(op, (loop.target, const(rows, INT64)))
                      for op in (ops.floor_divide, ops.remainder))
    line = fresh("line", loop.target)
    body = tuple(renamed(s, {quotient: line}) for s in loop.body)
    varying = depending(body, loop.target)
    if not _is_free(body, varying, strict):
        return None
    own = [x for x in varying if x is not loop.target]
    names: list[dict[Expr, Expr]] = [{x: fresh(x.name, x) for x in own} for _ in range(rows - 1)]
    names.append({})  # the last row sets the locals of the body, as the loop would
    at = fresh("row", loop.target)
    tables: list[Mapping[Expr, Expr]] = [
        {**mine, rest: const(k, INT64), loop.target: plus(at, k)} for k, mine in enumerate(names)]
    together = (Assign(line, replaced(quotient, {loop.target: at})),
                *Jam(tables, varying).block(body), Assign(at, plus(at, rows)))
    alone = (Assign(loop.target, plus(at, 0)), *loop.body, Assign(at, plus(at, 1)))
    whole = both(compare(ops.equal, replaced(rest, {loop.target: at}), 0),
                 compare(ops.less_equal, plus(at, rows), loop.hi))
    assert whole is not None
    more = compare(ops.less, at, loop.hi)
    return [Assign(at, loop.lo), While(more, (If(whole, together, alone),), loop.checked)]


def _rows(loop: For) -> int:
    """By what the bounds of all loops inside divide the row; 0 if they do not, or differ."""
    found = {int(e.args[1].value) for s in statements(loop.body) for e in postorder(*expressions(s))
             if isinstance(e, Call) and e.op is ops.floor_divide and e.args[0] is loop.target
             and isinstance(e.args[1], Const)}
    has_loops = any(isinstance(s, For) for s in loop.body)
    return found.pop() if len(found) == 1 and has_loops else 0


def depending(body: tuple[Stmt, ...], row: Local) -> dict[Local, None]:
    """The row, and the locals that depend on it."""
    found: dict[Local, None] = {row: None}
    before = 0
    while before < len(found):
        before = len(found)
        for s in statements(body):
            if isinstance(s, Assign) and _depends(s.value, found):
                found.setdefault(s.target, None)
    return found


def _depends(e: Expr, varying: Mapping[Local, None]) -> bool:
    return any(isinstance(x, Local) and x in varying for x in postorder(e))


def _is_free(body: tuple[Stmt, ...], varying: Mapping[Local, None], strict: bool) -> bool:
    """Rows may be interleaved: nothing goes from one to the next but sums in places that all rows
    of a line share, which may be made in any order. What a row sets, it sets first."""
    return sets_first(body, set(), {s.target for s in statements(body) if isinstance(s, Assign)}) \
        and all(isinstance(s, Assign | Store | For | Comment) for s in statements(body)) \
        and not any(_depends(e, varying) for s in statements(body) if isinstance(s, For)
                    for e in (s.lo, s.hi)) and _stores_are_free(body, varying, strict)


def sets_first(body: tuple[Stmt, ...], known: set[Local], own: set[Local]) -> bool:
    """Whether a body sets each of its ``own`` locals before it reads it; those it sets become
    ``known``."""
    for s in body:
        if any(isinstance(e, Local) and e in own and e not in known
               for e in postorder(*expressions(s))):
            return False
        if isinstance(s, For | While | Lanes) and not sets_first(s.body, known, own):
            return False
        if isinstance(s, Assign):
            known.add(s.target)
    return True


def _stores_are_free(body: tuple[Stmt, ...], varying: Mapping[Local, None], strict: bool) -> bool:
    """An array gets one kind of store: at a place of the row's own, once, or sums at places that
    do not depend on the row. Nothing else reads it."""
    below = [s for loop in body if isinstance(loop, For) for s in statements(loop.body)]
    inner = [s for s in below if isinstance(s, Store)]
    arrays: list[Source] = [s.array for s in statements(body) if isinstance(s, Store)]
    if len(set(arrays)) < len(arrays) or (inner and strict):
        return False
    sums = [_added(s) for s in inner]
    if any(e is None or _depends(s.position, varying) for s, e in zip(inner, sums)):
        return False
    exprs = [e for s in statements(body) if s not in inner for e in expressions(s)]
    exprs += [e for e in sums if e is not None] + [s.position for s in inner]
    return not any(isinstance(e, Read) and e.tensor in arrays for e in postorder(*exprs))


def _added(s: Store) -> Expr | None:
    """What a store adds to the place, by an operation that may be reordered."""
    match s.value:
        case Call(op=op, args=(Read(tensor=array, indices=(at,)), term)) if (
                array is s.array and at is s.position and op.is_monoid and op.commutative
                and op.expand is None):
            return term
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Jam:
    """Statements for all rows of a line; ``tables``: what each row has for what varies. Where
    control goes does not vary."""

    tables: Sequence[Mapping[Expr, Expr]]
    varying: Container[Local]

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for s in body:
            match s:
                case For():
                    made.append(For(s.target, s.lo, s.hi, self.block(s.body), s.checked))
                case While():
                    made.append(While(s.condition, self.block(s.body), s.checked))
                case Lanes():
                    made.append(Lanes(s.target, s.start, s.count, self.block(s.body)))
                case Store():
                    made += [renamed(s, table) for table in self.tables]
                case Assign() if s.target in self.varying:
                    made += [renamed(s, table) for table in self.tables]
                case _:
                    made.append(s)
        return tuple(made)
