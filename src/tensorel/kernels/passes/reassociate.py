"""Sums of floating-point numbers that do not wait for each other, in blocks.

``acc = acc + e`` in an innermost loop takes an addition's latency a turn, whatever the processor
could load and multiply meanwhile, and loses digits with each turn. Where sums may be reassociated,

- the loop adds up a part of its own, which joins ``acc`` at its end: the rows of a matrix do not
  wait for each other then;
- a long loop is cut into blocks, each a part that joins the sum with its error kept
  (``exact_sums``);
- a loop that reads indirectly (others LLVM turns into vectors) of ``GROUPED_TURNS`` and more adds
  four terms as a tree first. Shorter loops do not: whether a loop has turns for a tree changes
  from row to row there, and the processor guesses that branch wrongly.

Products are left in order: parts of them overflow where the product does not.
"""

from __future__ import annotations

from collections.abc import Set

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import compare, minus, plus, times
from tensorel.ir.nodes import INT64, Call, Const, Expr, Local, const, postorder
from tensorel.kernels.loopir.queries import is_contiguous, is_indirect, is_short, statements
from tensorel.kernels.loopir.statements import Assign, Comment, For, If, Prefetch, Stmt, While
from tensorel.kernels.passes.exact_sums import BLOCK_TERMS, Fresh, carried, renamed, zero

GROUPED_TURNS = 32  # loops of fewer turns add one term after another
SHIFT = 2
WIDTH = 1 << SHIFT
MAX_STATEMENTS = 16  # statements of a body that is worth repeating
GROUP_BLOCK_TURNS = BLOCK_TERMS * WIDTH  # turns of a block of groups
VECTOR_BLOCK_TURNS = 512  # turns of a block of vectors, which have many sums: 64 of float32

Sums = dict[Local, ops.Operator]


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Accumulators and the parts that a loop adds up for them."""

    sums: Sums
    parts: dict[Local, Local]
    body: tuple[Stmt, ...]  # of the loop, adding to the parts
    fresh: Fresh

    @property
    def start(self) -> tuple[Stmt, ...]:
        made = []
        for acc, part in self.parts.items():
            identity = self.sums[acc].identity
            assert identity is not None
            made.append(Assign(part, const(identity(part.dtype), part.dtype)))
        return tuple(made)

    @property
    def end(self) -> tuple[Stmt, ...]:
        return tuple(Assign(acc, Call(self.sums[acc], (acc, part)))
                     for acc, part in self.parts.items())

    def blocks(self, more: Expr, loop: For, step: tuple[Stmt, ...], checked: bool
               ) -> tuple[Stmt, ...]:
        """While there is ``more``: a block, whose parts join the sums with their errors kept."""
        lows: list[Stmt] = []
        join: list[Stmt] = []
        for stmt, (acc, part) in zip(self.end, self.parts.items()):
            if self.sums[acc] is ops.add and acc.dtype.kind in "fc":
                low = self.fresh("low", acc)
                lows.append(zero(low))
                join += carried(acc, low, part, self.fresh)
            else:
                join.append(stmt)
        return *lows, While(more, (*self.start, loop, *join, *step), checked)


def chained(loop: For, fresh: Fresh) -> tuple[Stmt, ...] | None:
    """Statements that do what the loop does with sums that do not wait; its loops are to be taken
    as they are. None if it has no sums or does anything else."""
    sums = _sums(loop.body)
    if not sums:
        return None
    parts = {acc: fresh("part", acc) for acc in sums}
    made = _Parts(sums, parts, tuple(renamed(s, parts) for s in loop.body), fresh)
    if is_short(loop):
        whole = For(loop.target, loop.lo, loop.hi, made.body, loop.checked)
        return *made.start, whole, *made.end
    at, last = fresh("at", loop.target), loop.hi
    begin: tuple[Stmt, ...] = (Assign(at, loop.lo),)
    if not isinstance(last, Local | Const):
        last = fresh("last", loop.target)
        begin += (Assign(last, loop.hi),)
    rest = For(loop.target, at, last, made.body, loop.checked)
    if is_indirect(loop.body) and len(loop.body) <= MAX_STATEMENTS \
            and not any(isinstance(s, If) for s in loop.body):
        return *begin, *_grouped(made, loop, at, last), rest, *made.end
    if all(op.idempotent for op in sums.values()):
        whole = For(loop.target, loop.lo, loop.hi, made.body, loop.checked)
        return *made.start, whole, *made.end
    size = VECTOR_BLOCK_TURNS if is_contiguous(loop) else BLOCK_TERMS
    block = For(loop.target, at, plus(at, size), made.body)
    more = compare(ops.greater, minus(last, at), size)
    many = made.blocks(more, block, (Assign(at, plus(at, size)),), loop.checked)
    return *begin, If(more, many), *made.start, rest, *made.end


def _grouped(made: _Parts, loop: For, at: Local, last: Expr) -> tuple[Stmt, ...]:
    """The groups of four turns that the range has, if it has enough turns; ``at`` is moved behind
    them."""
    group, turns = (made.fresh(n, loop.target) for n in ("group", "turns"))
    count = minus(last, at)
    quarter = Call(ops.right_shift, (count, const(SHIFT, INT64)))
    body = _group(loop.target, made.body, plus(at, times(group, WIDTH)), made)

    def groups(number: Expr) -> For:
        return For(group, const(0, INT64), number, body)

    full = compare(ops.greater, count, GROUP_BLOCK_TURNS)
    many = made.blocks(full, groups(const(BLOCK_TERMS, INT64)), (
        Assign(at, plus(at, GROUP_BLOCK_TURNS)),), loop.checked)
    some = (If(full, (*many, *made.start)), groups(quarter), Assign(turns, quarter),
            Assign(at, plus(at, times(turns, WIDTH))))
    return *made.start, If(compare(ops.greater_equal, count, GROUPED_TURNS), some)


def _sums(body: tuple[Stmt, ...]) -> Sums:
    """The accumulators of a body that does nothing else: what it sets is set before it is read,
    except that each accumulator is read where it is set."""
    sums: Sums = {}
    targets = {s.target for s in statements(body) if isinstance(s, Assign)}
    known: set[Expr] = set()
    if not _collect(body, sums, targets, known):
        return {}
    floats = any(acc.dtype.kind in "fc" for acc in sums)
    return sums if floats and known.isdisjoint(sums) else {}


def _collect(body: tuple[Stmt, ...], sums: Sums, targets: Set[Expr], known: set[Expr]) -> bool:
    """Enter the accumulators; False if there is anything else."""
    for stmt in body:
        made: Local | None = None
        match stmt:
            case Assign(target=acc, value=Call(op=op, args=(first, term))) if first is acc:
                if not _may_regroup(op, acc) or acc in sums \
                        or op.resolve(acc.dtype, term.dtype)[1] != acc.dtype:
                    return False
                used: Expr = term
                sums[acc] = op
            case Assign(value=used):
                made = stmt.target  # not known to what it is made of
            case Prefetch(position=used) | If(condition=used):
                pass
            case Comment():
                continue
            case _:
                return False
        if any((e in targets and e not in known) or e in sums for e in _locals(used)):
            return False
        if made is not None:
            known.add(made)
        if isinstance(stmt, If) and not all(
                _collect(part, sums, targets, set(known)) for part in (stmt.then, stmt.otherwise)):
            return False
    return True


def _may_regroup(op: ops.Operator, acc: Local) -> bool:
    """Products of floats stay in order: where a part overflows and another one vanishes, their
    product is nan."""
    if not (op.is_monoid and op.commutative) or op.expand is not None or acc.dtype.kind == "b":
        return False
    return op is not ops.multiply or acc.dtype.kind not in "fc"


def _locals(root: Expr) -> list[Expr]:
    return [e for e in postorder(root) if isinstance(e, Local)]


def _group(index: Local, body: tuple[Stmt, ...], start: Expr, made: _Parts) -> tuple[Stmt, ...]:
    """Four turns at once: the terms of each part are added as a tree. The last turn sets the
    locals of the body, as the loop would."""
    fresh, found = made.fresh, list[Stmt]()
    sums = {part: made.sums[acc] for acc, part in made.parts.items()}
    terms: dict[Local, list[Local]] = {part: [] for part in sums}
    own = dict.fromkeys([index, *[s.target for s in body if isinstance(s, Assign)]])
    for k in range(WIDTH):
        table: dict[Local, Local] = {
            x: fresh(x.name, x) for x in own if k < WIDTH - 1 or x in sums}
        found.append(renamed(Assign(index, plus(start, k)), table))
        for stmt in body:
            if isinstance(stmt, Assign) and stmt.target in sums:
                assert isinstance(stmt.value, Call)
                stmt = Assign(stmt.target, stmt.value.args[1])
            found.append(renamed(stmt, table))
        for part, turns in terms.items():
            turns.append(table[part])
    for part, (a, b, c, d) in terms.items():
        first, second, both = (fresh("sum", part) for _ in range(3))
        op = sums[part]
        for x, y, z in ((a, b, first), (c, d, second), (first, second, both), (part, both, part)):
            found.append(Assign(z, Call(op, (x, y))))
    return tuple(found)
