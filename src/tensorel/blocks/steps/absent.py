"""Which blocks a step can do without: those of an operand that are all fill, where that makes all
that is computed from them what the result has anyway."""

from __future__ import annotations

from tensorel.blocks.steps.access import Loops
from tensorel.ir.analysis import fill_expr
from tensorel.ir.nodes import Call, Const, Expr, Read, Source, const


def vanishes(loops: Loops, operand: Source, fill: Const | None) -> bool:
    """Whether an entry of the step is the identity of its reduction, or the fill of its result,
    where all that it reads of the operand is fill. An absent entry annihilates also what is not
    finite: not for programs that compute as NumPy does."""
    found = _value(loops.entry, operand)
    if found is None:
        return False
    if loops.op is None:
        return fill is not None and found.bits == fill.bits
    if loops.op.identity is None:
        return False
    dtype = loops.entry.dtype
    return found.bits == const(loops.op.identity(dtype), dtype).bits


def _value(e: Expr, operand: Source) -> Const | None:
    """What an expression is, whatever other operands hold; None where that is not known."""
    if isinstance(e, Const):
        return e
    if isinstance(e, Read):
        return operand.fill if e.tensor is operand else None
    if not isinstance(e, Call):
        return None
    below = [_value(a, operand) for a in e.args]
    for found, zero in zip(below, e.op.annihilators or ()):
        if found is not None and zero is not None and found.value == zero:
            return const(zero, e.dtype)
    known = [b for b in below if b is not None]
    return fill_expr(Call(e.op, tuple(known))) if len(known) == len(below) else None
