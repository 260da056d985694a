"""How buffers grow inside kernels, and what LLVM may know of them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tensorel.base.memory_regions import LARGE_PAGE, MIN_MAPPED_BYTES
from tensorel.kernels.llvm.casts import truth
from tensorel.kernels.llvm.expressions import Expressions
from tensorel.kernels.llvm.instructions import RARE, code_of
from tensorel.kernels.loopir.statements import Append, AppendReserved, Kernel, Reserve, Table

_GROW_TEXT = """
define internal i32 @tr.grow(ptr %state, i64 %need, ptr %control) cold noinline nounwind {
entry:
  %data = load ptr, ptr %state
  %place = getelementptr inbounds i64, ptr %state, i64 2
  %capacity = load i64, ptr %place
  %sized = getelementptr inbounds i64, ptr %state, i64 3
  %item = load i64, ptr %sized
  %half = lshr i64 %capacity, 1
  %more = add i64 %capacity, %half
  %some = call i64 @llvm.umax.i64(i64 %more, i64 1024)
  %new = call i64 @llvm.umax.i64(i64 %some, i64 %need)
  %absurd = icmp ugt i64 %new, 288230376151711744
  br i1 %absurd, label %refuse, label %charge
charge:
  %added = sub i64 %new, %capacity
  %bytes = mul i64 %added, %item
  %budget = getelementptr inbounds i64, ptr %control, i64 1
  %left = atomicrmw sub ptr %budget, i64 %bytes monotonic
  %enough = icmp sge i64 %left, %bytes
  br i1 %enough, label %allocate, label %return
return:
  %a = atomicrmw add ptr %budget, i64 %bytes monotonic
  br label %refuse
refuse:
  ret i32 3
allocate:
  %size = mul i64 %new, %item
  %old = mul i64 %capacity, %item
  %ends = add i64 %size, PAGE
  %span = and i64 %ends, -LARGE
  %ended = add i64 %old, PAGE
  %spanned = and i64 %ended, -LARGE
  %mapped = icmp uge i64 %old, MAPPED
  br i1 %mapped, label %remap, label %plain
remap:
  %moved = call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %data, i64 %spanned, i64 %span, i32 1)
  br label %check
plain:
  %large = icmp uge i64 %size, MAPPED
  br i1 %large, label %map, label %heap
map:
  %fresh = call ptr @mmap(ptr null, i64 %span, i32 3, i32 34, i32 -1, i64 0)
  %bad = icmp eq ptr %fresh, inttoptr (i64 -1 to ptr)
  br i1 %bad, label %fail, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %fresh, ptr %data, i64 %old, i1 false)
  call void @free(ptr %data)
  br label %check
heap:
  %again = call ptr @realloc(ptr %data, i64 %size)
  %none = icmp eq ptr %again, null
  br i1 %none, label %fail, label %done
check:
  %big = phi ptr [ %moved, %remap ], [ %fresh, %copy ]
  %lost = icmp eq ptr %big, inttoptr (i64 -1 to ptr)
  br i1 %lost, label %fail, label %advise
advise:
  %ignored = call i32 @madvise(ptr %big, i64 %span, i32 14)
  br label %done
fail:
  %b = atomicrmw add ptr %budget, i64 %bytes monotonic
  ret i32 2
done:
  %got = phi ptr [ %again, %heap ], [ %big, %advise ]
  store ptr %got, ptr %state
  store i64 %new, ptr %place
  ret i32 0
}"""

_MREMAP = "call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %data, i64 %spanned, i64 %span, i32 1)"
GROW = _GROW_TEXT.replace("MAPPED", str(MIN_MAPPED_BYTES)).replace(
    "LARGE", str(LARGE_PAGE)).replace("PAGE", str(LARGE_PAGE - 1))
if sys.platform != "linux":  # nothing is mapped there, and there is no mremap to link
    GROW = GROW.replace(_MREMAP, "call ptr @realloc(ptr %data, i64 %size)")


class Tables:
    """The growable outputs of one kernel, in its text. Records are appended to a table: a value to
    each of its buffers, which have one length and one capacity."""

    def __init__(self, ex: Expressions, kernel: Kernel) -> None:
        self.ex, self.asm, self.bounds = ex, ex.asm, ex.bounds
        self.numbers = {t: k for k, t in enumerate(kernel.tables)}
        self.buffers = {b: k for k, b in enumerate(kernel.buffers)}

    def declare(self) -> None:
        """What growing calls."""
        asm = self.asm
        if self.buffers:
            asm.helpers["tr.grow"] = GROW
            asm.declare("realloc", "ptr", "ptr, i64", "nounwind")
            asm.declare("free", "void", "ptr", "nounwind")
            asm.declare("mmap", "ptr", "ptr, i64, i32, i32, i32, i64", "nounwind")
            asm.declare("madvise", "i32", "ptr, i64, i32", "nounwind")
            asm.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1", "")
            if sys.platform == "linux":
                asm.declare("mremap", "ptr", "ptr, i64, i64, i32, ...", "nounwind")
            asm.declare("llvm.umax.i64", "i64", "i64, i64", "")

    def load(self, alloca: Callable[[str, str, str], str]) -> None:
        """Slots for what the kernel keeps of them; ``alloca``: a slot with a name, a type and a
        first value."""
        asm = self.asm
        for k in self.buffers.values():
            place = asm.op(f"getelementptr inbounds ptr, ptr %buffers, i64 {k}")
            asm.do(f"%state{k} = load ptr, ptr {place}, !dereferenceable !4, !nonnull !5, "
                   "!align !6")
            for field, name in ((1, "length"), (2, "capacity")):
                asm.do(f"%{name}{k} = getelementptr inbounds i64, ptr %state{k}, i64 {field}")
            data = asm.op(f"load ptr, ptr %state{k}")
            asm.do(f"store ptr {data}, ptr {alloca(f'%b{k}.data', 'ptr', 'null')}")
        for table, t in self.numbers.items():
            for name in ("length", "capacity"):
                found = asm.op(f"load i64, ptr %{name}{self.buffers[table[0]]}")
                asm.do(f"store i64 {found}, ptr {alloca(f'%t{t}.{name}', 'i64', '0')}")

    def write_lengths(self) -> None:
        """At the end of the kernel."""
        for table in self.numbers:
            length = self.length(table)
            for b in table:
                self.asm.do(f"store i64 {length}, ptr %length{self.buffers[b]}")

    def length(self, table: Table) -> str:
        return self.asm.op(f"load i64, ptr %t{self.numbers[table]}.length")

    def append(self, stmt: Append | AppendReserved | Reserve) -> None:
        asm, t = self.asm, self.numbers[stmt.table]
        if isinstance(stmt, Reserve):
            self._make_room(stmt.table, self.ex.index(stmt.count))
            return
        record = [self.ex.value_as(e, b.dtype)
                  for e, b in zip(stmt.values, stmt.table, strict=True)]
        if isinstance(stmt, Append):
            self._make_room(stmt.table, "1")
        length = self.length(stmt.table)
        if self.bounds is not None:
            self.bounds.table(t, length)
        for b, value in zip(stmt.table, record):
            k = self.buffers[b]
            data = asm.op(f"load ptr, ptr %b{k}.data")
            alone = f", !alias.scope !{100 + 2 * k}, !noalias !{101 + 2 * k}"
            self.ex.store(self.ex.element(data, b.dtype, length), b.dtype, value, alone)
        more = "1"
        if isinstance(stmt, AppendReserved) and stmt.condition is not None:
            kept = truth(asm, code_of(stmt.condition.dtype), self.ex.value(stmt.condition))
            more = asm.op(f"zext i1 {kept} to i64")
        asm.do(f"store i64 {asm.op(f'add nuw nsw i64 {length}, {more}')}, ptr %t{t}.length")

    def _make_room(self, table: Table, count: str) -> None:
        """One look serves for a table: its buffers have the same capacity, and grow alike."""
        asm, t = self.asm, self.numbers[table]
        grow, room = asm.name("grow"), asm.name("room")
        length = self.length(table)
        capacity = asm.op(f"load i64, ptr %t{t}.capacity")
        wrap = "nsw " if self.bounds is None else ""
        need = asm.op(f"add {wrap}i64 {length}, {count}")
        asm.branch(asm.op(f"icmp sgt i64 {need}, {capacity}"), grow, room, RARE)
        asm.label(grow)
        for k in [self.buffers[b] for b in table]:
            following = asm.name("grown")
            status = asm.op(f"call i32 @tr.grow(ptr %state{k}, i64 {need}, ptr %control)")
            asm.do(f"store i32 {status}, ptr %status")
            asm.branch(asm.op(f"icmp ne i32 {status}, 0"), "exit", following, RARE)
            asm.label(following)
            data = asm.op(f"load ptr, ptr %state{k}")
            asm.do(f"store ptr {data}, ptr %b{k}.data")
        now = asm.op(f"load i64, ptr %capacity{self.buffers[table[0]]}")
        asm.do(f"store i64 {now}, ptr %t{t}.capacity")
        asm.jump(room)
        asm.label(room)
        if self.bounds is not None:
            for k in [self.buffers[b] for b in table]:
                there = asm.op(f"load i64, ptr %capacity{k}")
                need = asm.intrinsic("smin", "i64", need, there)
            self.bounds.reserve(t, need)


def scopes(buffers: int) -> list[str]:
    """Metadata by which LLVM knows that no two buffers overlap, nor a buffer and an array: copies
    of rows become block copies. !99 names the scopes of all buffers, !100 + 2k that of buffer k,
    !101 + 2k those of all others."""
    if not buffers:
        return []
    lines = ["!10 = distinct !{!10}"]
    lines += [f"!{11 + k} = distinct !{{!{11 + k}, !10}}" for k in range(buffers)]
    lines.append(f"!99 = !{{{', '.join(f'!{11 + k}' for k in range(buffers))}}}")
    for k in range(buffers):
        others = ", ".join(f"!{11 + n}" for n in range(buffers) if n != k)
        lines += [f"!{100 + 2 * k} = !{{!{11 + k}}}", f"!{101 + 2 * k} = !{{{others}}}"]
    return lines
