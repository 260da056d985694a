"""What the back end asks about loop IR."""

from __future__ import annotations

from dataclasses import fields

from tensorel.ir.nodes import Const, Expr, Local, Read, postorder
from tensorel.kernels.loops import (
    Append,
    AppendReserved,
    Assign,
    For,
    If,
    Length,
    Stmt,
    Store,
    While,
)

SHORT = 8


def statements(body: tuple[Stmt, ...]) -> list[Stmt]:
    """All statements below, in order."""
    found: list[Stmt] = []
    stack: list[Stmt] = list(reversed(body))
    while stack:
        stmt = stack.pop()
        found.append(stmt)
        match stmt:
            case For() | While():
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
            case For() | While():
                found = max(found, 1 + depth(stmt.body))
            case If():
                found = max(found, depth(stmt.then), depth(stmt.otherwise))
    return found


def assigned(body: tuple[Stmt, ...]) -> list[Local]:
    """The locals that statements set, in order."""
    return [s.target for s in statements(body) if isinstance(s, Assign | For | Length)]


def is_short(loop: For) -> bool:
    """A few turns, how many is known now: they are written out."""
    return isinstance(loop.lo, Const) and isinstance(loop.hi, Const) and not depth(loop.body) \
        and 0 < int(loop.hi.value) - int(loop.lo.value) <= SHORT


def is_indirect(body: tuple[Stmt, ...]) -> bool:
    """Whether an innermost loop addresses memory by what it reads from memory.

    Measured on sparse matrix times vector: vectors made of such elements do not pay, nor does
    unrolling, since most rows are short and each further loop is one more wrong guess a row.
    """
    found: set[Expr] = set()  # locals that hold what was read in this iteration
    for stmt in statements(body):
        match stmt:
            case For() | While():
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
