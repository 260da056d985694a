"""Writing Loop IR: blocks, locals, parameters, arrays and buffers of one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass, field
from tensorel.ir.given import lifted
from tensorel.ir.nodes import INT64, Const, DType, Expr, Local, Reduce, Source, postorder
from tensorel.kernels.loopir.statements import Assign, Buffer, Kernel, Stmt, Table, array
from tensorel.kernels.lowering.nest import Nest


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the caller passes to the kernel: (slot name, array name) per array, extents and
    literals per scalar."""

    arrays: tuple[tuple[str, str], ...]
    scalars: tuple[tuple[str, object], ...]


@dataclass(eq=False)
class Emission:
    """The parts of a kernel that is being written."""

    nest: Nest
    strict: bool = False
    counter: int = 0
    blocks: list[list[Stmt]] = field(default_factory=lambda: [[]])
    bound: dict[str, Expr] = field(default_factory=dict)
    arrays: dict[str, tuple[str, str]] = field(default_factory=dict)
    array_nodes: dict[str, Source] = field(default_factory=dict)
    own_arrays: dict[str, Source] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    tables: list[Table] = field(default_factory=list)
    scalars: dict[str, tuple[Local, object]] = field(default_factory=dict)
    done_reductions: dict[Reduce, Expr] = field(default_factory=dict)
    open_reductions: set[Reduce] = field(default_factory=set)
    #: inside a cell, where loops and guards no longer decide which cells are delivered
    in_cell: bool = False
    #: the innermost statement takes a condition instead of standing under one
    selects: bool = False
    condition: Expr | None = None
    #: some cells may not be delivered: a loop outside cells was led, guarded or empty
    partial: bool = False
    #: told before each loop: its index, and how many iterations it has at most (None: unknown)
    announce: Callable[[str, Expr | None], None] = field(default=lambda name, count: None)
    #: told of a loop over entries; the second gives its index so many steps on
    approach: Callable[[str, Callable[[int], Expr]], None] = field(default=lambda name, at: None)

    def __post_init__(self) -> None:
        self.extents = dict(self.nest.extents)
        for e in postorder(self.nest.body, *(let.body for let in self.nest.lets)):
            if isinstance(e, Reduce):
                self.extents.update({a.name: a.extent for a in e.axes})
        self.lo, self.hi = Local("lo", INT64), Local("hi", INT64)

    def emit(self, statement: Stmt) -> None:
        self.blocks[-1].append(statement)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        body: list[Stmt] = []
        self.blocks.append(body)
        try:
            yield body
        finally:
            self.blocks.pop()

    def fresh(self, hint: str, dtype: DType = INT64) -> Local:
        self.counter += 1
        return Local(f"{hint}_{self.counter}", dtype)

    def let(self, hint: str, value: Expr) -> Expr:
        """A local that holds ``value``; literals and locals stay as they are."""
        if isinstance(value, (Const, Local)):
            return value
        target = self.fresh(hint, value.dtype)
        self.emit(Assign(target, value))
        return target

    def scalar(self, name: str, dtype: DType, value: object) -> Local:
        """A parameter of the kernel."""
        if name not in self.scalars:
            self.scalars[name] = (Local(name, dtype), value)
        return self.scalars[name][0]

    def extent(self, name: str) -> Local:
        return self.scalar(f"n_{name}", INT64, self.extents[name])

    def literal(self, c: Const) -> Expr:
        """Literals that are not special become parameters, so kernels serve all values."""
        if c.dtype not in (INT64, ops.FLOAT64) or lifted(_is_special, c.value):
            return c
        for local, value in self.scalars.values():
            if value is c:
                return local
        return self.scalar(f"c{len(self.scalars)}", c.dtype, c)

    def own_array(self, name: str, dtype: DType) -> Source:
        """An output or workspace array that the caller allocates."""
        node = array(name, dtype)
        self.own_arrays[name] = node
        self.written.add(name)
        return node

    def table(self, *columns: tuple[str, DType]) -> Table:
        """Growable outputs that are appended to together."""
        found = tuple(Buffer(name, dtype) for name, dtype in columns)
        self.tables.append(found)
        return found

    def is_bound(self, e: Expr) -> bool:
        return all(name in self.bound for name in e.free)

    def kernel(self, name: str, body: list[Stmt]) -> tuple[Kernel, Bindings]:
        """The finished kernel; only the arrays that it uses are parameters."""
        used = arrays_used(body)
        names = [n for n in self.array_nodes if n in used]
        own = [n for n in self.own_arrays if n in used or n in self.written]
        inputs = tuple(self.array_nodes[n] for n in names)
        kernel = Kernel(
            name, inputs + tuple(self.own_arrays[n] for n in own), frozenset(own),
            tuple(self.tables), tuple(s for s, _ in self.scalars.values()),
            self.lo, self.hi, tuple(body),
        )
        arrays = tuple(self.arrays[n] for n in names) + tuple(("", n) for n in own)
        scalars = tuple(
            (n, v.value.item() if isinstance(v, Const) else v)
            for n, (_, v) in self.scalars.items()
        )
        return kernel, Bindings(arrays, scalars)


def _is_special(value: ops.Scalar) -> bool:
    """Whether kernels are written for the number."""
    return bool(value in (0, 1, -1, 2) or not np.isfinite(value))


def arrays_used(body: list[Stmt]) -> set[str]:
    """Names of arrays that statements read or write."""
    names: set[str] = set()
    stack: list[object] = list(body)
    while stack:
        s = stack.pop()
        if isinstance(s, tuple):
            stack.extend(s)
        elif isinstance(s, Expr):
            names.update([str(t.data) for t in s.reads])  # type: ignore[attr-defined]
        elif isinstance(s, Source):
            names.add(str(s.data))
        elif isinstance(s, Stmt):
            stack.extend(getattr(s, f.name) for f in fields(s))  # type: ignore[arg-type]
    return names
