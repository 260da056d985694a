"""Sums of floating-point numbers that do not wait for each other.

``acc = acc + e`` in an innermost loop takes an addition's latency a turn, whatever the processor
could load and multiply meanwhile. Where sums may be reassociated,

- the loop adds up a part of its own, which joins ``acc`` at its end: the rows of a matrix do not
  wait for each other then;
- a loop that reads indirectly (others LLVM turns into vectors) of enough turns adds four terms as a
  tree first. Which way a row goes should be guessed rightly: where rows are long on average nearly
  all do (``MANY``), else nearly none (``LONG``).
  Measured (matrix times vector, one thread): rows of 64 entries 0.86 ms to 0.59, of 128 0.90 to
  0.52; with the tree for all rows, those of 10 entries took 0.83 instead of 0.65: wrong guesses.
  A mesh with 34 entries a row: 1.39 ms from 32 turns on, 1.22 from 24, 1.17 from 16; one with 11
  entries a row 1.90, 1.89, 2.01. Groups of stores, and a product of what the loop does not change
  taken out of it, gave nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tensorel.algebra import ops
from tensorel.ir.build import compare, minus, plus, times
from tensorel.ir.nodes import INT64, Call, Expr, Local, Read, const, postorder
from tensorel.kernels.analysis import is_indirect, is_short
from tensorel.kernels.loops import Assign, Comment, For, Prefetch, Stmt
from tensorel.records import dataclass

LONG, MANY = 32, 16
SHIFT = 2
WIDTH = 1 << SHIFT
MOST = 16  # statements of a body that is worth repeating

Fresh = Callable[[str, Local], Local]  # a local of its own, of the same dtype


@dataclass(frozen=True, slots=True)
class Chained:
    """``before``; if ``long`` then ``groups`` of turns and ``skip`` over them; the ``rest``;
    ``after``: together they do what the loop did."""

    before: tuple[Stmt, ...]
    rest: For
    after: tuple[Stmt, ...]
    long: Expr | None = None
    groups: For | None = None
    skip: tuple[Stmt, ...] = ()


def chained(loop: For, fresh: Fresh, thick: Set[str] = frozenset()) -> Chained | None:
    """The loop with sums that do not wait, None if it has none or does anything else. ``thick``:
    names of arrays whose lists are long on average."""
    sums = _sums(loop.body)
    if not sums:
        return None
    parts: dict[Expr, Expr] = {acc: fresh("part", acc) for acc in sums}
    before: list[Stmt] = []
    after: list[Stmt] = []
    for acc, op in sums.items():
        assert op.identity is not None
        part = parts[acc]
        before.append(_renamed(Assign(acc, const(op.identity(acc.dtype), acc.dtype)), parts))
        after.append(Assign(acc, Call(op, (acc, part))))
    body = tuple(_renamed(s, parts) for s in loop.body)
    if not is_indirect(body) or len(body) > MOST or is_short(loop):
        whole = For(loop.target, loop.lo, loop.hi, body, loop.checked)
        return Chained(tuple(before), whole, tuple(after))
    at, last, group, turns = (fresh(n, loop.target) for n in ("at", "last", "group", "turns"))
    before += [Assign(at, loop.lo), Assign(last, loop.hi)]
    count = minus(last, at)
    quarter = Call(ops.right_shift, (count, const(SHIFT, INT64)))
    groups = For(group, const(0, INT64), quarter,
                 _group(loop.target, body, plus(at, times(group, WIDTH)), fresh), loop.checked)
    skip = (Assign(turns, quarter), Assign(at, plus(at, times(turns, WIDTH))))
    rest = For(loop.target, at, last, body, loop.checked)
    enough = MANY if _walks(loop, thick) else LONG
    return Chained(tuple(before), rest, tuple(after),
                   compare(ops.greater_equal, count, enough), groups, skip)


def _walks(loop: For, arrays: Set[str]) -> bool:
    """Whether the loop goes along one of these arrays."""
    return bool(arrays) and any(
        isinstance(e, Read) and e.indices[0] is loop.target
        and str(e.tensor.data) in arrays  # type: ignore[attr-defined]
        for s in loop.body if isinstance(s, Assign) for e in postorder(s.value))


def _sums(body: tuple[Stmt, ...]) -> dict[Local, ops.Operator]:
    """The accumulators of a body that does nothing else: what it sets is set before it is read,
    except that each accumulator is read where it is set."""
    sums: dict[Local, ops.Operator] = {}
    targets = {s.target for s in body if isinstance(s, Assign)}
    known: set[Expr] = set()
    for stmt in body:
        match stmt:
            case Assign(target=acc, value=Call(op=op, args=(first, term))) if first is acc:
                fits = op.is_monoid and op.commutative and op.expand is None
                if not fits or acc.dtype.kind == "b" or acc in sums \
                        or op.resolve(acc.dtype, term.dtype)[1] != acc.dtype:
                    return {}
                used: Expr = term
                sums[acc] = op
            case Assign(value=used):
                known.add(stmt.target)
            case Prefetch(position=used):
                pass
            case Comment():
                continue
            case _:
                return {}
        if any((e in targets and e not in known) or e in sums for e in _locals(used)):
            return {}
    floats = any(acc.dtype.kind in "fc" for acc in sums)
    return sums if floats and known.isdisjoint(sums) else {}


def _locals(root: Expr) -> list[Expr]:
    return [e for e in postorder(root) if isinstance(e, Local)]


def _group(index: Local, body: tuple[Stmt, ...], start: Expr, fresh: Fresh) -> tuple[Stmt, ...]:
    """Four turns at once: the terms of each accumulator are added as a tree. The last turn sets
    the locals of the body, as the loop would."""
    made: list[Stmt] = []
    sums = _sums(body)
    terms: dict[Local, list[Local]] = {acc: [] for acc in sums}
    own = dict.fromkeys([index, *[s.target for s in body if isinstance(s, Assign)]])
    for k in range(WIDTH):
        table: dict[Expr, Expr] = {
            x: fresh(x.name, x) for x in own if k < WIDTH - 1 or x in sums}
        made.append(_renamed(Assign(index, plus(start, k)), table))
        for stmt in body:
            if isinstance(stmt, Assign) and stmt.target in sums:
                assert isinstance(stmt.value, Call)
                stmt = Assign(stmt.target, stmt.value.args[1])
            made.append(_renamed(stmt, table))
        for acc, turns in terms.items():
            turns.append(table[acc])  # type: ignore[arg-type]
    for acc, (a, b, c, d) in terms.items():
        first, second, both = (fresh("sum", acc) for _ in range(3))
        op = sums[acc]
        for x, y, z in ((a, b, first), (c, d, second), (first, second, both), (acc, both, acc)):
            made.append(Assign(z, Call(op, (x, y))))
    return tuple(made)


def _renamed(stmt: Stmt, table: dict[Expr, Expr]) -> Stmt:
    match stmt:
        case Assign():
            target = table.get(stmt.target, stmt.target)
            assert isinstance(target, Local)
            return Assign(target, replaced(stmt.value, table))
        case Prefetch():
            return Prefetch(stmt.array, replaced(stmt.position, table))
        case _:
            return stmt


def replaced(root: Expr, table: dict[Expr, Expr]) -> Expr:
    """The expression with other locals."""
    done = dict(table)
    for e in postorder(root):
        if not isinstance(e, Expr) or e in done:
            continue
        match e:
            case Call():
                done[e] = Call(e.op, tuple([done[a] for a in e.args]))
            case Read():
                done[e] = Read(e.tensor, tuple([done[i] for i in e.indices]))
            case _:
                done[e] = e
    return done[root]
