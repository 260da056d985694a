"""Loop IR to the text of an LLVM module.

The module exports one function,

    i32 @kernel(ptr arrays, ptr buffers, ptr scalars, i64 lo, i64 hi, ptr control)

arrays: pointers to the data of the physical arrays, in order. An array that the kernel writes
must not overlap any other of its arrays: each is ``noalias``.
buffers: pointers to {ptr data, i64 length, i64 capacity, i64 item size}. A kernel keeps the place
of the data in a register, and one length and capacity for each table; only growing changes what
is in memory, and the lengths are written there at the end.
scalars: slots of 8 bytes, an int64 (all integers and bool) or a double (float32 too) each; a
complex scalar takes two.
control: {i64 cancel, i64 budget in bytes}.
In the table of a checked kernel the lengths of the arrays follow, and a report (``bounds``).

Locals live in allocas of the entry block, which LLVM turns into registers.
"""

from __future__ import annotations

from tensorel.ir.build import plus
from tensorel.ir.nodes import Expr, Local
from tensorel.kernels.llvm.bounds_checks import Bounds
from tensorel.kernels.llvm.casts import cast
from tensorel.kernels.llvm.expressions import Expressions
from tensorel.kernels.llvm.growing import Tables, scopes
from tensorel.kernels.llvm.instructions import PARTS, RARE, TYPES, Assembler, Value, code_of
from tensorel.kernels.llvm.progress import announce, wait
from tensorel.kernels.llvm.vectors import VectorExpressions
from tensorel.kernels.loopir.queries import assigned, depth, is_indirect, is_short, lanes
from tensorel.kernels.loopir.statements import (
    Announce,
    Append,
    AppendReserved,
    Assign,
    Await,
    Break,
    Comment,
    Continue,
    For,
    If,
    Kernel,
    Lanes,
    Length,
    Prefetch,
    Reserve,
    Return,
    Status,
    Stmt,
    Store,
    While,
)
from tensorel.kernels.loopir.varying import varying
from tensorel.kernels.passes.reassociate import chained

#: A checked loop without loops inside looks at the cancel flag once in so many iterations.
TURNS_PER_CHECK = 1 << 14
#: One around so many loops does so where its counter is a multiple of this.
OUTER_TURNS_PER_CHECK = {1: 64, 2: 16}

_SELDOM = ", !prof !7"
_PLAIN = ", !llvm.loop !1"
_UNROLLED = ", !llvm.loop !8"
#: In vectors of so many lanes, the last of them under a mask where the processor has masks.
_MASKED = {8: ", !llvm.loop !9000", 16: ", !llvm.loop !9004"}

_FOOTER = """
attributes #0 = { nounwind mustprogress }
attributes #1 = { nounwind willreturn memory(none) }
!0 = !{!"branch_weights", i32 1, i32 100000}
!1 = distinct !{!1, !2, !3}
!2 = !{!"llvm.loop.vectorize.enable", i1 false}
!3 = !{!"llvm.loop.unroll.disable"}
!4 = !{i64 32}
!5 = !{}
!6 = !{i64 8}
!7 = !{!"branch_weights", i32 1, i32 63}
!8 = distinct !{!8, !9}
!9 = !{!"llvm.loop.unroll.full"}
!9000 = distinct !{!9000, !9001, !9002, !9003}
!9001 = !{!"llvm.loop.vectorize.predicate.enable", i1 true}
!9002 = !{!"llvm.loop.interleave.count", i32 2}
!9003 = !{!"llvm.loop.vectorize.width", i32 8}
!9004 = distinct !{!9004, !9001, !9002, !9005}
!9005 = !{!"llvm.loop.vectorize.width", i32 16}
"""


def emit(kernel: Kernel, strict: bool = False, checked: bool = False) -> str:
    """The LLVM module of a kernel. Strict: sums stay in order, nothing is contracted. Checked:
    positions are compared with the lengths of their arrays."""
    return _Emitter(kernel, strict, checked).module()


class _Emitter:
    def __init__(self, kernel: Kernel, strict: bool, checked: bool) -> None:
        self.kernel = kernel
        self.strict = strict
        self.asm = Assembler()
        self.bounds = Bounds(self.asm, kernel) if checked else None
        self.nsw = "" if checked else "nsw "
        self.entry: list[str] = []
        self.locals: dict[Local, Value] = {}
        pointers = {array: f"%a{k}" for k, array in enumerate(kernel.arrays)}
        apart = ", !noalias !99" if kernel.buffers else ""
        self.ex = Expressions(self.asm, pointers, self.locals, strict, apart, self.bounds)
        self.tables = Tables(self.ex, kernel)
        self.fixed: set[Expr] = {kernel.lo, kernel.hi, *kernel.scalars}
        self.chaining = False  # inside the loops that another was made into
        self.about = ""  # metadata of the loops inside lanes
        self.loops: list[tuple[str, str]] = []  # labels to go to on continue, on break

    # -- module --------------------------------------------------------------------------------
    def module(self) -> str:
        self._declare_locals()
        self.asm.label("start")
        self._define_parameters()
        if self.block(self.kernel.body):
            self._leave(Status.DONE)
        self._exit()
        asm, kernel, bounds = self.asm, self.kernel, self.bounds
        if bounds is not None:
            bounds.report()
        self.tables.declare()
        params = [
            f"ptr noalias{'' if str(a.data) in kernel.written else ' readonly'} %a{k}"
            for k, a in enumerate(kernel.arrays)
        ]
        params += [] if bounds is None else bounds.parameters
        params.append("ptr %buffers, ptr %scalars, i64 %lo, i64 %hi, ptr %control")
        parts = [
            *asm.declarations.values(), *asm.helpers.values(),
            f"define internal i32 @body({', '.join(params)}) noinline #0 {{", "entry:",
            *self.entry, "  br label %start", *asm.lines, "}", self._wrapper(), _FOOTER,
            *scopes(len(kernel.buffers)),
        ]
        return "\n".join(parts)

    def _wrapper(self) -> str:
        lines = ["define i32 @kernel(ptr %arrays, ptr %buffers, ptr %scalars, i64 %lo, i64 %hi, "
                 "ptr %control) #0 {", "entry:"]
        for k in range(len(self.kernel.arrays)):
            lines.append(f"  %p{k} = getelementptr inbounds ptr, ptr %arrays, i64 {k}")
            lines.append(f"  %a{k} = load ptr, ptr %p{k}")
        args = [f"ptr %a{k}" for k in range(len(self.kernel.arrays))]
        if self.bounds is not None:
            lines += self.bounds.load_parameters()
            args += self.bounds.parameters
        args.append("ptr %buffers, ptr %scalars, i64 %lo, i64 %hi, ptr %control")
        lines += [f"  %r = call i32 @body({', '.join(args)})", "  ret i32 %r", "}"]
        return "\n".join(lines)

    def _alloca(self, name: str, kind: str, first: str) -> str:
        self.entry.append(f"  {name} = alloca {kind}")
        self.entry.append(f"  store {kind} {first}, ptr {name}")
        return name

    def _declare_locals(self) -> None:
        """A slot for every local: deterministic zero before its first assignment."""
        kernel = self.kernel
        for local in (kernel.lo, kernel.hi, *kernel.scalars, *assigned(kernel.body)):
            if local not in self.locals:
                self._declare(local)

    def _declare(self, local: Local) -> None:
        k, code = len(self.locals), code_of(local.dtype)
        kind = TYPES[code]
        if code in PARTS:
            self.locals[local] = (
                self._alloca(f"%l{k}.re", kind, "0.0"), self._alloca(f"%l{k}.im", kind, "0.0")
            )
        else:
            first = "0.0" if code[0] == "f" else "0" if code != "b1" else "false"
            self.locals[local] = self._alloca(f"%l{k}", kind, first)

    def _define_parameters(self) -> None:
        kernel, asm, ex = self.kernel, self.asm, self.ex
        ex.write_local(kernel.lo, "%lo")
        ex.write_local(kernel.hi, "%hi")
        slot = 0
        for local in kernel.scalars:
            code = code_of(local.dtype)
            wide = "f8" if code[0] in "fc" else "i8"
            parts = []
            for _ in range(2 if code in PARTS else 1):
                place = asm.op(f"getelementptr inbounds i64, ptr %scalars, i64 {slot}")
                raw = asm.op(f"load {TYPES[wide]}, ptr {place}")
                parts.append(cast(asm, raw, wide, PARTS.get(code, code)))
                slot += 1
            ex.write_local(local, (str(parts[0]), str(parts[1])) if code in PARTS else parts[0])
        self.tables.load(self._alloca)
        self._alloca("%status", "i32", "0")
        if self.bounds is not None:
            for name in ("bad.array", "bad.at", "bad.length", *(
                    f"t{t}.room" for t in range(len(kernel.tables)))):
                self._alloca(f"%{name}", "i64", "0")

    def _leave(self, status: Status) -> None:
        self.asm.do(f"store i32 {int(status)}, ptr %status")
        self.asm.jump("exit")

    def _exit(self) -> None:
        asm = self.asm
        asm.label("exit")
        self.tables.write_lengths()
        asm.do(f"ret i32 {asm.op('load i32, ptr %status')}")

    # -- statements ----------------------------------------------------------------------------
    def block(self, body: tuple[Stmt, ...]) -> bool:
        """Emit statements; False if control never reaches the end."""
        for stmt in body:
            self.ex.begin()
            if not self.statement(stmt):
                return False
        return True

    def statement(self, stmt: Stmt) -> bool:
        match stmt:
            case Assign():
                self.ex.assign(stmt.target, stmt.value)
            case Store():
                self.ex.put(stmt.array, stmt.position, stmt.value)
            case For():
                self.for_(stmt)
            case Lanes():
                self.lanes(stmt)
            case While():
                self.while_(stmt)
            case If():
                return self.if_(stmt)
            case Append() | AppendReserved() | Reserve():
                self.tables.append(stmt)
            case Length():
                self.ex.write_local(stmt.target, self.tables.length(stmt.table))
            case Break() | Continue():
                self.asm.jump(self.loops[-1][isinstance(stmt, Break)])
                return False
            case Return():
                self._leave(Status.DONE)
                return False
            case Prefetch():
                place = self.ex.address(stmt.array, stmt.position, used=False)
                self.asm.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32", "")
                self.asm.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")
            case Await():
                wait(self.asm, self.ex, stmt, self._check_cancelled,
                     lambda: self._leave(Status.DONE))
            case Announce():
                announce(self.asm, self.ex, stmt)
            case Comment():
                pass
            case _:
                raise TypeError(f"unknown statement {type(stmt).__name__}")
        return True

    def if_(self, stmt: If) -> bool:
        asm = self.asm
        then, end = asm.name("then"), asm.name("endif")
        other = asm.name("else") if stmt.otherwise else end
        leaves = bool(stmt.then) and isinstance(stmt.then[-1], Return)
        self.ex.condition(stmt.condition, then, other, RARE if leaves else "")
        asm.label(then)
        reached = self.block(stmt.then)
        if reached:
            asm.jump(end)
        if stmt.otherwise:
            asm.label(other)
            if self.block(stmt.otherwise):
                asm.jump(end)
                reached = True
        else:
            reached = True
        if reached:
            asm.label(end)
        return reached

    def _check_cancelled(self, counter: str = "", every: int = 1) -> None:
        """Leave if the flag is set; looked at where the counter is such a multiple."""
        asm = self.asm
        stop, go = asm.name("cancelled"), asm.name("go")
        if every > 1:
            look, low = asm.name("look"), asm.op(f"and i64 {counter}, {every - 1}")
            asm.branch(asm.op(f"icmp eq i64 {low}, 0"), look, go, _SELDOM)
            asm.label(look)
        flag = asm.op("load atomic volatile i64, ptr %control monotonic, align 8")
        asm.branch(asm.op(f"icmp ne i64 {flag}, 0"), stop, go, RARE)
        asm.label(stop)
        self._leave(Status.CANCELLED)
        asm.label(go)

    def for_(self, stmt: For) -> None:
        made = None if self.strict or self.chaining else chained(stmt, self._fresh)
        if made is None:
            self._for(stmt)
            return
        self.chaining = True
        self.block(made)
        self.chaining = False

    def lanes(self, stmt: Lanes) -> None:
        """All turns at once; of a checked kernel one after another, each position for itself."""
        if self.bounds is not None:
            last = plus(stmt.start, stmt.count)
            self.for_(For(stmt.target, stmt.start, last, stmt.body))
            return
        self.ex.write_local(stmt.target, self.ex.index(stmt.start))
        outside, self.chaining = (self.ex, self.chaining, self.about), True
        self.ex = VectorExpressions(
            self.ex, varying(stmt.body, stmt.target), stmt.count,
            lambda kind: self._alloca(f"%{self.asm.name('x')}", kind, "zeroinitializer"))
        self.about = _PLAIN
        self.block(stmt.body)
        self.ex, self.chaining, self.about = outside

    def _fresh(self, stem: str, like: Local) -> Local:
        local = Local(self.asm.name(f"{stem}."), like.dtype)
        self._declare(local)
        return local

    def _for(self, stmt: For) -> None:
        lo = self.ex.index(stmt.lo)
        hi = self.ex.index(stmt.hi)
        if stmt.checked and not depth(stmt.body):
            self._strips(stmt, lo, hi)
        else:
            self._count(stmt, lo, hi, stmt.checked, self.asm.name("end"), "")

    def _strips(self, stmt: For, lo: str, hi: str) -> None:
        """Strips of the range with a look at the cancel flag between, so the inner loop stays
        free of it and can vectorize."""
        asm = self.asm
        head, strip, end = asm.name("strips"), asm.name("strip"), asm.name("end")
        start, at = self._head("s", lo, hi, head, strip, end)
        self._check_cancelled()
        left = asm.op(f"sub {self.nsw}i64 {hi}, {at}")
        size = asm.intrinsic("smin", "i64", left, str(TURNS_PER_CHECK))
        stop = asm.op(f"add {self.nsw}i64 {at}, {size}")
        asm.do(f"store i64 {stop}, ptr {start}")
        self._count(stmt, at, stop, False, end, head)

    def _count(self, stmt: For, lo: str, hi: str, checked: bool, end: str, after: str) -> None:
        """The loop; ``break`` goes to ``end``, the end of the range to ``after`` if given."""
        asm = self.asm
        head, body, step = asm.name("for"), asm.name("body"), asm.name("next")
        counter, now = self._head("c", lo, hi, head, body, after or end)
        if checked:
            self._check_cancelled(now, OUTER_TURNS_PER_CHECK.get(depth(stmt.body), 1))
        if stmt.apart:  # LLVM would compare the places of all turns before the first
            hidden = self._alloca(f"%{asm.name('h')}", "i64", "0")
            asm.do(f"store volatile i64 {now}, ptr {hidden}")
            now = asm.op(f"load volatile i64, ptr {hidden}")
        self.ex.write_local(stmt.target, cast(asm, now, "i8", code_of(stmt.target.dtype)))
        self.loops.append((step, end))
        if self.block(stmt.body):
            asm.jump(step)
        self.loops.pop()
        asm.label(step)
        old = asm.op(f"load i64, ptr {counter}")
        asm.do(f"store i64 {asm.op(f'add {self.nsw}i64 {old}, 1')}, ptr {counter}")
        about = _UNROLLED if is_short(stmt) else self.about or _PLAIN \
            if self.about or is_indirect(stmt.body) else \
            _MASKED.get(0 if self.strict or self.bounds else lanes(stmt, self.fixed), "")
        asm.do(f"br label %{head}{about}")
        asm.label(end)

    def _head(self, stem: str, lo: str, hi: str, head: str, inside: str, end: str
              ) -> tuple[str, str]:
        """The head of a loop that counts from lo while below hi, and the start of what is inside:
        the slot of the counter, and its value."""
        asm = self.asm
        slot = self._alloca(f"%{asm.name(stem)}", "i64", "0")
        asm.do(f"store i64 {lo}, ptr {slot}")
        asm.jump(head)
        asm.label(head)
        now = asm.op(f"load i64, ptr {slot}")
        asm.branch(asm.op(f"icmp slt i64 {now}, {hi}"), inside, end)
        asm.label(inside)
        return slot, now

    def while_(self, stmt: While) -> None:
        asm = self.asm
        head, body, end = asm.name("while"), asm.name("body"), asm.name("end")
        asm.jump(head)
        asm.label(head)
        if stmt.checked:
            self._check_cancelled()
        self.ex.begin()
        self.ex.condition(stmt.condition, body, end)
        asm.label(body)
        self.loops.append((head, end))
        if self.block(stmt.body):
            asm.jump(head)
        self.loops.pop()
        asm.label(end)
