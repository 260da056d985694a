"""What the back end asks about loop IR."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import fields

from tensorel.algebra import ops
from tensorel.ir.nodes import Call, Const, Expr, Local, Read, postorder
from tensorel.kernels.loopir.statements import (
    Append,
    AppendReserved,
    Assign,
    For,
    If,
    Lanes,
    Length,
    Stmt,
    Store,
    While,
)

MAX_UNROLLED_TURNS = 8
VECTOR_BYTES = 64  # bytes of the widest vectors
#: Functions of floating-point numbers that vectors have.
_VECTORS = frozenset((ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative, ops.square,
                      ops.cast(ops.FLOAT64)))


def statements(body: tuple[Stmt, ...]) -> list[Stmt]:
    """All statements below, in order."""
    found: list[Stmt] = []
    stack: list[Stmt] = list(reversed(body))
    while stack:
        stmt = stack.pop()
        found.append(stmt)
        match stmt:
            case For() | While() | Lanes():
                stack.extend(reversed(stmt.body))
            case If():
                stack.extend(reversed(stmt.then + stmt.otherwise))
    return found


def expressions(stmt: Stmt) -> list[Expr]:
    """What a statement evaluates itself, not in the statements below."""
    found: list[Expr] = []
    for f in fields(stmt):  # type: ignore[arg-type]
        value = getattr(stmt, f.name)
        parts = value if isinstance(value, tuple) else (value,)
        found += [e for e in parts if isinstance(e, Expr) and f.name != "target"]
    return found


def depth(body: tuple[Stmt, ...]) -> int:
    """How many loops stand inside each other."""
    found = 0
    for stmt in body:
        match stmt:
            case For() | While() | Lanes():
                found = max(found, 1 + depth(stmt.body))
            case If():
                found = max(found, depth(stmt.then), depth(stmt.otherwise))
    return found


def assigned(body: tuple[Stmt, ...]) -> list[Local]:
    """The locals that statements set, in order."""
    return [s.target for s in statements(body) if isinstance(s, Assign | For | Lanes | Length)]


def is_short(loop: For) -> bool:
    """A few turns, how many is known now: they are written out."""
    return isinstance(loop.lo, Const) and isinstance(loop.hi, Const) and not depth(loop.body) \
        and 0 < int(loop.hi.value) - int(loop.lo.value) <= MAX_UNROLLED_TURNS


def is_indirect(body: tuple[Stmt, ...]) -> bool:
    """Whether an innermost loop addresses memory by what it reads from memory. Such elements do not
    pay as vectors, nor does unrolling: most rows are short, and the end of each further loop is a
    branch that the processor guesses wrongly."""
    found: set[Expr] = set()  # locals that hold what was read in this iteration
    for stmt in statements(body):
        match stmt:
            case For() | While() | Lanes():
                return False
            case Assign():
                exprs: tuple[Expr, ...] = (stmt.value,)
                if _reads(stmt.value, found):
                    found.add(stmt.target)
            case Store():
                exprs = (stmt.value,)
                if _reads(stmt.position, found):
                    return True
            case AppendReserved(condition=Expr() as kept):
                exprs = (*stmt.values, kept)
            case Append() | AppendReserved():
                exprs = stmt.values
            case If():
                exprs = (stmt.condition,)
            case _:
                continue
        reads = (e for e in postorder(*exprs) if isinstance(e, Read))
        if any(_reads(position, found) for read in reads for position in read.indices):
            return True
    return False


def _reads(expr: Expr, found: set[Expr]) -> bool:
    """Whether a value depends on memory that is read at other places in other iterations; an
    extent, read at a fixed place, does not count."""
    return any(
        e in found or (isinstance(e, Read) and not all(isinstance(i, Const) for i in e.indices))
        for e in postorder(expr)
    )


def lanes(loop: For, fixed: Set[Expr]) -> int:
    """Turns of a loop of sums that a vector takes at once, the last vector of each run under a
    mask; 0 if vectors are not for it. ``fixed``: what is the same at every run of the loop.

    Rows of a sparse matrix have few entries, and each another number: the ends of a loop over full
    vectors and of one over what is left are branches that the processor guesses wrongly. Where the
    number is always the same it guesses rightly; and what is stored under a mask is slow to read.
    """
    if loop.hi in fixed or isinstance(loop.hi, Const):
        return 0
    match loop.hi:
        case Call(op=ops.add, args=(start, Const())) if start is loop.lo:
            return 0
    inside: set[Expr] = {loop.target, *assigned(loop.body)}
    used: set[Expr] = set()
    widest = 0
    for stmt in reversed(loop.body):
        if not isinstance(stmt, Assign):
            return 0
        is_sum = isinstance(stmt.value, Call) and stmt.target in stmt.value.args
        if not is_sum and stmt.target not in used:
            continue  # nobody asks
        if stmt.target.dtype.kind != "f":
            return 0
        for e in postorder(stmt.value):
            if not isinstance(e, Expr):
                continue
            match e:
                case Read(indices=(at,)):
                    if e.dtype.kind != "f" or not _steps(at, loop.target, inside):
                        return 0
                case Call(op=op) if e.dtype.kind == "f" and op not in _VECTORS:
                    return 0
            if e.dtype.kind == "f":
                widest = max(widest, e.dtype.itemsize)
            used.add(e)
    return VECTOR_BYTES // widest if widest else 0


def is_contiguous(loop: For) -> bool:
    """Whether a loop goes through memory in order: a vector takes many turns at once."""
    held = {s.target: s.value for s in loop.body if isinstance(s, Assign)}
    inside: set[Expr] = {loop.target, *assigned(loop.body)}

    def follows(at: Expr) -> bool:
        at = held.get(at, at) if isinstance(at, Local) else at
        parts = at.args if isinstance(at, Call) and at.op is ops.add else (at,)
        return sum(e is loop.target for e in parts) < 2 and not any(
            e in inside or (isinstance(e, Read) and not isinstance(e.indices[0], Const))
            for e in postorder(*[p for p in parts if p is not loop.target]))

    return all(follows(at) for s in statements(loop.body)
               for e in postorder(*expressions(s)) if isinstance(e, Read) for at in e.indices)


def _steps(position: Expr, target: Local, inside: Set[Expr]) -> bool:
    """Whether a place moves on by one with each turn of the loop, or stays."""
    match position:
        case Call(op=ops.add, args=(a, b)):
            rest = b if a is target else a if b is target else position
        case _ if position is target:
            return True
        case _:
            rest = position
    return not any(e in inside or isinstance(e, Read) for e in postorder(rest))
