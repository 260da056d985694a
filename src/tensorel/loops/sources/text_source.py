"""Text in SAC's imperative language to statements.

    s ::= d := e | d op= e | var v [: type] = e | { s ... } | for v = e, e [, e] [do] s
        | for v in A [do] s | while (e) s | if (e) s [else s] | break | continue
    d ::= v | v[e, ...]        op ::= + - * / min max && ||

``for`` includes both ends. Semicolons end statements and may be left out before and after brackets.
"""

from __future__ import annotations

import re

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.base.cursor import Cursor, Token
from tensorel.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Body,
    Break,
    Choice,
    Continue,
    Expr,
    Extent,
    For,
    If,
    Item,
    Name,
    Stmt,
    Store,
    While,
    number,
)

#: How deep expressions and statements may be nested.
MAX_DEPTH = 100

_BINARY = ({"||": "or"}, {"&&": "and"},
           {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="},
           {"+": "+", "-": "-"}, {"*": "*", "/": "text./", "%": "text.%"})
_UPDATES = {"+=": "+", "-=": "-", "*=": "*", "/=": "text./", "min=": "np.minimum",
            "max=": "np.maximum", "&&=": "np.logical_and", "||=": "np.logical_or"}
_FUNCTIONS = {
    **{name: f"np.{name}" for name in (
        "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "arcsin",
        "arccos", "arctan", "sinh", "cosh", "tanh", "floor", "ceil", "sign", "isnan", "hypot")},
    "abs": "abs", "min": "np.minimum", "max": "np.maximum", "pow": "**", "int": "int",
    "float": "float", "bool": "bool",
}
_TWO = ("np.minimum", "np.maximum", "**", "np.hypot")
_ARRAYS = ("zeros", "ones", "vector", "matrix", "tensor")
_DTYPES: dict[str, DType] = {
    "int": ops.INT64, "long": ops.INT64, "double": ops.FLOAT64, "float": ops.FLOAT64,
    "bool": ops.BOOL, "boolean": ops.BOOL}


class Parser(Cursor):
    pattern = re.compile(
        r"(?P<space>\s+|//[^\n]*|#[^\n]*)"
        r"|(?P<number>(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?)"
        r"|(?P<symbol>min=|max=|&&=|\|\|=|[:+*/!=<>-]=|&&|\|\||[-+*/%<>=!()\[\]{},;:.])"
        r"|(?P<name>[A-Za-z_]\w*)")
    keywords = frozenset({"for", "while", "if", "else", "do", "var", "break", "continue", "then",
                          "in", "true", "false"})

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    def line(self) -> int:
        return self.text.count("\n", 0, self.token.position) + 1

    def program(self) -> Body:
        found = self.statements("")
        self.finish("a statement or the end")
        return found

    # -- statements --------------------------------------------------------------------------
    def statements(self, end: str) -> Body:
        found: list[Stmt] = []
        while True:
            while self.skip(";"):
                pass
            if self.token.kind == "end" or self.token.text == end:
                return tuple(found)
            found += self.statement()

    def nested(self) -> Body:
        """The body of a loop or branch."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.too_deep(self.token)
        found = self.statement()
        self.depth -= 1
        return tuple(found)

    def statement(self) -> list[Stmt]:
        line = self.line()
        if self.skip("{"):
            found = self.statements("}")
            self.expect("}")
            return list(found)
        if self.skip("for"):
            return self.for_(line)
        if self.skip("while"):
            test = self.bracketed()
            return [While(test, self.nested(), line)]
        if self.skip("if"):
            return self.if_(line)
        if self.skip("break"):
            return [Break(line)]
        if self.skip("continue"):
            return [Continue(line)]
        if self.skip("var"):
            return self.declaration(line)
        return self.assignment(line)

    def bracketed(self) -> Expr:
        self.expect("(")
        found = self.expr()
        self.expect(")")
        return found

    def for_(self, line: int) -> list[Stmt]:
        target = self.identifier("the counter")
        if self.skip("in"):
            array = self.identifier("an array")
            self.skip("do")
            at = f".{target}"
            first = Assign(target, Item(array, (Name(at, line),), line), line)
            return [For(at, number(0, line), Extent(array, 0, line), number(1, line),
                        (first, *self.nested()), line)]
        self.expect("=")
        start = self.expr()
        self.expect(",")
        stop = self.expr()
        step = 1
        if self.skip(","):
            sign = -1 if self.skip("-") else 1
            if self.token.kind != "number" or not self.token.text.isdigit():
                self.fail("the step is a whole number")
            step = sign * int(self.take().text)
            if not step:
                self.fail("the step is zero")
        self.skip("do")
        behind = Apply("+" if step > 0 else "-", (stop, number(1, line)), line)
        return [For(target, start, behind, number(step, line), self.nested(), line)]

    def if_(self, line: int) -> list[Stmt]:
        test = self.bracketed()
        then = self.nested()
        if self.token.text == ";" and self.next_text == "else":
            self.take()
        other = self.nested() if self.skip("else") else ()
        return [If(test, then, other, line)]

    def declaration(self, line: int) -> list[Stmt]:
        name = self.identifier("a variable")
        dtype = self.type() if self.skip(":") else None
        if not self.skip(":="):
            self.expect("=")
        return self.value_of(name, dtype, line)

    def type(self) -> DType | None:
        """``int``, ``matrix[Double]``: the dtype of the numbers."""
        found = _DTYPES.get(self.identifier("a type").lower())
        if self.skip("["):
            found = self.type()
            self.expect("]")
        return found

    def value_of(self, name: str, dtype: DType | None, line: int) -> list[Stmt]:
        if self.token.text in _ARRAYS and self.next_text == "(":
            word = self.take().text
            extents = self.arguments()
            fill = number(1 if word == "ones" else 0, line)
            return [Allocate(name, tuple(extents), None, fill, dtype or ops.FLOAT64, None, line)]
        return [Assign(name, self.expr(), line)]

    def assignment(self, line: int) -> list[Stmt]:
        token = self.token
        name = self.identifier("a statement")
        indices = tuple(self.indices()) if self.token.text == "[" else ()
        op = self.take().text
        if op == ":=":
            if not indices:
                return self.value_of(name, None, line)
            return [Store(name, indices, self.expr(), line)]
        if op not in _UPDATES:
            self.fail("expected := or an update such as +=", token)
        old: Expr = Item(name, indices, line) if indices else Name(name, line)
        value = Apply(_UPDATES[op], (old, self.expr()), line)
        return [Store(name, indices, value, line) if indices else Assign(name, value, line)]

    def indices(self) -> list[Expr]:
        self.expect("[")
        found = [self.expr()]
        while self.skip(","):
            found.append(self.expr())
        self.expect("]")
        return found

    def arguments(self) -> list[Expr]:
        self.expect("(")
        found = [] if self.token.text == ")" else [self.expr()]
        while self.skip(","):
            found.append(self.expr())
        self.expect(")")
        return found

    # -- expressions -------------------------------------------------------------------------
    def expr(self, level: int = 0) -> Expr:
        if level == 0:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.too_deep(self.token)
        found = self.unary() if level == len(_BINARY) else self.expr(level + 1)
        while level < len(_BINARY) and self.token.text in _BINARY[level] \
                and self.token.kind == "symbol":
            line, symbol = self.line(), self.take().text
            found = Apply(_BINARY[level][symbol], (found, self.expr(level + 1)), line)
        if level == 0:
            self.depth -= 1
        return found

    def unary(self) -> Expr:
        line = self.line()
        signs: list[str] = []
        while self.token.text in ("-", "!", "+") and self.token.kind == "symbol":
            signs.append(self.take().text)
        found = self.atom(line)
        for sign in reversed(signs):
            found = Apply({"-": "neg", "!": "not", "+": "pos"}[sign], (found,), line)
        return found

    def atom(self, line: int) -> Expr:
        token = self.token
        if self.token.kind == "number":
            text = self.take().text
            return number(int(text) if text.isdigit() else float(text), line)
        if self.token.text in ("true", "false"):
            return number(self.take().text == "true", line)
        if self.skip("("):
            found = self.expr()
            self.expect(")")
            return found
        if self.skip("if"):
            test = self.bracketed()
            self.skip("then")
            then = self.expr()
            self.expect("else")
            return Choice(test, then, self.expr(), line)
        name = self.identifier("a number, a variable or a function")
        if self.token.text == "(":
            return self.call(name, token, line)
        if self.token.text == "[":
            return Item(name, tuple(self.indices()), line)
        if self.skip("."):
            return self.extent(name, line)
        return Name(name, line)

    def extent(self, name: str, line: int) -> Expr:
        if self.identifier("shape") != "shape":
            self.fail("expected shape")
        self.expect("[")
        if not self.token.text.isdigit():
            self.fail("the axis is a number")
        axis = int(self.take().text)
        self.expect("]")
        return Extent(name, axis, line)

    def call(self, name: str, token: Token, line: int) -> Expr:
        args = self.arguments()
        if name == "len" and len(args) == 1 and isinstance(args[0], Name):
            return Extent(args[0].name, 0, line)
        found = _FUNCTIONS.get(name)
        if found is None:
            self.fail(f"unknown function {name!r}", token,
                      f"there are {', '.join([*_FUNCTIONS, 'len'])}")
        if found in ("np.minimum", "np.maximum") and len(args) > 2:
            whole = args[0]
            for a in args[1:]:
                whole = Apply(found, (whole, a), line)
            return whole
        wanted = 2 if found in _TWO else 1
        if len(args) != wanted:
            self.fail(f"{name} takes {wanted} arguments, not {len(args)}", token)
        return Apply(found, tuple(args), line)


def parse(text: str) -> Body:
    """The statements of a program.

    >>> parse("for i = 0, 2 do x[i] := i")[0].target
    'i'
    """
    return Parser(text).program()
