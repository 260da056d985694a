"""Checked kernels: every position is compared with the length of its array before it is used.

A checked kernel gets the lengths of its arrays behind their addresses, and behind these the address
of a report. At the first position outside, it notes the array, the position and the length there,
and returns ``Status.OUT_OF_BOUNDS``; the other ranges stop as after any other failure. Growable
buffers are checked against the room that was reserved in them, which may be less than they have.
Fetching ahead is not checked: it changes nothing, and a place that does not exist is ignored.

Index arithmetic may overflow here: what LLVM may assume of positions elsewhere, it must not assume
of the positions that are to be found out.
"""

from __future__ import annotations

import ctypes

from tensorel.errors import EngineError
from tensorel.kernels.llvm.instructions import RARE, Assembler
from tensorel.kernels.loopir.statements import Kernel, Status

_Words = ctypes.c_longlong * 4


class Bounds:
    """The checks in the text of one kernel."""

    def __init__(self, asm: Assembler, kernel: Kernel) -> None:
        self.asm = asm
        self.arrays = len(kernel.arrays)
        asm.declarations["checked"] = f"; checked: {_names(kernel)}"

    @property
    def parameters(self) -> list[str]:
        """Of the function, behind the arrays."""
        return [*(f"i64 %n{k}" for k in range(self.arrays)), "ptr %report"]

    def load_parameters(self) -> list[str]:
        """Instructions that find them in the table of arrays."""
        lines = []
        for k, kind, name in [*((k, "i64", f"n{k}") for k in range(self.arrays)),
                              (self.arrays, "ptr", "report")]:
            lines.append(f"  %q{k} = getelementptr inbounds i64, ptr %arrays, "
                         f"i64 {self.arrays + k}")
            lines.append(f"  %{name} = load {kind}, ptr %q{k}")
        return lines

    def array(self, pointer: str, position: str) -> None:
        """Go on if the position is inside the array that this pointer stands for."""
        number = int(pointer.removeprefix("%a"))
        self._check(number, position, f"%n{number}")

    def table(self, t: int, length: str) -> None:
        """Go on if a record may be appended to the table."""
        self._check(self.arrays + t, length, self.asm.op(f"load i64, ptr %t{t}.room"))

    def _check(self, number: int, position: str, length: str) -> None:
        asm = self.asm
        outside, inside = asm.name("outside"), asm.name("inside")
        asm.branch(asm.op(f"icmp uge i64 {position}, {length}"), outside, inside, RARE)
        asm.label(outside)
        for what, name in ((number, "array"), (position, "at"), (length, "length")):
            asm.do(f"store i64 {what}, ptr %bad.{name}")
        asm.jump("outside")
        asm.label(inside)

    def reserve(self, t: int, need: str) -> None:
        """So many records may be in the table: what was asked for, if the buffers have it."""
        asm = self.asm
        room = asm.intrinsic("smax", "i64", asm.op(f"load i64, ptr %t{t}.room"), need)
        asm.do(f"store i64 {room}, ptr %t{t}.room")

    def report(self) -> None:
        """The block where all checks end that fail; the first of all threads is noted."""
        asm = self.asm
        asm.label("outside")
        claim = asm.op("cmpxchg ptr %report, i64 0, i64 1 seq_cst seq_cst")
        first = asm.op(f"extractvalue {{ i64, i1 }} {claim}, 1")
        asm.branch(first, "note", "stop")
        asm.label("note")
        for k, name in enumerate(("array", "at", "length"), 1):
            place = asm.op(f"getelementptr inbounds i64, ptr %report, i64 {k}")
            asm.do(f"store i64 {asm.op(f'load i64, ptr %bad.{name}')}, ptr {place}")
        asm.jump("stop")
        asm.label("stop")
        asm.do(f"store i32 {int(Status.OUT_OF_BOUNDS)}, ptr %status")
        asm.jump("exit")


class Report:
    """Where a checked kernel notes the first position outside an array. Runs of one kernel at the
    same time share it: each then tells of a position outside, perhaps of another run."""

    __slots__ = ("_kernel", "_words", "address")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._words = _Words()
        self.address = ctypes.addressof(self._words)

    def error(self) -> EngineError:
        """What it says; the next run may write here again."""
        _, number, position, length = self._words
        self._words[0] = 0
        kernel, arrays = self._kernel, self._kernel.arrays
        if number < len(arrays):
            name = str(arrays[number].data)
            what = f"array {name}, which has {length} elements"
        else:
            table = kernel.tables[number - len(arrays)]
            what = f"buffer {', '.join(b.name for b in table)}, where {length} were reserved"
        return EngineError(
            f"kernel {kernel.name}: position {position} of {what}",
            hint="a stored tensor has arrays that do not fit its format, or that were changed "
            "while it was in use; if none has, this is a bug of tensorel")


def _names(kernel: Kernel) -> str:
    """Kernels that differ by names alone have reports of their own."""
    parts = [kernel.name, *(str(a.data) for a in kernel.arrays), *(b.name for b in kernel.buffers)]
    return " ".join(ascii(p) for p in parts)
