"""Expressions of Python source: numbers, entries of arrays, calls, and arrays that are made."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.loops import functions
from tensorel.loops.origin import Origin
from tensorel.loops.syntax import (
    Allocate,
    Apply,
    Choice,
    Copy,
    Expr,
    Extent,
    Item,
    Name,
    number,
)

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//",
           ast.Mod: "%", ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&",
           ast.BitOr: "|", ast.BitXor: "^"}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "~", ast.Not: "not"}
_NUMBERS = (bool, int, float, complex, np.generic)
_MISSING = object()


class Expressions:
    """``scope``: the names that the function binds; ``ranks``: arrays that must have so many axes;
    ``outside``: what other names mean."""

    def __init__(self, origin: Origin, outside: Mapping[str, object],
                 parameters: Sequence[str]) -> None:
        self.origin = origin
        self.outside = outside
        self.scope: set[str] = set(parameters)
        self.ranks: list[tuple[str, int, int]] = []
        self._count = 0

    def line(self, node: ast.AST) -> int:
        return int(getattr(node, "lineno", 1)) + self.origin.first - 1

    def refuse(self, message: str, node: ast.AST, hint: str | None = None) -> NoReturn:
        self.origin.refuse(message, self.line(node), hint)

    def fresh(self) -> str:
        self._count += 1
        return f".{self._count}"

    # -- names -------------------------------------------------------------------------------
    def known(self, node: ast.expr) -> object:
        """The object outside that a dotted name leads to, ``_MISSING`` if it is none."""
        match node:
            case ast.Name(id=name) if name not in self.scope:
                return self.outside.get(name, _MISSING)
            case ast.Attribute(value=value, attr=attr):
                owner = self.known(value)
                if isinstance(owner, (ModuleType, type)):
                    return getattr(owner, attr, _MISSING)
        return _MISSING

    def called(self, node: ast.expr) -> str | None:
        """The name of the known function that a call calls."""
        if not isinstance(node, ast.Call):
            return None
        return functions.name_of(self.known(node.func))

    def whole(self, node: ast.expr) -> str:
        """The name of an array."""
        if isinstance(node, ast.Name) and node.id in self.scope:
            return node.id
        self.refuse("only arrays with a name can be walked through or copied", node)

    def shape_of(self, node: ast.expr) -> str | None:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="shape") if name in self.scope:
                return name
            case ast.Call(args=[ast.Name(id=name)]) if name in self.scope and \
                    self.known(node.func) is np.shape:
                return name
        return None

    # -- expressions -------------------------------------------------------------------------
    def expr(self, node: ast.expr) -> Expr:
        line = self.line(node)
        match node:
            case ast.Constant(value=bool() | int() | float() | complex()):
                return number(node.value, line)
            case ast.Name(id=name) if name in self.scope:
                return Name(name, line)
            case ast.Name() | ast.Attribute():
                return self.attribute(node, line)
            case ast.Subscript():
                return self.item(node)
            case ast.BinOp():
                symbol = self.operator(node.op, node)
                return Apply(symbol, (self.expr(node.left), self.expr(node.right)), line)
            case ast.UnaryOp(op=op, operand=operand):
                inner = self.expr(operand)
                if isinstance(op, ast.USub) and isinstance(operand, ast.Constant) and \
                        not isinstance(operand.value, bool):
                    return number(-operand.value, line)  # type: ignore[operator]
                return Apply(_UNARY[type(op)], (inner,), line)
            case ast.BoolOp():
                word = "and" if isinstance(node.op, ast.And) else "or"
                found = self.expr(node.values[0])
                for v in node.values[1:]:
                    found = Apply(word, (found, self.expr(v)), line)
                return found
            case ast.Compare():
                return self.compare(node, line)
            case ast.IfExp():
                return Choice(self.expr(node.test), self.expr(node.body),
                              self.expr(node.orelse), line)
            case ast.Call():
                return self.call(node, line)
        self.refuse(f"{type(node).__name__} is not supported in expressions of loops", node,
                    "numbers, entries of arrays, arithmetic, comparisons and calls are")

    def attribute(self, node: ast.expr, line: int) -> Expr:
        """A number outside, or an array's size."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="size") if name in self.scope:
                return Apply("size", (Name(name, line),), line)
            case ast.Attribute(value=ast.Name(id=name), attr="T") if name in self.scope:
                self.refuse("transposed arrays are not supported", node, "exchange the indices")
        found = self.known(node)
        if isinstance(found, _NUMBERS):
            return number(found, line)
        shown = ast.unparse(node)
        if found is _MISSING:
            self.refuse(f"{shown} is not known", node)
        self.refuse(f"{shown} is neither a number nor an array of this function", node,
                    "give it as a parameter")

    def place(self, node: ast.expr) -> Expr:
        """What an assignment target holds before."""
        match node:
            case ast.Name(id=name):
                return Name(name, self.line(node))
            case ast.Subscript():
                return self.item(node)
        self.refuse("values are assigned to variables and to single entries of arrays", node)

    def item(self, node: ast.Subscript) -> Expr:
        """``A[i, j]``, ``A[i][j]``, ``A.shape[k]``."""
        line = self.line(node)
        shaped = self.shape_of(node.value)
        if shaped is not None:
            axis = self.expr(node.slice)
            value = getattr(axis, "value", None)
            if type(value) is not int:
                self.refuse("the axis of a shape is a literal number", node)
            return Extent(shaped, value, line)
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in inside:
            if isinstance(part, ast.Slice) or (
                    isinstance(part, ast.Constant) and part.value in (None, ...)):
                self.refuse("slices and new axes are not supported in loops", node,
                            "write a loop over the indices, or an expression of whole arrays "
                            "outside of the function")
        found = tuple([self.expr(p) for p in inside])
        match node.value:
            case ast.Name(id=name) if name in self.scope:
                return Item(name, found, line)
            case ast.Subscript():
                outer = self.item(node.value)
                if isinstance(outer, Item):
                    return Item(outer.array, (*outer.indices, *found), line)
        self.refuse("only arrays with a name are indexed", node,
                    "an array from outside is given as a parameter")

    def compare(self, node: ast.Compare, line: int) -> Expr:
        sides = [self.expr(e) for e in (node.left, *node.comparators)]
        found: Expr | None = None
        for op, a, b in zip(node.ops, sides, sides[1:]):
            symbol = _COMPARE.get(type(op))
            if symbol is None:
                self.refuse("in, not in, is and is not are not supported", node)
            one = Apply(symbol, (a, b), line)
            found = one if found is None else Apply("and", (found, one), line)
        assert found is not None
        return found

    def operator(self, op: ast.operator, node: ast.AST) -> str:
        symbol = _BINARY.get(type(op))
        if symbol is None:
            self.refuse("@ is not supported in loops", node,
                        "multiply whole arrays outside of the function, or write the loops")
        return symbol

    def call(self, node: ast.Call, line: int) -> Expr:
        called = self.called(node)
        args = node.args
        if called is None or node.keywords or any(isinstance(a, ast.Starred) for a in args):
            self.refuse(f"{ast.unparse(node.func)} cannot be called here", node,
                        "math.*, NumPy's functions of numbers, abs, min, max, int, float, bool, "
                        "round, pow and len can")
        if called == "builtin.len":
            return Extent(self.whole(args[0]), 0, line)
        if called.startswith(("builtin.", "array.")):
            word = called.partition(".")[2]
            self.refuse(f"{word} cannot stand inside an expression", node,
                        f"A = np.{word}(...) can" if called.startswith("array.") else None)
        found = tuple([self.expr(a) for a in args])
        if called in ("min", "max") and len(found) > 1:
            whole = found[0]
            for e in found[1:]:
                whole = Apply(called, (whole, e), line)
            return whole
        if called == "math.log" and len(found) == 2:
            both = [Apply("math.log", (e,), line) for e in found]
            return Apply("/", tuple(both), line)
        wanted = self.arity(called)
        if len(found) != wanted:
            self.refuse(f"{ast.unparse(node.func)} takes {wanted} numbers here, "
                        f"not {len(found)}", node)
        if called == "pow":
            called = "**"
        return Apply(called, found, line)

    @staticmethod
    def arity(called: str) -> int:
        op = functions.MATH.get(called) or functions.NUMPY.get(called)
        if op is not None:
            return op.arity
        return 2 if called in ("min", "max", "pow") else 1

    # -- arrays ------------------------------------------------------------------------------
    def allocation(self, name: str, node: ast.expr) -> Allocate | Copy | None:
        """The array that an expression makes, None if it makes none."""
        if not isinstance(node, ast.Call):
            return None
        line = self.line(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args \
                and isinstance(node.func.value, ast.Name) and node.func.value.id in self.scope:
            return Copy(name, node.func.value.id, line)
        called = self.called(node)
        if called is None or not called.startswith("array."):
            return None
        kind = called.removeprefix("array.")
        if not node.args or len(node.args) > 3:
            self.refuse(f"np.{kind} takes a shape or an array here", node)
        if kind == "copy":
            return Copy(name, self.whole(node.args[0]), line)
        return self.filled(name, kind, node, line)

    def filled(self, name: str, kind: str, node: ast.Call, line: int) -> Allocate:
        like = kind.endswith("_like")
        first, *rest = node.args
        named = {k.arg: k.value for k in node.keywords}
        fill: Expr = number(1 if kind.startswith("ones") else 0, line)
        if kind.startswith("full"):
            value = rest.pop(0) if rest else named.pop("fill_value", None)
            if value is None:
                self.refuse("full takes the value", node)
            fill = self.expr(value)
        given = rest.pop(0) if rest else named.pop("dtype", None)
        if rest or named:
            self.refuse(f"np.{kind} takes a shape and a dtype here", node)
        default = None if like or kind == "full" else ops.FLOAT64
        dtype, of = self.dtype(given, default)
        shaped = self.whole(first) if like else self.shape_of(first)
        if shaped is not None:
            of = shaped if like and given is None else of
            return Allocate(name, (), shaped, fill, dtype, of, line)
        inside = first.elts if isinstance(first, (ast.Tuple, ast.List)) else [first]
        extents = tuple([self.expr(e) for e in inside])
        return Allocate(name, extents, None, fill, dtype, of, line)

    def dtype(self, node: ast.expr | None, default: DType | None) -> tuple[
            DType | None, str | None]:
        """A dtype, or the array whose dtype it is."""
        if node is None:
            return default, None
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="dtype") if name in self.scope:
                return None, name
            case ast.Constant(value=str() as word):
                found: Any = word
            case _:
                found = self.known(node)
        try:
            return ops.check_dtype(found), None
        except Exception:
            self.refuse(f"{ast.unparse(node)} is not a dtype of ours", node)
