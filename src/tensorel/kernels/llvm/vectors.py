"""Expressions of many turns of a loop at once: vectors for what differs from turn to turn, scalars
for the rest (``loopir.varying`` says which is which, and that all operators here have vectors)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast as typed

from tensorel.algebra import ops
from tensorel.ir.nodes import Call, Const, DType, Expr, Local, Read, Source
from tensorel.kernels.llvm.expressions import Expressions, memory_type
from tensorel.kernels.llvm.instructions import SUFFIXES, TYPES, Value, code_of
from tensorel.kernels.llvm.operators import instruction, intrinsic
from tensorel.kernels.loopir.varying import Varying

#: What truth values are combined by; "not" is "xor" with true.
_LOGIC = {
    ops.add: "or", ops.maximum: "or", ops.logical_or: "or", ops.bitwise_or: "or",
    ops.multiply: "and", ops.minimum: "and", ops.logical_and: "and", ops.bitwise_and: "and",
    ops.logical_xor: "xor", ops.bitwise_xor: "xor", ops.logical_not: "xor",
}

Slot = Callable[[str], str]  # room for a value of an LLVM type


class VectorExpressions(Expressions):
    """Lowers the statements of a ``Lanes``, whose places are those of its first turn."""

    def __init__(self, outer: Expressions, varying: Varying, lanes: int, slot: Slot) -> None:
        super().__init__(outer.asm, outer.pointers, dict(outer.locals), not outer.plain,
                         outer.of_arrays)
        self.varying, self.lanes = varying, lanes
        self.locals = {**self.locals, **{
            x: slot(self._type(TYPES[code_of(x.dtype)])) for x in varying.vectors}}

    def _type(self, kind: str) -> str:
        return f"<{self.lanes} x {kind}>"

    def accumulates(self, value: Expr, target: Expr) -> None:
        """Each lane adds its terms in the order in which they are written."""

    # -- statements ----------------------------------------------------------------------------
    def assign(self, target: Local, value: Expr) -> None:
        if target in self.varying.vectors:
            kind = self._type(TYPES[code_of(target.dtype)])
            self.asm.do(f"store {kind} {self.vector(value)}, ptr {self.locals[target]}")
        else:
            super().assign(target, value)

    def put(self, array: Source, position: Expr, value: Expr) -> None:
        found, code = self.vector(value), code_of(array.dtype)
        address = self.address(array, position)
        kind = memory_type(code)
        if code == "b1":
            found = self.asm.op(f"zext {self._type('i1')} {found} to {self._type(kind)}")
        self.asm.do(f"store {self._type(kind)} {found}, ptr {address}, "
                    f"align {array.dtype.itemsize}")

    # -- values --------------------------------------------------------------------------------
    def vector(self, e: Expr) -> str:
        """The value in all lanes."""
        value = typed(str, self.value(e))
        return value if self.varying.differs(e) else self._spread(value, e.dtype)

    def _spread(self, value: str, dtype: DType) -> str:
        kind = TYPES[code_of(dtype)]
        first = self.asm.op(f"insertelement {self._type(kind)} poison, {kind} {value}, i32 0")
        return self.asm.op(f"shufflevector {self._type(kind)} {first}, {self._type(kind)} poison, "
                           f"{self._type('i32')} zeroinitializer")

    def _is_lazy(self, node: Call) -> bool:
        return not self.varying.differs(node) and super()._is_lazy(node)

    def _compute(self, node: Expr) -> Value:
        if isinstance(node, Const) or not self.varying.differs(node):
            return super()._compute(node)
        match node:
            case Local():
                kind = self._type(TYPES[code_of(node.dtype)])
                return self.asm.op(f"load {kind}, ptr {self.locals[node]}")
            case Read(tensor=Source() as array, indices=(position,)):
                return self._load(array, position)
            case Call():
                return self._vector_call(node)
            case _:
                raise TypeError(f"no vector of {type(node).__name__}")

    def _load(self, array: Source, position: Expr) -> str:
        address, code = self.address(array, position), code_of(array.dtype)
        found = self.asm.op(f"load {self._type(memory_type(code))}, ptr {address}, "
                            f"align {array.dtype.itemsize}{self.of_arrays}")
        if code != "b1":
            return found
        return self.asm.op(f"icmp ne {self._type('i8')} {found}, zeroinitializer")

    def _vector_call(self, node: Call) -> str:
        args = [self.vector(a) for a in node.args]
        codes = [code_of(a.dtype) for a in node.args]
        if node.op.name.startswith("cast_"):
            return self._cast(args[0], codes[0], code_of(node.dtype))
        if node.op is ops.where:
            kind = self._type(TYPES[code_of(node.dtype)])
            return self.asm.op(f"select {self._type('i1')} {args[0]}, {kind} {args[1]}, "
                               f"{kind} {args[2]}")
        kind = self._type(TYPES[codes[0]])
        if node.op is ops.isnan:
            return self.asm.op(f"fcmp uno {kind} {args[0]}, {args[0]}")
        if codes[0] == "b1":
            args += [self._spread("true", node.dtype)] * (len(args) == 1)
            return self.asm.op(f"{_LOGIC[node.op]} {kind} {args[0]}, {args[1]}")
        text = instruction(node.op, codes[0][0])
        if text is None:
            return self._intrinsic(intrinsic(node.op, codes[0][0]), TYPES[codes[0]], args)
        return self.asm.op(text.format(k=kind, f=self.plain, w="", a=args[0], b=args[-1]))

    def _intrinsic(self, name: str, scalar: str, args: list[str]) -> str:
        kind = self._type(scalar)
        full = f"llvm.{name}.v{self.lanes}{SUFFIXES[scalar]}"
        self.asm.declare(full, kind, ", ".join([kind] * len(args)), "")
        flags = "nsz " if name in ("minimum", "maximum") else ""
        return self.asm.op(f"call {flags}{kind} @{full}({', '.join(f'{kind} {a}' for a in args)})")

    def _cast(self, value: str, source: str, target: str) -> str:
        old, new = TYPES[source], TYPES[target]
        if old == new:
            return value
        if source[0] == "f":
            word = "fpext" if old == "float" else "fptrunc"
        elif target[0] == "f":
            word = "sitofp" if source[0] == "i" else "uitofp"
        elif int(new[1:]) < int(old[1:]):
            word = "trunc"
        else:
            word = "sext" if source[0] == "i" else "zext"
        return self.asm.op(f"{word} {self._type(old)} {value} to {self._type(new)}")
