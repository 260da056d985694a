"""The source of a Python function to statements."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorel.errors import UnsupportedError
from tensorel.loops.origin import Origin
from tensorel.loops.sources.python_expressions import Expressions
from tensorel.loops.syntax import (
    Apply,
    Assign,
    Body,
    Break,
    Continue,
    Expr,
    Extent,
    For,
    If,
    Item,
    Name,
    Number,
    Return,
    Stmt,
    Store,
    While,
    number,
    operands,
    subexpressions,
    walk,
)

Outside = Mapping[str, object]


def origin_of(function: Callable[..., Any]) -> Origin:
    """The source of a function, as it stands in its file."""
    name = getattr(function, "__name__", "loops")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise UnsupportedError(
            f"{name}: the source of this function cannot be read",
            hint="loops are compiled from source: write the function in a file or a notebook") \
            from error
    return Origin(name, "".join(lines), max(first, 1), inspect.getfile(function))


def outside_of(function: Callable[..., Any]) -> dict[str, object]:
    """What the names mean that the function does not bind itself."""
    found = inspect.getclosurevars(function)
    return {**found.builtins, **found.globals, **found.nonlocals}


def statements(origin: Origin, outside: Outside) -> tuple[tuple[str, ...], Body]:
    """The parameters and the body of the function in this source."""
    tree = ast.parse(textwrap.dedent(origin.text))
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        origin.refuse("loops are compiled from functions made by def", origin.first)
    args = found.args
    if args.vararg or args.kwarg:
        origin.refuse("*args and **kwargs are not supported", origin.first)
    names = tuple([a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)])
    reader = _Reader(origin, outside, names)
    reader.scope = _bound_names(found) | set(names)
    return names, reader.block(found.body)


def numbers_in(body: Body) -> tuple[object, ...]:
    """The numbers in a program, some of which come from outside of its text."""
    found = [e.value for stmt in walk(body) for e in subexpressions(*operands(stmt))
             if isinstance(e, Number)]
    return tuple([(type(v), repr(v)) for v in found])


def _bound_names(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Store)}


class _Reader(Expressions):
    """Statements of one function. ``fresh`` names begin with a dot, which Python's do not."""

    def block(self, body: Sequence[ast.stmt]) -> Body:
        found: list[Stmt] = []
        for stmt in body:
            found += self.statement(stmt)
        return tuple(found)

    def statement(self, stmt: ast.stmt) -> list[Stmt]:
        line = self.line(stmt)
        match stmt:
            case ast.Assign(targets=targets, value=value):
                if len(targets) == 1:
                    return self.assign(targets[0], value, line)
                hold = self.fresh()
                return [*self.simple(hold, value, line), *[
                    s for t in targets for s in self.set(t, Name(hold, line), line)]]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self.assign(target, value, line)
            case ast.AugAssign(target=target, op=op, value=value):
                symbol = self.operator(op, stmt)
                old = self.place(target)
                return self.set(target, Apply(symbol, (old, self.expr(value)), line), line)
            case ast.For():
                return self.for_(stmt)
            case ast.While(orelse=[]):
                return [While(self.expr(stmt.test), self.block(stmt.body), line)]
            case ast.If():
                return [If(self.expr(stmt.test), self.block(stmt.body),
                           self.block(stmt.orelse), line)]
            case ast.Break():
                return [Break(line)]
            case ast.Continue():
                return [Continue(line)]
            case ast.Return(value=ast.expr() as value):
                return self.return_(value, line)
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                return []
        self.refuse(f"{_words(stmt)} is not supported in loops", stmt,
                    "for, while, if, assignments, break, continue and return are")

    # -- assignments -------------------------------------------------------------------------
    def assign(self, target: ast.expr, value: ast.expr, line: int) -> list[Stmt]:
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.unpack(target.elts, value, line)
        if isinstance(target, ast.Name):
            return self.simple(target.id, value, line)
        return self.set(target, self.expr(value), line)

    def simple(self, name: str, value: ast.expr, line: int) -> list[Stmt]:
        """A variable set to a number, an array or a new array."""
        made = self.allocation(name, value)
        return [made or Assign(name, self.expr(value), line)]

    def set(self, target: ast.expr, value: Expr, line: int) -> list[Stmt]:
        match target:
            case ast.Name(id=name):
                return [Assign(name, value, line)]
            case ast.Subscript():
                item = self.item(target)
                if isinstance(item, Item):
                    return [Store(item.array, item.indices, value, line)]
        self.refuse("values are assigned to variables and to single entries of arrays", target,
                    "write a loop over the indices instead of a slice")

    def unpack(self, targets: Sequence[ast.expr], value: ast.expr, line: int) -> list[Stmt]:
        """All values first, then the assignments, from left to right."""
        for t in targets:
            if isinstance(t, (ast.Starred, ast.Tuple, ast.List)):
                self.refuse("only flat tuples are unpacked", t)
        if isinstance(value, (ast.Tuple, ast.List)):
            if len(value.elts) != len(targets):
                self.refuse(f"{len(targets)} targets for {len(value.elts)} values", value)
            names = [self.fresh() for _ in targets]
            found = [s for n, v in zip(names, value.elts) for s in self.simple(n, v, line)]
            return [*found, *[s for t, n in zip(targets, names)
                              for s in self.set(t, Name(n, line), line)]]
        array = self.shape_of(value)
        if array is None:
            self.refuse("only tuples and shapes are unpacked", value)
        self.ranks.append((array, len(targets), line))
        return [s for k, t in enumerate(targets)
                for s in self.set(t, Extent(array, k, line), line)]

    def return_(self, value: ast.expr, line: int) -> list[Stmt]:
        single = not isinstance(value, ast.Tuple)
        values = [value] if single else value.elts  # type: ignore[attr-defined]
        found: list[Stmt] = []
        results: list[Expr] = []
        for v in values:
            hold = self.fresh()
            made = self.allocation(hold, v)
            if made is not None:
                found.append(made)
            results.append(self.expr(v) if made is None else Name(hold, line))
        return [*found, Return(tuple(results), single, line)]

    # -- loops -------------------------------------------------------------------------------
    def for_(self, stmt: ast.For) -> list[Stmt]:
        line = self.line(stmt)
        if stmt.orelse:
            self.refuse("else after a loop is not supported", stmt)
        found = self.iteration(stmt.target, stmt.iter, line)
        start, stop, step, target, first = found
        return [For(target, start, stop, step, (*first, *self.block(stmt.body)), line)]

    def iteration(self, target: ast.expr, over: ast.expr, line: int) -> tuple[
            Expr, Expr, Expr, str, list[Stmt]]:
        """start, stop and step of what is counted, its name, and what each turn begins with."""
        zero, one = number(0, line), number(1, line)
        called = self.called(over)
        args = over.args if isinstance(over, ast.Call) else []
        if called == "builtin.range":
            start, stop, step = self.range(over, args)
            return (start, stop, step, *self.counter(target, line))
        if called == "builtin.reversed" and len(args) == 1 and \
                self.called(args[0]) == "builtin.range":
            inner: Any = args[0]
            start, stop, step = self.range(inner, inner.args)
            if getattr(step, "value", None) != 1:
                self.refuse("only ranges with step 1 are reversed", over)
            last = Apply("-", (stop, one), line)
            return (last, Apply("-", (start, one), line), number(-1, line),
                    *self.counter(target, line))
        hold = self.fresh()
        if called in ("builtin.enumerate", "builtin.zip"):
            arrays = [self.whole(a) for a in args]
            shortest: Expr = Extent(arrays[0], 0, line)
            for a in arrays[1:]:
                shortest = Apply("min", (shortest, Extent(a, 0, line)), line)
            items: list[Expr] = [Item(a, (Name(hold, line),), line) for a in arrays]
            if called == "builtin.enumerate":
                items.insert(0, Name(hold, line))
            if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != len(items):
                self.refuse(f"{called.removeprefix('builtin.')} gives {len(items)} values", target)
            first = [s for t, e in zip(target.elts, items) for s in self.set(t, e, line)]
            self.ranks += [(a, 1, line) for a in arrays]
            return zero, shortest, one, hold, first
        array = self.whole(over)
        self.ranks.append((array, 1, line))
        entry = Item(array, (Name(hold, line),), line)
        return zero, Extent(array, 0, line), one, hold, self.set(target, entry, line)

    def counter(self, target: ast.expr, line: int) -> tuple[str, list[Stmt]]:
        if isinstance(target, ast.Name):
            return target.id, []
        hold = self.fresh()
        return hold, self.set(target, Name(hold, line), line)

    def range(self, over: ast.expr, args: Sequence[ast.expr]) -> tuple[Expr, Expr, Expr]:
        line = self.line(over)
        found = [self.expr(a) for a in args]
        match found:
            case [stop]:
                return number(0, line), stop, number(1, line)
            case [start, stop]:
                return start, stop, number(1, line)
            case [start, stop, step]:
                return start, stop, step
        self.refuse("range takes one, two or three numbers", over)


def _words(stmt: ast.stmt) -> str:
    words = {"Expr": "an expression whose value is not used", "FunctionDef": "a function inside",
             "Return": "return without a value", "While": "else after a loop", "With": "with",
             "Raise": "raise", "Assert": "assert", "Delete": "del", "Try": "try",
             "Import": "import", "ImportFrom": "import", "Global": "global"}
    return words.get(type(stmt).__name__, type(stmt).__name__)
