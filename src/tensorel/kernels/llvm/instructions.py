"""The text of one LLVM function body, instruction by instruction, and of what it calls.

A value is a register or a literal; a complex value is a pair of them. A dtype is named by its
code: NumPy's ``dtype.str`` without the byte order (``b1``, ``i4``, ``u8``, ``f8``, ``c16``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tensorel.ir.nodes import Const, DType

Value = str | tuple[str, str]

#: LLVM type in registers; of one part for complex dtypes.
TYPES = {
    "b1": "i1", "i1": "i8", "u1": "i8", "i2": "i16", "u2": "i16", "i4": "i32", "u4": "i32",
    "i8": "i64", "u8": "i64", "f4": "float", "f8": "double", "c8": "float", "c16": "double",
}
#: Dtype of one part of a complex dtype.
PARTS = {"c8": "f4", "c16": "f8"}
#: Suffixes of intrinsics.
SUFFIXES = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "float": "f32", "double": "f64"}

#: Of a branch that is hardly ever taken; the module's footer says how rarely.
RARE = ", !prof !0"
#: Pure functions of libm: no effects that a kernel could see, so loops with them may move.
PURE = "#1"


def code_of(dtype: DType) -> str:
    return dtype.str[1:]


def literal_float(value: float) -> str:
    """LLVM's exact spelling of a float (also of a float32, which it wants as a double)."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def literal(node: Const) -> Value:
    """The spelling of a literal of the calculus."""
    kind, value = node.dtype.kind, node.value
    if kind == "b":
        return "true" if value else "false"
    if kind in "iu":
        return str(int(value))
    if kind == "c":
        return literal_float(float(value.real)), literal_float(float(value.imag))
    return literal_float(float(value))


def literal_int(value: str) -> int | None:
    """The number that an integer literal stands for, None for a register."""
    return int(value) if value.lstrip("-").isdigit() else None


def by_parts(one: Callable[..., str], *args: Value) -> Value:
    """What is done to numbers; of complex ones, to the real parts and to the imaginary parts."""
    if isinstance(args[0], tuple):
        return one(*[a[0] for a in args]), one(*[a[1] for a in args])
    return one(*args)


class Assembler:
    """Collects instructions; ``flags`` and ``wrap`` are the attributes of the next arithmetic.

    flags: fast-math flags of float additions and multiplications ("" or e.g. "contract ").
    wrap: "nsw " where int64 arithmetic cannot overflow because it computes a position.
    """

    def __init__(self, flags: str = "") -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.flags = flags
        self.wrap = ""
        self.block = "entry"
        self._names = 0

    def name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def op(self, text: str) -> str:
        """An instruction with a result; its register."""
        self._names += 1
        register = f"%v{self._names}"
        self.lines.append(f"  {register} = {text}")
        return register

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, name: str) -> None:
        self.lines.append(f"  br label %{name}")

    def branch(self, condition: str, yes: str, no: str, weights: str = "") -> None:
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}{weights}")

    def declare(self, name: str, result: str, types: str, attributes: str = PURE) -> None:
        self.declarations[name] = f"declare {result} @{name}({types}) {attributes}"

    def intrinsic(self, name: str, kind: str, *args: str, more: str = "", flags: str = "") -> str:
        """A call of ``llvm.name`` overloaded on one type that all its arguments have."""
        full = f"llvm.{name}.{SUFFIXES[kind]}"
        extra = f", {more}" if more else ""
        types = ", ".join([kind] * len(args)) + (f", {more.split()[0]}" if more else "")
        self.declare(full, kind, types, "")
        passed = ", ".join(f"{kind} {a}" for a in args)
        return self.op(f"call {flags}{kind} @{full}({passed}{extra})")

    def libm(self, name: str, kind: str, *args: str) -> str:
        """A call of a real function of the C library, in float or double."""
        full = name + "f" if kind == "float" else name
        self.declare(full, kind, ", ".join([kind] * len(args)))
        return self.op(f"call {kind} @{full}({', '.join(f'{kind} {a}' for a in args)})")

    def pair_call(self, name: str, *args: str) -> tuple[str, str]:
        """A call of a complex double function: parts in two registers each way."""
        types = ", ".join(["double"] * len(args))
        if name not in self.helpers:
            self.declare(name, "{double, double}", types)
        passed = ", ".join(f"double {a}" for a in args)
        both = self.op(f"call {{double, double}} @{name}({passed})")
        return (
            self.op(f"extractvalue {{double, double}} {both}, 0"),
            self.op(f"extractvalue {{double, double}} {both}, 1"),
        )

    def helper_call(self, name: str, text: str, kind: str, *args: str) -> str:
        """A call of a function of our own whose definition travels with the kernel."""
        self.helpers[name] = text
        return self.op(f"call {kind} @{name}({', '.join(f'{kind} {a}' for a in args)})")

    def select(self, code: str, condition: str, yes: Value, no: Value) -> Value:
        kind = TYPES[code]
        return by_parts(lambda a, b: self.op(
            f"select i1 {condition}, {kind} {a}, {kind} {b}"), yes, no)

    def phi(self, code: str, first: tuple[Value, str], second: tuple[Value, str]) -> Value:
        """The value that arrives from one of two blocks."""
        kind, (a, from_a), (b, from_b) = TYPES[code], first, second
        return by_parts(lambda x, y: self.op(
            f"phi {kind} [ {x}, %{from_a} ], [ {y}, %{from_b} ]"), a, b)
