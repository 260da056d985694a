"""Kinds and depths of core expressions; every error of a program that can be read is found here.

A type is the kind of the scalars (bool, int, real, or a semiring), the number of keys, and whether
the dictionary is total: ranges, ARRAYs and sub-arrays have a value at every position, which may be
zero; all others have the keys with values that are not zero.

    bool < int < real; a pair of kinds meets at the higher one, a semiring at itself alone
    +  -     equal depths                          *  equal depths, or one scalar
    /  %     the right side a scalar; / of two ints is the floor of the quotient
    bool     + is or, * is and, a sum is "any"; in - and / and with numbers, true is 1
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import NoReturn

from tensorel.base.records import dataclass
from tensorel.errors import ParseError
from tensorel.sdql import syntax as s

NUMERIC = ("bool", "int", "real")
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
#: Functions whose value is an int where their arguments are.
EXACT = frozenset({"min", "max", "abs", "sign", "square", "floor", "ceil", "trunc", "round"})


@dataclass(frozen=True, slots=True)
class Type:
    """The type of an expression."""

    kind: str
    depth: int = 0
    total: bool = False

    def __str__(self) -> str:
        values = f"{self.kind} values" if self.depth else self.kind
        return f"a dictionary of {self.depth} keys and {values}" if self.depth > 1 else (
            f"a dictionary of {values}" if self.depth else f"a scalar ({values})")


Env = Mapping[str, Type]
INT, BOOL = Type("int"), Type("bool")


class Types:
    """The types of all expressions of a core program, by ``id``; the tree must stay alive."""

    def __init__(self, root: s.Expr, env: Env, text: str) -> None:
        self.text = text
        self.known: dict[int, Type] = {}
        self.of(root, dict(env))

    def __getitem__(self, e: s.Expr) -> Type:
        return self.known[id(e)]

    def fail(self, message: str, e: s.Expr, hint: str | None = None) -> NoReturn:
        raise ParseError(message, text=self.text, position=e.at, hint=hint)

    def of(self, e: s.Expr, env: dict[str, Type]) -> Type:
        found = self.known[id(e)] = self.infer(e, env)
        return found

    def infer(self, e: s.Expr, env: dict[str, Type]) -> Type:
        match e:
            case s.Number():
                return Type(e.kind)
            case s.Name():
                return self.name(e, env)
            case s.Unary():
                return self.unary(e, self.of(e.arg, env))
            case s.Binary():
                return self.binary(e, self.of(e.left, env), self.of(e.right, env))
            case s.Call():
                return self.call(e, [self.of(a, env) for a in e.args])
            case s.Range():
                self.key(e.low, env)
                self.key(e.high, env)
                return Type("int", 1, True)
            case s.Apply():
                target = self.dictionary(e.target, env)
                self.key(e.keys[0], env)
                return Type(target.kind, target.depth - 1)
            case s.Slice():
                target = self.dictionary(e.target, env)
                self.key(e.low, env)
                self.key(e.high, env)
                return Type(target.kind, target.depth, True)
            case s.If():
                return self.branch(e, env)
            case s.Let():
                (name, value), = e.bindings
                return self.of(e.body, env | {name: self.of(value, env)})
            case s.Sum():
                return self.sum(e, env)
            case s.Dict():
                self.key(e.entries[0].keys[0], env)
                inner = self.of(e.entries[0].value, env)
                return Type(inner.kind, inner.depth + 1)
            case s.Promote():
                return self.promote(e, self.of(e.body, env))
            case _:
                raise TypeError(f"{type(e).__name__} is not of the core")

    # -- leaves and scopes -------------------------------------------------------------------
    def name(self, e: s.Name, env: dict[str, Type]) -> Type:
        if e.name == "_":
            self.fail("_ is no variable", e, "give it a name")
        if e.name not in env:
            near = get_close_matches(e.name, list(env), 3)
            known = [n for n in env if not n.startswith("_")]
            hint = f"did you mean {', '.join(near)}?" if near else (
                f"names here are {', '.join(known)}" if known else "no tensors are given")
            self.fail(f"unknown name {e.name!r}", e, hint)
        return env[e.name]

    def sum(self, e: s.Sum, env: dict[str, Type]) -> Type:
        (g,) = e.generators
        source = self.dictionary(g.source, env)
        inner = env | {g.keys[0]: INT, g.value: Type(source.kind, source.depth - 1)}
        inner.pop("_", None)
        body = self.of(e.body, inner)
        return Type(body.kind, body.depth)

    def branch(self, e: s.If, env: dict[str, Type]) -> Type:
        self.truth(e.test, self.of(e.test, env))
        then = self.of(e.then, env)
        if e.otherwise is None:
            return then
        return self.alike(e, "else", e.then, e.otherwise, then, self.of(e.otherwise, env))

    # -- demands -----------------------------------------------------------------------------
    def key(self, e: s.Expr, env: dict[str, Type]) -> None:
        found = self.of(e, env)
        if found != INT:
            hint = "int(e) makes a whole number of it" if found.depth == 0 else None
            self.fail(f"a key is a scalar of kind int, not {found}", e, hint)

    def dictionary(self, e: s.Expr, env: dict[str, Type]) -> Type:
        found = self.of(e, env)
        if found.depth == 0:
            self.fail(f"a dictionary is needed, not {found}", e)
        return found

    def scalar(self, e: s.Expr, found: Type, what: str) -> None:
        if found.depth:
            self.fail(f"{what} takes scalars, not {found}", e,
                      "sum(<k, v> in e) { k -> ... } does it for every value")

    def numeric(self, e: s.Expr, found: Type, what: str) -> None:
        if found.kind not in NUMERIC:
            self.fail(f"{what} takes numbers, not values of {found.kind}", e,
                      "real(e) is the number of such a value")

    def truth(self, e: s.Expr, found: Type) -> None:
        self.scalar(e, found, "a test")
        self.numeric(e, found, "a test")

    def meet(self, e: s.Expr, a: Type, b: Type) -> str:
        """The kind of the result of two."""
        if a.kind in NUMERIC and b.kind in NUMERIC:
            return max(a.kind, b.kind, key=NUMERIC.index)
        if a.kind != b.kind:
            self.fail(f"values of {a.kind} and of {b.kind} do not mix", e,
                      f"promote[{a.kind if a.kind not in NUMERIC else b.kind}](e) converts")
        return a.kind

    def alike(self, e: s.Expr, what: str, left: s.Expr, right: s.Expr, a: Type, b: Type) -> Type:
        """The type of two of one depth; the literal 0 has any."""
        if is_zero(left) and (b.depth or b.kind not in NUMERIC):
            return Type(b.kind, b.depth)
        if is_zero(right) and (a.depth or a.kind not in NUMERIC):
            return Type(a.kind, a.depth)
        if a.depth != b.depth:
            self.fail(f"{what} takes values of one depth, not {a} and {b}", e,
                      "sum(<k, v> in e) { k -> v + x } adds a scalar to every value")
        return Type(self.meet(e, a, b), a.depth)

    # -- operators ---------------------------------------------------------------------------
    def unary(self, e: s.Unary, arg: Type) -> Type:
        if e.op == "!":
            self.truth(e.arg, arg)
            return BOOL
        self.numeric(e.arg, arg, "-")
        return Type("int" if arg.kind == "bool" else arg.kind, arg.depth)

    def binary(self, e: s.Binary, a: Type, b: Type) -> Type:
        match e.op:
            case "&&" | "||":
                self.truth(e.left, a)
                self.truth(e.right, b)
                return BOOL
            case "+":
                return self.alike(e, "+", e.left, e.right, a, b)
            case "-":
                self.numeric(e.left, a, "-")
                self.numeric(e.right, b, "-")
                found = self.alike(e, "-", e.left, e.right, a, b)
                return Type("int" if found.kind == "bool" else found.kind, found.depth)
            case "*":
                if a.depth and b.depth and a.depth != b.depth:
                    self.fail(f"* takes values of one depth or a scalar, not {a} and {b}", e,
                              "sum(<k, v> in e) { k -> v * f } multiplies every value")
                return Type(self.meet(e, a, b), max(a.depth, b.depth))
            case "/" | "%":
                self.numeric(e.left, a, e.op)
                self.numeric(e.right, b, e.op)
                self.scalar(e.right, b, f"the right side of {e.op}")
                kind = self.meet(e, a, b)
                return Type("int" if kind == "bool" else kind, a.depth)
            case _:
                self.scalar(e.left, a, e.op)
                self.scalar(e.right, b, e.op)
                if not is_zero(e.left) and not is_zero(e.right):
                    self.meet(e, a, b)
                return BOOL

    def call(self, e: s.Call, args: list[Type]) -> Type:
        for arg, found in zip(e.args, args):
            self.scalar(arg, found, e.function)
            if e.function != "real":
                self.numeric(arg, found, e.function)
        if e.function in ("even_bits", "odd_bits"):
            if args[0].kind == "real":
                self.fail(f"{e.function} takes an int", e.args[0], "int(e) makes one")
            return INT
        if e.function == "int" or (e.function in EXACT and all(a.kind != "real" for a in args)):
            return INT
        return Type("real")

    def promote(self, e: s.Promote, body: Type) -> Type:
        self.scalar(e.body, body, "promote")
        self.numeric(e.body, body, "promote")
        return Type("bool" if e.semiring == "boolean" else e.semiring)


def is_zero(e: s.Expr) -> bool:
    """The literal 0, which is the zero of every type."""
    return isinstance(e, s.Number) and e.kind == "int" and e.value == 0
