"""Scalar expressions of a kernel as LLVM instructions.

Values are remembered per statement by node identity, since nodes are interned. A value that was
computed on a branch is forgotten at its end. ``where`` and the logical connectives evaluate an
operand on a branch if it reads memory (which may be out of range when the condition fails) or is
expensive; otherwise both sides are computed and selected, so that loops vectorize.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast as typed

from tensorel.algebra import ops
from tensorel.errors import EngineError
from tensorel.ir.nodes import BOOL, INT64, Call, Const, DType, Expr, Local, Read, Source, const
from tensorel.kernels.llvm.bounds_checks import Bounds
from tensorel.kernels.llvm.casts import cast, truth
from tensorel.kernels.llvm.instructions import PARTS, TYPES, Assembler, Value, code_of, literal
from tensorel.kernels.llvm.operators import COSTLY, lower

_RING = (ops.add, ops.subtract, ops.multiply)
_ACCUMULATING = (ops.add,)


class Expressions:
    """Lowers the expressions of one statement after another."""

    def __init__(
        self, asm: Assembler, pointers: Mapping[Source, str], locals_: Mapping[Local, Value],
        strict: bool, of_arrays: str = "", bounds: Bounds | None = None,
    ) -> None:
        self.asm = asm
        self.bounds = bounds
        self.of_arrays = of_arrays  # metadata on what is read from arrays
        self.pointers = pointers
        self.locals = locals_
        self.plain = "" if strict else "contract "
        self.chained = "" if strict else "reassoc contract "
        self.scopes: list[dict[Expr, Value]] = [{}]
        self.positions: set[Expr] = set()  # int64 arithmetic that cannot overflow
        self.chain: set[Expr] = set()  # additions that accumulate, free to be reordered
        asm.flags = self.plain

    def begin(self) -> None:
        """Start a statement: locals and memory may have changed."""
        self.scopes = [{}]
        self.positions.clear()
        self.chain.clear()

    # -- memory --------------------------------------------------------------------------------
    def address(self, array: Source, position: Expr, used: bool = True) -> str:
        """The address of an element; ``used``: what is there will be read or written."""
        pointer = self.pointers.get(array)
        if pointer is None:
            raise EngineError(f"a kernel uses the array {array.data} that it does not list")
        index = self.index(position)
        if used and self.bounds is not None:
            self.bounds.array(pointer, index)
        return self.element(pointer, array.dtype, index)

    def element(self, pointer: str, dtype: DType, index: str) -> str:
        kind = memory_type(code_of(dtype))
        return self.asm.op(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {index}")

    def index(self, position: Expr) -> str:
        """An integer expression as i64. It addresses memory, so its sums cannot overflow."""
        self._mark_position(position)
        return typed(str, self.value_as(position, INT64))

    def _mark_position(self, position: Expr) -> None:
        stack = [position] if self.bounds is None else []
        while stack:
            node = stack.pop()
            if isinstance(node, Call) and node.op in _RING and node not in self.positions:
                self.positions.add(node)
                stack.extend(node.args)

    def load(self, address: str, dtype: DType, about: str = "") -> Value:
        """``about``: what LLVM may know of the place, as metadata."""
        asm, code = self.asm, code_of(dtype)
        kind = TYPES[code]
        if code == "b1":
            return asm.op(f"icmp ne i8 {asm.op(f'load i8, ptr {address}{about}')}, 0")
        first = asm.op(f"load {kind}, ptr {address}{about}")
        if code not in PARTS:
            return first
        other = asm.op(f"getelementptr inbounds {kind}, ptr {address}, i64 1")
        return first, asm.op(f"load {kind}, ptr {other}{about}")

    def store(self, address: str, dtype: DType, value: Value, about: str = "") -> None:
        """``about``: what LLVM may know of the place, as metadata."""
        asm, code = self.asm, code_of(dtype)
        kind = TYPES[code]
        if isinstance(value, tuple):
            asm.do(f"store {kind} {value[0]}, ptr {address}{about}")
            other = asm.op(f"getelementptr inbounds {kind}, ptr {address}, i64 1")
            asm.do(f"store {kind} {value[1]}, ptr {other}{about}")
        elif code == "b1":
            byte = asm.op(f"zext i1 {value} to i8")
            asm.do(f"store i8 {byte}, ptr {address}{about}")
        else:
            asm.do(f"store {kind} {value}, ptr {address}{about}")

    def read_local(self, local: Local) -> Value:
        if local not in self.locals:
            raise EngineError(f"a kernel uses the variable {local.name} that it never sets")
        slot, kind = self.locals[local], TYPES[code_of(local.dtype)]
        if isinstance(slot, tuple):
            first, second = (self.asm.op(f"load {kind}, ptr {s}") for s in slot)
            return first, second
        return self.asm.op(f"load {kind}, ptr {slot}")

    def write_local(self, local: Local, value: Value) -> None:
        slot, kind = self.locals[local], TYPES[code_of(local.dtype)]
        if isinstance(slot, tuple):
            for place, part in zip(slot, value):
                self.asm.do(f"store {kind} {part}, ptr {place}")
        else:
            self.asm.do(f"store {kind} {value}, ptr {slot}")

    # -- statements ----------------------------------------------------------------------------
    def assign(self, target: Local, value: Expr) -> None:
        self.accumulates(value, target)
        self.write_local(target, self.value_as(value, target.dtype))

    def put(self, array: Source, position: Expr, value: Expr) -> None:
        """Store a value in an array."""
        self.accumulates(value, Read(array, (position,)))
        found = self.value_as(value, array.dtype)
        self.store(self.address(array, position), array.dtype, found)

    # -- accumulation --------------------------------------------------------------------------
    def accumulates(self, value: Expr, target: Expr) -> None:
        """Let ``target = target + e`` be reordered, also through a ``where``. Products are not:
        their parts may overflow."""
        stack, seen = [value], {value}
        while stack:
            e = stack.pop()
            if isinstance(e, Call) and e.op is ops.where:
                stack += [b for b in e.args[1:] if b not in seen]
                seen.update(e.args[1:])
            elif isinstance(e, Call) and e.op in _ACCUMULATING:
                self._mark_chain(e, e.op, target)

    def _mark_chain(self, root: Call, op: ops.Operator, target: Expr) -> None:
        parents: dict[Call, Call | None] = {root: None}
        stack = [root]
        while stack:
            node = stack.pop()
            step: Call | None = node if target in node.args else None
            while step is not None:
                self.chain.add(step)
                step = parents[step]
            for a in node.args:
                if isinstance(a, Call) and a.op is op and a not in parents:
                    parents[a] = node
                    stack.append(a)

    # -- expressions ---------------------------------------------------------------------------
    def find(self, node: Expr) -> Value | None:
        for scope in reversed(self.scopes):
            value = scope.get(node)
            if value is not None:
                return value
        return None

    def value(self, root: Expr) -> Value:
        """The value of an expression, computed in the current block."""
        stack = [root]
        while stack:
            node = stack[-1]
            if self.find(node) is not None:
                stack.pop()
                continue
            pending = [k for k in self._operands(node) if self.find(k) is None]
            if pending:
                stack.extend(reversed(pending))
            else:
                self.scopes[-1][node] = self._compute(node)
                stack.pop()
        found = self.find(root)
        assert found is not None
        return found

    def value_as(self, root: Expr, dtype: DType) -> Value:
        """The value in another dtype."""
        return cast(self.asm, self.value(root), code_of(root.dtype), code_of(dtype))

    def _operands(self, node: Expr) -> tuple[Expr, ...]:
        match node:
            case Read():
                self._mark_position(node.indices[0])
                return node.indices
            case Call():
                return node.args[:1] if self._is_lazy(node) else node.args
            case _:
                return ()

    def _is_lazy(self, node: Call) -> bool:
        if node.op is ops.where:
            return self._needs_branch(node.args[1]) or self._needs_branch(node.args[2])
        if node.op in (ops.logical_and, ops.logical_or):
            return self._needs_branch(node.args[1])
        return False

    def _needs_branch(self, root: Expr) -> bool:
        stack = [root]
        seen: set[Expr] = set()
        while stack:
            node = stack.pop()
            if node in seen or self.find(node) is not None:
                continue
            seen.add(node)
            if isinstance(node, Read):
                return True
            if isinstance(node, Call):
                if node.op.expand is not None or is_costly(node):
                    return True
                stack.extend(node.args)
        return False

    def _compute(self, node: Expr) -> Value:
        match node:
            case Const():
                return literal(node)
            case Local():
                return self.read_local(node)
            case Read(tensor=Source() as array, indices=(position,)):
                return self.load(self.address(array, position), array.dtype, self.of_arrays)
            case Call() if node.op.expand is not None:
                return self._expand(node)
            case Call() if self._is_lazy(node):
                return self._where(node) if node.op is ops.where else self._connective(node)
            case Call():
                return self._call(node)
            case _:
                raise EngineError(f"a kernel cannot evaluate {type(node).__name__}")

    def _call(self, node: Call) -> Value:
        asm = self.asm
        asm.wrap = "nsw " if node in self.positions else ""
        asm.flags = self.chained if node in self.chain else self.plain
        values = [self.value(a) for a in node.args]
        return lower(asm, node.op, [a.dtype for a in node.args], values)

    def _expand(self, node: Call) -> Value:
        """A user's operator: its traced function on temporaries that hold the arguments."""
        asm = self.asm
        into, out = node.op.resolve(*(a.dtype for a in node.args))
        temporaries = []
        for a, dtype in zip(node.args, into):
            temporary = Local(asm.name(f"{node.op.name}."), dtype)
            self.scopes[-1][temporary] = self.value_as(a, dtype)
            temporaries.append(temporary)
        assert node.op.expand is not None
        result = node.op.expand(*temporaries)
        return self.value_as(result if isinstance(result, Expr) else const(result, out), out)

    # -- branches ------------------------------------------------------------------------------
    def _branch_value(self, node: Expr, code: str, name: str, end: str) -> tuple[Value, str]:
        """``node`` in dtype ``code``, computed in its own block that goes on to ``end``."""
        asm = self.asm
        asm.label(name)
        self.scopes.append({})
        value = cast(asm, self.value(node), code_of(node.dtype), code)
        self.scopes.pop()
        asm.jump(end)
        return value, asm.block

    def _where(self, node: Call) -> Value:
        asm, code = self.asm, code_of(node.dtype)
        condition = truth(asm, code_of(node.args[0].dtype), self.value(node.args[0]))
        yes, no, end = asm.name("yes"), asm.name("no"), asm.name("both")
        asm.branch(condition, yes, no)
        first = self._branch_value(node.args[1], code, yes, end)
        second = self._branch_value(node.args[2], code, no, end)
        asm.label(end)
        return asm.phi(code, first, second)

    def _connective(self, node: Call) -> Value:
        asm, is_and = self.asm, node.op is ops.logical_and
        first = truth(asm, code_of(node.args[0].dtype), self.value(node.args[0]))
        before, more, end = asm.block, asm.name("more"), asm.name("known")
        asm.branch(first, *((more, end) if is_and else (end, more)))
        second = self._branch_value(node.args[1], "b1", more, end)
        asm.label(end)
        return asm.phi("b1", ("false" if is_and else "true", before), second)

    def condition(self, node: Expr, yes: str, no: str, weights: str = "") -> None:
        """Go to ``yes`` or ``no``; the connectives short-circuit. ``weights``: how often."""
        asm = self.asm
        if isinstance(node, Call) and node.op in (ops.logical_and, ops.logical_or):
            more = asm.name("more")
            is_and = node.op is ops.logical_and
            self.condition(node.args[0], *((more, no) if is_and else (yes, more)), weights)
            asm.label(more)
            # What the first leaf computed stays known here; what later leaves compute does not.
            self.scopes.append({})
            self.condition(node.args[1], yes, no, weights)
            self.scopes.pop()
        elif isinstance(node, Call) and node.op is ops.logical_not:
            self.condition(node.args[0], no, yes)
        else:
            value = self.value(node)
            known = value if node.dtype == BOOL else truth(asm, code_of(node.dtype), value)
            asm.branch(typed(str, known), yes, no, weights)


def is_costly(node: Call) -> bool:
    """Whether computing it in vain costs more than a branch."""
    if node.op.name not in COSTLY:
        return False
    divides = node.op in (ops.floor_divide, ops.remainder)
    return not (divides and isinstance(node.args[1], Const))


def memory_type(code: str) -> str:
    """The type of an element in memory."""
    if code == "b1":
        return "i8"
    return f"[2 x {TYPES[code]}]" if code in PARTS else TYPES[code]
