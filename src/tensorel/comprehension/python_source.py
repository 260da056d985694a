"""Python functions to the syntax tree.

    def f(A, B):
        return {(i, j): sum(a * b) for (i, k), a in A for (kk, j), b in B if k == kk}

The function is read, not called. ``for (i, j), a in A`` draws the entries unlike the fill,
``for i in range(n)`` whole numbers. Where the value of a dict comprehension aggregates (``sum``,
``prod``, ``min``, ``max``, ``any``, ``all``, ``len``, ``mean`` of one argument), entries with equal
keys are a group. A set is a tensor of truth values, ``sum(... for ...)`` a number.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tensorel.base.records import dataclass
from tensorel.comprehension import syntax as s
from tensorel.comprehension.functions import FUNCTIONS, takes
from tensorel.errors import ParseError, UnsupportedError

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "true/", ast.FloorDiv: "//",
    ast.Mod: "%", ast.Pow: "**",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
#: Aggregations of one argument.
_MONOIDS = {"sum": "+", "prod": "*", "min": "min", "max": "max", "any": "||", "all": "&&",
            "len": "count", "mean": "avg"}
_MODULES = ("math", "np", "numpy", "tr", "tensorel", "statistics")
_NAMES = {"absolute": "abs", "fabs": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
          "arctan2": "atan2", "power": "pow", "minimum": "min", "maximum": "max", "rint": "round",
          "float64": "float", "int64": "int"}
_CONSTANTS = {"pi": 3.141592653589793, "e": 2.718281828459045, "inf": float("inf"),
              "nan": float("nan")}


@dataclass(frozen=True)
class Extent:
    """``name.shape[axis]``, which a program knows as a whole number of the name ``known``."""

    name: str
    axis: int
    known: str


@dataclass(frozen=True)
class Source:
    """A function that was read: its body, the names that it takes from around, the extents that it
    asks for, values of local names in order, and its file."""

    body: s.Expr
    outer: frozenset[str]
    extents: tuple[Extent, ...]
    locals: tuple[tuple[str, s.Expr], ...]
    text: str


def read(function: Callable[..., Any], shape: Sequence[int | str] | None = None) -> Source:
    """What the source of a function says. ``shape``: of the result."""
    name = getattr(function, "__name__", "function")
    if name == "<lambda>":
        raise UnsupportedError("comprehension: a lambda has no source of its own",
                               hint="write a function with def")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise UnsupportedError(
            f"comprehension: the source of {name} cannot be read",
            hint="write it in a file or a notebook cell, or as text: tr.comprehension('...')"
        ) from error
    text = "".join(linecache.getlines(inspect.getsourcefile(function) or "")) or "".join(lines)
    indent = len(lines[0]) - len(lines[0].lstrip())
    tree = ast.parse("".join(line[indent:] if line.strip() else "\n" for line in lines))
    (defined,) = tree.body
    reader = _Reader(text if text.count("\n") >= first else "".join(lines),
                     first if text.count("\n") >= first else 1, indent)
    if not isinstance(defined, ast.FunctionDef):
        reader.fail(defined, "only plain functions can be read")
    return reader.function(defined, shape)


class _Reader:
    """Reads the body of one function. ``line``: of the file, where its source begins."""

    def __init__(self, text: str, line: int, indent: int) -> None:
        self.text, self.line, self.indent = text, line, indent
        self.starts = [0]
        for row in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(row))
        self.extents: dict[str, Extent] = {}
        self.tensors: set[str] = set()  # arguments and local names, unless generators bind them

    def place(self, node: ast.AST) -> int:
        row = self.line + getattr(node, "lineno", 1) - 2
        return self.starts[min(row, len(self.starts) - 1)] + self.indent + int(
            getattr(node, "col_offset", 0))

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        raise ParseError(f"comprehension: {message}", text=self.text, position=self.place(node),
                         hint=hint)

    # -- the function ------------------------------------------------------------------------
    def function(self, defined: ast.FunctionDef, shape: Sequence[int | str] | None) -> Source:
        body = list(defined.body)
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        local: list[tuple[str, s.Expr]] = []
        self.tensors |= {a.arg for a in defined.args.args}
        for statement in body[:-1]:
            if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1
                    and isinstance(statement.targets[0], ast.Name)):
                self.fail(statement, "only assignments of names stand before the return",
                          "loops and if statements: @tr.loops")
            local.append((statement.targets[0].id, self.result(statement.value, None)))
            self.tensors.add(statement.targets[0].id)
        last = body[-1] if body else defined
        if not isinstance(last, ast.Return) or last.value is None:
            self.fail(last, "the function returns a comprehension",
                      "return {(i, j): ... for (i, j), a in A}; for loops: @tr.loops")
        found = self.result(last.value, shape)
        names = {n for e in (found, *(e for _, e in local)) for n in s.free(e)}
        names |= {x.name for x in self.extents.values()}
        return Source(found, frozenset(names), tuple(self.extents.values()), tuple(local),
                      self.text)

    def result(self, node: ast.expr, shape: Sequence[int | str] | None) -> s.Expr:
        """A tensor or a number."""
        if isinstance(node, ast.DictComp):
            return self.tensor(node, node.key, node.value, shape)
        if isinstance(node, ast.SetComp):
            return self.tensor(node, node.elt, None, shape)
        if isinstance(node, ast.ListComp):
            self.fail(node, "a list has no keys", "say them: {i: value for ...}")
        return self.expr(node)

    def tensor(self, node: ast.DictComp | ast.SetComp, key: ast.expr, value: ast.expr | None,
               shape: Sequence[int | str] | None) -> s.Expr:
        at = self.place(node)
        qualifiers = self.qualifiers(node.generators)
        keys = self.expr(key)
        found: s.Expr = s.Number(True, at) if value is None else self.expr(value)
        if value is None or any(isinstance(e, s.Aggregate) and not isinstance(
                e.body, (s.Comprehension, s.Range)) for e in s.walk(found)):
            keys, found, group = self.grouped(keys, found)
            qualifiers = (*qualifiers, group)
        made = s.Comprehension(s.Tuple((keys, found), at), qualifiers, at)
        if shape is None:
            return s.Stored((), (), made, inferred=True, at=at)
        extents = tuple([s.Name(n, at) if isinstance(n, str) else s.Number(int(n), at)
                         for n in shape])
        return s.Stored(extents, (), made, at=at)

    def grouped(self, keys: s.Expr, value: s.Expr) -> tuple[s.Expr, s.Expr, s.Group]:
        """The key and the value of a group: what the value says of the key is the key."""
        items = keys.items if isinstance(keys, s.Tuple) else (keys,)
        names: list[s.AnyPattern] = []
        for k, item in enumerate(items):
            plain = isinstance(item, s.Name) and item.name not in {
                n for p in names for n in s.names_of(p)}
            name = item.name if plain and isinstance(item, s.Name) else f"key {k}"
            names.append(s.Bind(name, item.at))
            if not plain:
                value = _replaced(value, item, s.Name(name, item.at))
        pattern = names[0] if not isinstance(keys, s.Tuple) else s.Pattern(tuple(names), keys.at)
        return s.as_expr(pattern), value, s.Group(pattern, keys, keys.at)

    # -- generators --------------------------------------------------------------------------
    def qualifiers(self, generators: Sequence[ast.comprehension]) -> tuple[s.Qualifier, ...]:
        found: list[s.Qualifier] = []
        bound: set[str] = set()
        for g in generators:
            if g.is_async:
                self.fail(g.target, "async for has no meaning here")
            pattern = self.pattern(g.target)
            again = bound & set(s.names_of(pattern))
            if again:
                name = sorted(again)[0]
                self.fail(g.target, f"{name!r} is bound twice",
                          f"use another name and say that they are equal: if {name} == ...")
            bound |= set(s.names_of(pattern))
            self.tensors -= bound
            found.append(s.Draw(pattern, self.drawn(g.iter), False, self.place(g.iter)))
            found += [s.Test(self.expr(test), self.place(test)) for test in g.ifs]
        return tuple(found)

    def drawn(self, node: ast.expr) -> s.Expr:
        """What a generator draws from."""
        at = self.place(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "range":
                return self.range(node)
            if node.func.id == "enumerate":
                self.fail(node, "a tensor gives its keys with its values",
                          "for i, v in V")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (
                node.func.attr == "items" and not node.args):
            return self.drawn(node.func.value)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self.listed(node)
        if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
            self.fail(node, "a generator draws from a tensor, a range or a comprehension")
        if isinstance(node, (ast.DictComp, ast.SetComp)):
            return self.result(node, None)
        return s.Name(node.id, at) if isinstance(node, ast.Name) else self.expr(node)

    def listed(self, node: ast.ListComp | ast.GeneratorExp) -> s.Comprehension:
        return s.Comprehension(
            self.expr(node.elt), self.qualifiers(node.generators), self.place(node))

    def range(self, node: ast.Call) -> s.Expr:
        """``range`` of Python as a range, with its high end: steps are a list."""
        if node.keywords or not 1 <= len(node.args) <= 3:
            self.fail(node, "range takes one to three numbers")
        at = self.place(node)
        args = [self.expr(a) for a in node.args]
        low = args[0] if len(args) > 1 else s.Number(0, at)
        high = args[0] if len(args) == 1 else args[1]
        if len(args) < 3:
            return s.Range(low, s.Binary("-", high, s.Number(1, at), at), at)
        step = args[2]
        if not isinstance(step, s.Number) or not isinstance(step.value, int) or step.value == 0:
            self.fail(node, "the step of a range is a number that is not 0")
        size, sign = abs(step.value), (1 if step.value > 0 else -1)
        span = s.Binary("-", high, low, at) if sign > 0 else s.Binary("-", low, high, at)
        count = s.Binary("//", s.Binary("-", span, s.Number(1, at), at), s.Number(size, at), at)
        value = s.Binary("+", low, s.Binary("*", s.Number(step.value, at), s.Name("step k", at),
                                            at), at)
        draw = s.Draw(s.Bind("step k", at), s.Range(s.Number(0, at), count, at), False, at)
        return s.Comprehension(value, (draw,), at)

    def pattern(self, node: ast.expr) -> s.AnyPattern:
        if isinstance(node, ast.Name):
            return s.Bind(node.id, self.place(node))
        if isinstance(node, (ast.Tuple, ast.List)):
            return s.Pattern(tuple(map(self.pattern, node.elts)), self.place(node))
        self.fail(node, "a generator binds names and tuples of names")

    # -- expressions -------------------------------------------------------------------------
    def expr(self, node: ast.expr) -> s.Expr:
        at = self.place(node)
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return s.Number(value, at)
            case ast.Name():
                return s.Name(node.id, at)
            case ast.Tuple():
                return s.Tuple(tuple(map(self.expr, node.elts)), at)
            case ast.BinOp() if type(node.op) in _BINARY:
                return s.Binary(_BINARY[type(node.op)], self.expr(node.left),
                                self.expr(node.right), at)
            case ast.BinOp() if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
                op = "&&" if isinstance(node.op, ast.BitAnd) else "||"
                return s.Binary(op, self.expr(node.left), self.expr(node.right), at)
            case ast.UnaryOp():
                return self.unary(node, at)
            case ast.BoolOp():
                op = "&&" if isinstance(node.op, ast.And) else "||"
                return self.joined(op, [self.expr(v) for v in node.values], at)
            case ast.Compare():
                return self.compared(node, at)
            case ast.IfExp():
                return s.If(self.expr(node.test), self.expr(node.body), self.expr(node.orelse), at)
            case ast.Subscript():
                return self.subscript(node, at)
            case ast.Call():
                return self.call(node, at)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                    name in _MODULES and attr in _CONSTANTS):
                return s.Number(_CONSTANTS[attr], at)
            case ast.DictComp() | ast.SetComp():
                return self.result(node, None)
        self.fail(node, f"{type(node).__name__} is outside of what comprehensions can say",
                  "numbers, names, A[i, j], + - * / // % **, comparisons, and or not, x if c else "
                  "y, functions of math, sum prod min max any all len")

    def joined(self, op: str, items: Sequence[s.Expr], at: int) -> s.Expr:
        found = items[0]
        for item in items[1:]:
            found = s.Binary(op, found, item, at)
        return found

    def unary(self, node: ast.UnaryOp, at: int) -> s.Expr:
        arg = self.expr(node.operand)
        if isinstance(node.op, ast.USub):
            if isinstance(arg, s.Number) and not isinstance(arg.value, bool):
                return s.Number(-arg.value, at)
            return s.Unary("-", arg, at)
        return arg if isinstance(node.op, ast.UAdd) else s.Unary("!", arg, at)

    def compared(self, node: ast.Compare, at: int) -> s.Expr:
        sides = [self.expr(x) for x in (node.left, *node.comparators)]
        found: list[s.Expr] = []
        for op, a, b in zip(node.ops, sides, sides[1:]):
            if type(op) not in _COMPARE:
                self.fail(node, "comparisons are == != < <= > >=")
            found.append(s.Binary(_COMPARE[type(op)], a, b, at))
        return self.joined("&&", found, at)

    def subscript(self, node: ast.Subscript, at: int) -> s.Expr:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and isinstance(
                node.value.value, ast.Name) and isinstance(node.slice, ast.Constant) and isinstance(
                    node.slice.value, int):
            return self.extent(node.value.value.id, node.slice.value, at)
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for k in keys:
            if isinstance(k, ast.Slice):
                self.fail(node, "a cell is read, not a slice",
                          "say which keys with a generator: for j in range(a, b)")
        return s.Access(self.expr(node.value), tuple(map(self.expr, keys)), at)

    def extent(self, name: str, axis: int, at: int) -> s.Expr:
        known = f"{name}.shape[{axis}]"
        self.extents[known] = Extent(name, axis, known)
        return s.Name(known, at)

    # -- calls -------------------------------------------------------------------------------
    def call(self, node: ast.Call, at: int) -> s.Expr:
        name = self.called(node)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.fail(node, f"{name} takes no named and no starred arguments here")
        if len(node.args) == 1 and name in _MONOIDS:
            (arg,) = node.args
            if name == "len" and isinstance(arg, ast.Name) and arg.id in self.tensors:
                return self.extent(arg.id, 0, at)
            if isinstance(arg, (ast.GeneratorExp, ast.ListComp)):
                return s.Aggregate(_MONOIDS[name], self.listed(arg), at)
            if isinstance(arg, ast.Call) and isinstance(arg.func, ast.Name) and (
                    arg.func.id == "range"):
                return s.Aggregate(_MONOIDS[name], self.range(arg), at)
            return s.Aggregate(_MONOIDS[name], self.expr(arg), at)
        args = tuple(map(self.expr, node.args))
        name = _NAMES.get(name, name)
        if name not in FUNCTIONS and name not in ("int", "float", "bool"):
            self.fail(node, f"{name} is not a function of comprehensions",
                      f"functions are {', '.join(sorted(FUNCTIONS))}")
        if not takes(name, len(args)):
            self.fail(node, f"{name} does not take {len(args)} arguments")
        return s.Call(name, args, at)

    def called(self, node: ast.Call) -> str:
        f = node.func
        if isinstance(f, ast.Name):
            return f.id
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and (
                f.value.id in _MODULES):
            return f.attr
        self.fail(node, "functions are called by name, as in math.sqrt(x)")


def _replaced(e: s.Expr, old: s.Expr, new: s.Expr) -> s.Expr:
    """An expression with another in place of a part."""
    if e == old:
        return new
    match e:
        case s.Unary():
            return s.Unary(e.op, _replaced(e.arg, old, new), e.at)
        case s.Binary():
            return s.Binary(e.op, _replaced(e.left, old, new), _replaced(e.right, old, new), e.at)
        case s.Call():
            return s.Call(e.function, tuple([_replaced(a, old, new) for a in e.args]), e.at)
        case s.If():
            test, then, otherwise = (_replaced(x, old, new) for x in (e.test, e.then, e.otherwise))
            return s.If(test, then, otherwise, e.at)
        case s.Access():
            return s.Access(e.target, tuple([_replaced(k, old, new) for k in e.keys]), e.at)
    return e


__all__ = ["Extent", "Source", "read"]
