"""Threads that tell each other how far they are."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.ir.nodes import INT64, const
from tensorel.kernels.llvm.expressions import Expressions
from tensorel.kernels.llvm.instructions import Assembler
from tensorel.kernels.loopir.statements import Announce, Await


def announce(asm: Assembler, ex: Expressions, stmt: Announce) -> None:
    value = ex.value_as(stmt.value, INT64)
    place = ex.address(stmt.array, stmt.position)
    asm.do(f"store atomic i64 {value}, ptr {place} release, align 8")


def wait(asm: Assembler, ex: Expressions, stmt: Await, check_cancelled: Callable[[], None],
         leave: Callable[[], None]) -> None:
    """Others may run on this core: they get it while there is nothing to do here."""
    need = ex.value_as(stmt.value, INT64)
    place = ex.address(stmt.array, stmt.position)
    failed = ex.address(stmt.failed, const(0, INT64))
    look, again, on, end = (asm.name(s) for s in ("look", "wait", "on", "seen"))
    asm.jump(look)
    asm.label(look)
    now = asm.op(f"load atomic i64, ptr {place} acquire, align 8")
    asm.branch(asm.op(f"icmp sge i64 {now}, {need}"), end, again)
    asm.label(again)
    asm.declare("sched_yield", "i32", "", "")
    asm.do("call i32 @sched_yield()")
    check_cancelled()
    code = asm.op(f"load atomic volatile i64, ptr {failed} monotonic, align 8")
    asm.branch(asm.op(f"icmp eq i64 {code}, 0"), look, on)
    asm.label(on)
    leave()
    asm.label(end)
