"""Text to nodes; ``printer.show`` is its inverse: ``parse(show(x)) is x``.

    program  = { name "=" node } ( "return" node { "," node } | node )
    node     = tensor | expr
    tensor   = name                                    a tensor of the environment, or defined above
             | "[" [ axis { "," axis } ] "]" "->" expr           formula: a function of its indices
             | name "(" [ tensor { "," tensor } ] ";" params ")"
                                                       whole-tensor operator: sort(A; 0, False)
    axis     = name "in" extent                        extent: a whole number or a name bound to one
    expr     = literal | index
             | tensor "[" [ expr { "," expr } ] "]"    read a tensor: A[i, k + 1]
             | expr infix expr | "-" expr | "~" expr | "not" expr
             | operator "(" expr { "," expr } ")"      exp(x), minimum(x, y), where(p, e, z)
             | "where" "(" expr "," expr ")"           e where p holds, else zero
             | dtype "(" expr ")"                      conversion: float32(x)
             | monoid "(" axis { "," axis } ")" expr   sum prod min max any all; reaches to the end
             | "reduce" "(" operator { "," axis } "," expr ")"      any other monoid
             | "$" name ":" dtype                      scalar variable of a kernel
             | "(" node ")"
    literal  = 3 | 2.5 | True | nan | 1.0+2.0j (no spaces), marked by dtype: 3:int8, 0.1:float32

Infix operators, loosest first: or, and, not, comparisons (a <= b < c is a <= b and b < c), |, ^,
&, << >>, + -, * / // %, unary - and ~, ** (right to left). A name that is not bound is an index.
Names that are not identifiers stand in backquotes; # starts a comment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias, TypeVar

from tensorel.algebra import ops
from tensorel.algebra.bulk import bulk_operator
from tensorel.base.cursor import Token
from tensorel.errors import ParseError
from tensorel.ir.lexer import CalculusCursor, unquote
from tensorel.ir.literals import DTYPE_NAMES, read_literal
from tensorel.ir.nodes import (
    INT64,
    Axis,
    Bulk,
    Call,
    DType,
    Expr,
    Index,
    Lambda,
    Local,
    Node,
    Operator,
    Read,
    Reduce,
    Tensor,
    const,
)
from tensorel.ir.printer import COMPARE, LEVELS, NOT, POWER, SIGN, ops_by_symbol

Step: TypeAlias = "Generator[Step, Node, Node]"
T = TypeVar("T")
Steps: TypeAlias = "Generator[Step, Node, T]"
Names: TypeAlias = Mapping[str, Node | int]

_OPERATORS: dict[str, Operator] = {o.name: o for o in ops.operators()}


def parse(
    text: str, names: Names | None = None, operators: Mapping[str, Operator] | None = None
) -> Node:
    """The one expression or tensor that ``text`` says, with ``names`` bound to tensors,
    expressions or whole numbers.

    >>> parse("sum(k in 4) (k + 1) * i").free
    frozenset({'i'})
    """
    found = parse_program(text, names, operators)
    if len(found) != 1:
        raise ParseError(f"{len(found)} results where one is expected", text=text, position=0)
    return found[0]


def parse_program(
    text: str, names: Names | None = None, operators: Mapping[str, Operator] | None = None
) -> tuple[Node, ...]:
    """The results of a program of definitions."""
    return _Parser(text, dict(names or {}), dict(operators or {})).program()


class _Parser(CalculusCursor):
    def __init__(
        self, text: str, names: dict[str, Node | int], operators: dict[str, Operator]
    ) -> None:
        super().__init__(text)
        self.names = names
        self.operators = operators
        self.bound: Counter[str] = Counter()

    # -- programs ----------------------------------------------------------------------------
    def program(self) -> tuple[Node, ...]:
        defined: set[str] = set()
        while self.token.kind == "name" and self.tokens[self.at + 1].text == "=":
            token = self.token
            name = self.identifier("a name")
            if name in defined:
                self.fail(f"{name!r} is defined twice", token)
            self.expect("=")
            self.names[name] = self.run(self.infix(0))
            defined.add(name)
        many = self.skip("return")
        roots = [self.run(self.infix(0))]
        while many and self.skip(","):
            roots.append(self.run(self.infix(0)))
        self.finish()
        return tuple(roots)

    # -- operators ---------------------------------------------------------------------------
    def infix(self, least: int) -> Step:
        start = self.token
        left = yield from self.prefix()
        while (level := self.level()) is not None and level >= least:
            token = self.take()
            below = self.token
            right = yield self.infix(level if level == POWER else level + 1)
            left = self.binary(token, self.expr(left, start), self.expr(right, below))
            while level == COMPARE and self.level() == COMPARE:
                token, below, middle = self.take(), self.token, right
                right = yield self.infix(COMPARE + 1)
                link = self.binary(token, self.expr(middle, below), self.expr(right, below))
                left = self.make(token, Call, ops.logical_and, (left, link))
        return left

    def level(self) -> int | None:
        return LEVELS.get(self.token.text) if self.token.kind in ("symbol", "name") else None

    def binary(self, token: Token, left: Expr, right: Expr) -> Expr:
        return self.make(token, Call, ops_by_symbol(token.text), (left, right))

    def expr(self, node: Node, token: Token) -> Expr:
        if not isinstance(node, Expr):
            self.fail("a tensor stands where a value is needed", token, "read it: A[i, j]")
        return node

    def tensor(self, node: Node, token: Token) -> Tensor:
        if not isinstance(node, Tensor):
            self.fail("a value stands where a tensor is needed", token)
        return node

    def prefix(self) -> Steps[Node]:
        token = self.token
        if self.follows("-") and self.tokens[self.at + 1].kind == "number":
            # -2.5 is one literal, but -2 ** x is -(2 ** x).
            if self.tokens[self.at + 2].text != "**":
                self.take()
                return self.literal("-")
        if token.kind == "string" or token.text not in ("-", "~", "not"):
            return (yield from self.primary())
        self.take()
        op = {"-": ops.negative, "~": ops.invert, "not": ops.logical_not}[token.text]
        below = self.token
        arg = yield self.infix(NOT if op is ops.logical_not else SIGN)
        return self.make(token, Call, op, (self.expr(arg, below),))

    # -- operands ----------------------------------------------------------------------------
    def primary(self) -> Steps[Node]:
        token = self.token
        node: Node
        if token.kind == "number":
            return self.literal("")
        if self.skip("("):
            node = yield self.infix(0)
            self.expect(")")
        elif self.skip("["):
            node = yield from self.formula(token)
        elif self.skip("$"):
            name = self.identifier("a variable")
            self.expect(":")
            return self.make(token, Local, name, self.dtype())
        elif self.next_text == "(":
            node = yield from self.call()
        else:
            node = self.variable()
        if isinstance(node, Tensor) and self.skip("["):
            indices = yield from self.listed("]")
            return self.make(token, Read, node, tuple(indices))
        return node

    def literal(self, sign: str) -> Expr:
        token = self.take()
        text, _, mark = token.text.partition(":")
        if mark and mark not in DTYPE_NAMES:
            self.fail(f"{mark!r} is not a dtype", token, f"dtypes are {', '.join(DTYPE_NAMES)}")
        if sign and text in ("True", "False"):
            self.fail(f"-{text} is no literal", token)
        if sign and text.startswith("0x"):
            self.fail("literals by bits have no sign", token)
        return self.make(token, read_literal, sign + text, DTYPE_NAMES.get(mark))

    def variable(self) -> Node:
        token = self.token
        name = self.identifier("an expression")
        read = self.follows("[")
        if name in self.names and (read or not self.bound[name]):
            value = self.names[name]
            return self.make(token, const, value, INT64) if isinstance(value, int) else value
        if read:
            known = sorted(n for n, v in self.names.items() if isinstance(v, Tensor))
            hint = f"tensors are {', '.join(known)}" if known else "bind it in names="
            self.fail(f"unknown tensor {name!r}", token, hint)
        return Index(name)

    def listed(self, close: str) -> Steps[list[Expr]]:
        """Expressions up to ``close``."""
        found: list[Expr] = []
        while not self.skip(close):
            if found:
                self.expect(",")
            token = self.token
            node = yield self.infix(0)
            found.append(self.expr(node, token))
        return found

    def formula(self, token: Token) -> Steps[Node]:
        axes = self.axes("]")
        self.expect("->")
        body = yield from self.scoped(axes)
        return self.make(token, Lambda, axes, body)

    def scoped(self, axes: Sequence[Axis]) -> Steps[Expr]:
        """An expression in which the axes are bound."""
        self.bound.update(a.name for a in axes)
        token = self.token
        body = yield self.infix(0)
        self.bound.subtract(a.name for a in axes)
        return self.expr(body, token)

    def axes(self, close: str) -> tuple[Axis, ...]:
        found: list[Axis] = []
        while not self.skip(close):
            if found:
                self.expect(",")
            found.append(self.axis(found))
        return tuple(found)

    def axis(self, before: Sequence[Axis]) -> Axis:
        token = self.token
        name = self.identifier("an index")
        if any(a.name == name for a in before):
            self.fail(f"index {name!r} is bound twice", token)
        self.expect("in")
        return Axis(name, self.extent())

    def extent(self) -> int:
        token = self.take()
        value: object = None
        if token.kind == "number" and token.text.isdigit():
            value = self.make(token, int, token.text)
        elif token.kind == "name":
            value = self.names.get(unquote(token.text))
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            self.fail(
                f"an extent is a whole number or a name bound to one, not {token.text!r}", token
            )
        return value

    # -- calls -------------------------------------------------------------------------------
    def call(self) -> Steps[Node]:
        token = self.token
        name = self.identifier("a function")
        self.expect("(")
        if name in ops.MONOIDS:
            axes = self.axes(")")
            body = yield from self.scoped(axes)
            return self.make(token, Reduce, ops.MONOIDS[name], axes, body)
        if name == "reduce":
            return (yield from self.reduce(token))
        args: list[tuple[Node, Token]] = []
        while not self.follows(")") and not self.follows(";"):
            if args:
                self.expect(",")
            start = self.token
            node = yield self.infix(0)
            args.append((node, start))
        if self.skip(";"):
            return self.bulk(token, name, [self.tensor(*a) for a in args])
        self.expect(")")
        return self.apply(token, name, [self.expr(*a) for a in args])

    def operator(self, name: str, token: Token) -> Operator:
        if name in self.operators:
            return self.operators[name]
        if name in DTYPE_NAMES:
            return ops.cast(DTYPE_NAMES[name])
        if name not in _OPERATORS:
            known = [*self.operators, *DTYPE_NAMES, *_OPERATORS, *ops.MONOIDS, "reduce"]
            near = get_close_matches(name, known, 3)
            hint = f"did you mean {', '.join(near)}?" if near else None
            self.fail(f"unknown operator {name!r}", token, hint)
        return _OPERATORS[name]

    def apply(self, token: Token, name: str, args: list[Expr]) -> Expr:
        op = self.operator(name, token)
        if op is ops.where and len(args) == 2:
            args = [*args, const(0, args[1].dtype)]
        return self.make(token, Call, op, tuple(args))

    def reduce(self, token: Token) -> Steps[Node]:
        op = self.operator(self.identifier("an operator"), token)
        axes: list[Axis] = []
        self.expect(",")
        while self.next_text == "in":
            axes.append(self.axis(axes))
            self.expect(",")
        body = yield from self.scoped(axes)
        self.expect(")")
        return self.make(token, Reduce, op, tuple(axes), body)

    def bulk(self, token: Token, name: str, args: list[Tensor]) -> Node:
        params = self.params()
        op = self.make(token, bulk_operator, name)
        return self.make(token, Bulk, op, tuple(args), params)

    def dtype(self) -> DType:
        token = self.token
        name = self.identifier("a dtype")
        if name not in DTYPE_NAMES:
            self.fail(f"{name!r} is not a dtype", token, f"dtypes are {', '.join(DTYPE_NAMES)}")
        return DTYPE_NAMES[name]
