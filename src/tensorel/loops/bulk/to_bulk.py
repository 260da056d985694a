"""Nests of loops to tensors of the calculus, where no turn needs another's result.

A nest is done statement by statement (``dependences``): an array that is written becomes a new
tensor over all its cells, a variable inside a turn a formula of the counters, and what is added up
over turns a reduction. ``NotBulk`` says what stands against it; then the statements run in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tensorel.algebra import ops
from tensorel.algebra.ops import INT64, DType, Operator
from tensorel.ir import nodes as ir
from tensorel.ir.build import both, compare, convert, minus, modulo, plus, times
from tensorel.ir.replacing import substitute
from tensorel.language.canonical_names import canonical
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.bulk.accumulation import Accumulation, accumulation, sums_of
from tensorel.loops.bulk.bulk_expressions import BulkExpressions, NotBulk, Values
from tensorel.loops.bulk.dependences import Access, Counter, Linear, is_injective
from tensorel.loops.types import PY_INT, Scalar
from tensorel.loops.typing import Typing
from tensorel.loops.wrong import call


class Turn:
    """The innermost loop at a place. ``sums``: variables that its turns only add to, with what they
    add (``pending``); ``base``: how many tests stand outside of it."""

    def __init__(self, sums: Mapping[str, Operator], base: int) -> None:
        self.sums = sums
        self.base = base
        self.pending: dict[str, list[ir.Expr]] = {}


class Nest(BulkExpressions):
    """A statement at the top of a program, as bulk statements."""

    def __init__(self, typing: Typing, facts: Facts, values: Values,
                 shapes: Mapping[str, tuple[int, ...]], later: frozenset[str] = frozenset()
                 ) -> None:
        super().__init__(typing, facts, values, shapes)
        self.later = later  # variables that are read after the nest
        self.guards: list[ir.Expr] = []
        self.turn = Turn({}, 0)
        self.count = 0
        self.work = 1  # turns of the longest nest
        self.adds_up = False

    def run(self, stmt: syntax.Stmt) -> Values:
        """What variables hold after the statement."""
        self.statement(stmt)
        for name, found in self.locals.items():
            self.values.numbers.pop(name, None)
            self.values.scalars.pop(name, None)
            if found is not None:
                self.values.scalars[name] = ir.Lambda((), canonical((), found))
            elif name in self.later:
                raise NotBulk(f"{name} is used after the loop")
        return self.values

    # -- statements --------------------------------------------------------------------------
    def block(self, body: Sequence[syntax.Stmt]) -> None:
        for k, stmt in enumerate(body):
            if isinstance(stmt, syntax.If) and stmt.then and not stmt.other and isinstance(
                    stmt.then[-1], syntax.Continue):
                self.if_(stmt.test, stmt.then[:-1], body[k + 1 :])
                return
            self.statement(stmt)

    def statement(self, stmt: syntax.Stmt) -> None:
        match stmt:
            case syntax.For():
                self.for_(stmt)
            case syntax.If():
                self.if_(stmt.test, stmt.then, stmt.other)
            case syntax.Store():
                self.store(stmt)
            case syntax.Assign() if isinstance(self.typing.names[stmt.name], Scalar):
                self.assign(stmt)
            case _:
                raise NotBulk(f"line {stmt.line} leaves the loop, or sets no entry")

    def assign(self, stmt: syntax.Assign) -> None:
        t = self.typing.names[stmt.name]
        assert isinstance(t, Scalar)
        if stmt.name in self.turn.sums:
            found = accumulation(stmt, self.typing)
            assert found is not None
            if t == PY_INT and (found.op is ops.multiply or (
                    found.op is ops.add and not self.has(found.value, Fact.INT32))):
                raise NotBulk(f"what {stmt.name} adds up may not fit 64 bits")
            self.contribute(stmt.name, self.combined(found, t.dtype), found.op)
            return
        value = self.joined(stmt.value, t)
        form = self.linear(stmt.value) if t.dtype.kind == "i" else None
        self.set(stmt.name, value, form)

    def set(self, name: str, value: ir.Expr | None, form: Linear | None = None) -> None:
        self.locals[name] = value
        self.forms.pop(name, None)
        if form is not None:
            self.forms[name] = form

    def contribute(self, name: str, value: ir.Expr, op: Operator) -> None:
        """Every turn adds this to a variable of outside."""
        for guard in self.guards[self.turn.base :]:
            value = ir.Call(ops.where, (guard, value, self.identity(op, value.dtype)))
        self.turn.pending.setdefault(name, []).append(value)

    def combined(self, found: Accumulation, dtype: DType) -> ir.Expr:
        """What is combined, in the dtype of the result; a nan that Python's min and max pass over
        is the identity."""
        value = convert(self.value(found.value), dtype)
        if found.negated:
            value = call(ops.negative, value)
        if found.skips_nan and dtype.kind == "f":
            is_number = compare(ops.equal, value, value)
            value = ir.Call(ops.where, (is_number, value, self.identity(found.op, dtype)))
        return value

    @staticmethod
    def identity(op: Operator, dtype: DType) -> ir.Expr:
        assert op.identity is not None
        return ir.const(op.identity(dtype), dtype)

    @staticmethod
    def together(op: Operator, old: ir.Expr, new: ir.Expr) -> ir.Expr:
        if op is ops.add and isinstance(old, ir.Const) and old.value == 0:
            return new
        return ir.Call(op, (old, new))

    def if_(self, test: syntax.Expr, then: Sequence[syntax.Stmt],
            other: Sequence[syntax.Stmt]) -> None:
        holds = self.truth(test)
        before, forms = dict(self.locals), dict(self.forms)
        ways: list[dict[str, ir.Expr | None]] = []
        for body, guard in ((then, holds), (other, call(ops.logical_not, holds))):
            self.locals, self.forms = dict(before), dict(forms)
            self.guards.append(guard)
            self.block(body)
            self.guards.pop()
            ways.append(self.locals)
        self.locals, self.forms = before, forms
        for name in {**ways[0], **ways[1]}:
            a, b = [self.known(w, name) for w in ways]
            if a is not before.get(name) or b is not before.get(name):
                merged = None if a is None or b is None else ir.Call(ops.where, (holds, a, b))
                self.set(name, merged)

    def known(self, way: Mapping[str, ir.Expr | None], name: str) -> ir.Expr | None:
        """What a variable holds at the end of a branch."""
        return way[name] if name in way else self.outside(name)

    # -- loops -------------------------------------------------------------------------------
    def for_(self, stmt: syntax.For) -> None:
        if stmt.target in self.counters or stmt.target in syntax.assigned_names(stmt.body):
            raise NotBulk(f"{stmt.target} in line {stmt.line} is set in the loop")
        by, first, last = map(self.linear, (stmt.step, stmt.start, stmt.stop))
        if by is None or by.terms or not by.constant:
            raise NotBulk(f"the step in line {stmt.line} is not known")
        if first is None or last is None:
            raise NotBulk(f"the range in line {stmt.line} is not affine")
        step = by.constant
        last = last.plus(Linear(1), -1 if step > 0 else 1)
        low, high = (first, last) if step > 0 else (last, first)
        if not low.terms and not high.terms:
            turns = range(first.constant, last.constant + (1 if step > 0 else -1), step)
            if not turns:
                return
            low, high = Linear(min(turns[0], turns[-1])), Linear(max(turns[0], turns[-1]))
        self.count += 1
        counter = Counter(f"v{self.count}", low.span[0], high.span[1], 1 if step > 0 else -1,
                          stmt.line)
        if counter.high < counter.low:
            return
        at, guards = self.position(counter), []
        if low.terms:
            guards.append(compare(ops.less_equal, self.formula(low), at))
        if high.terms:
            guards.append(compare(ops.less_equal, at, self.formula(high)))
        if abs(step) > 1:
            rest = modulo(minus(at, self.formula(first)), abs(step))
            guards.append(compare(ops.equal, rest, 0))
        self.turns(stmt, counter, guards)

    def formula(self, form: Linear) -> ir.Expr:
        found: ir.Expr = ir.const(form.constant, INT64)
        for counter, c in form.terms:
            found = plus(times(self.position(counter), c), found)
        return found

    def turns(self, stmt: syntax.For, counter: Counter, guards: Sequence[ir.Expr]) -> None:
        """The body in all turns; then what it has added up goes to variables of outside, and what
        else it has set is that of the last turn, which is not known."""
        outer, height = self.turn, len(self.guards)
        turn = self.turn = Turn(sums_of(stmt.body, self.typing), height)
        names = syntax.assigned_names(stmt.body).keys() - turn.sums.keys()
        for name in names:
            self.set(name, None)
        self.guards += guards
        self.loops += (counter,)
        self.counters[stmt.target] = counter
        self.work = max(self.work, prod([v.high - v.low + 1 for v in self.loops]))
        self.block(stmt.body)
        del self.counters[stmt.target]
        self.loops = self.loops[:-1]
        del self.guards[height:]
        self.turn = outer
        for name in (*names, stmt.target):
            self.set(name, None)
        axis = (ir.Axis(counter.name, counter.high - counter.low + 1),)
        for name, values in turn.pending.items():
            op = turn.sums[name]
            whole = values[0]
            for v in values[1:]:
                whole = ir.Call(op, (whole, v))
            total = ir.Reduce(op, axis, whole)
            self.adds_up = True
            if name in outer.sums:
                self.contribute(name, total, op)
            else:
                old = self.held(name, stmt.line)
                if op is ops.add and self.typing.names[name] == PY_INT and not _is_small(old):
                    raise NotBulk(f"what {name} adds up may not fit 64 bits")
                self.set(name, self.together(op, old, total))

    # -- arrays ------------------------------------------------------------------------------
    def store(self, stmt: syntax.Store) -> None:
        """The array with the entries of all turns."""
        old = self.array(stmt.array, stmt.line)
        place = self.linears(stmt.array, stmt.indices)
        self.place(stmt.array, stmt.indices)
        if is_injective(place, self.loops):
            value = self.stored(stmt.value, old.dtype)
            self.access(Access(stmt.array, place, self.loops, True, stmt.line))
            self.values.arrays[stmt.array] = self.written(stmt, place, value, None)
            return
        found = accumulation(stmt, self.typing)
        if found is None:
            raise NotBulk(f"{stmt.array} in line {stmt.line} is set by several turns")
        made = self.typing.number(stmt.value).dtype
        if made != old.dtype and {made.kind, old.dtype.kind} != {"f"}:
            raise NotBulk(f"{stmt.array} in line {stmt.line} rounds what it adds up")
        value = self.combined(found, old.dtype)
        self.access(Access(stmt.array, place, self.loops, True, stmt.line, found.op.name))
        self.values.arrays[stmt.array] = self.written(stmt, place, value, found.op)

    def written(self, stmt: syntax.Store, place: Sequence[Linear | None], value: ir.Expr,
                op: Operator | None) -> ir.Tensor:
        """The cells of an array: those that some turn sets, and the others as they were."""
        shape = self.shapes[stmt.array]
        cells = [ir.Index(f"i{k}") for k in range(len(shape))]
        solved, guards = self.solved(stmt, place, cells, shape)
        rest = [v for v in self.loops if v.name not in solved]
        inner: list[ir.Expr] = []
        for g in self.guards:
            g = substitute(g, solved)
            (inner if op and g.free & {v.name for v in rest} else guards).append(g)
        value = substitute(value, solved)
        old = self.cell(self.values.arrays[stmt.array], cells)
        if op is not None:
            test = both(*inner)
            if test is not None:
                value = ir.Call(ops.where, (test, value, self.identity(op, value.dtype)))
            axes = tuple([ir.Axis(v.name, v.high - v.low + 1) for v in rest])
            value = self.together(op, old, ir.Reduce(op, axes, value))
            self.adds_up = True
        test = both(*guards)
        if test is not None:
            value = ir.Call(ops.where, (test, value, old))
        axes = tuple([ir.Axis(c.name, n) for c, n in zip(cells, shape)])
        return ir.Lambda(axes, canonical(tuple([c.name for c in cells]), value))

    @staticmethod
    def cell(node: ir.Tensor, cells: Sequence[ir.Expr]) -> ir.Expr:
        if isinstance(node, ir.Lambda) and isinstance(node.body, ir.Const):
            return node.body
        return ir.Read(node, tuple(cells))

    def solved(self, stmt: syntax.Store, place: Sequence[Linear | None],
               cells: Sequence[ir.Expr], shape: Sequence[int]
               ) -> tuple[dict[str, ir.Expr], list[ir.Expr]]:
        """Which turn sets a cell, and the tests that there is one."""
        found: dict[str, ir.Expr] = {
            v.name: ir.const(0, INT64) for v in self.loops if v.low == v.high}
        guards: list[ir.Expr] = []
        for form, cell, n in zip(place, cells, shape):
            if form is None or len(form.terms) > 1 or any(abs(c) > 1 for _, c in form.terms):
                raise NotBulk(f"the place of {stmt.array} in line {stmt.line} is irregular")
            if not form.terms or form.terms[0][0].name in found:
                at = substitute(self.formula(form), found)
                if n > 1 or not isinstance(at, ir.Const):
                    guards.append(compare(ops.equal, cell, at))
                continue
            ((v, c),) = form.terms
            turn = minus(cell, form.constant + v.low) if c > 0 else \
                minus(form.constant - v.low, cell)
            found[v.name] = turn
            ends = sorted((form.constant + c * v.low, form.constant + c * v.high))
            if ends[0] > 0:
                guards.append(compare(ops.greater_equal, cell, ends[0]))
            if ends[1] < n - 1:
                guards.append(compare(ops.less_equal, cell, ends[1]))
        return found, guards


_SMALL = 2**62


def _is_small(e: ir.Expr) -> bool:
    """Whether a whole number is known to be far from the ends of 64 bits: what is calculated here
    is, and sums of small numbers are, so what is read counts."""
    stack = [e]
    while stack:
        match stack.pop():
            case ir.Const(value=value):
                if abs(int(value)) > _SMALL:
                    return False
            case ir.Call(op=ops.where, args=(_, a, b)):
                stack += [a, b]
            case ir.Call(args=args):
                stack += args
            case ir.Reduce(op=op, body=body):
                if op is not ops.add:
                    stack.append(body)
            case ir.Read(tensor=ir.Lambda(axes=(), body=body)):
                stack.append(body)
            case ir.Read() as read:
                if read.dtype.itemsize == INT64.itemsize:
                    return False
    return True
