r"""Text to the syntax tree; ``printer.show`` is its inverse.

    script     = { statement [ ";" ] } [ expr [ ";" ] ]
    statement  = "CREATE" [ "real" | "int" ] "SCALAR" name { "," name }
               | "CREATE" [ "real" | "int" ] "ARRAY" name "(" expr ")" { "," ... }
               | "CREATE" [ "real" | "int" ] "HASHMAP" name "(" expr { "," expr } ")" { "," ... }
               | "CREATE" [ "real" | "int" ] "TRIE" name { "(" expr ")" } { "," ... }
               | "CREATE" "TENSOR" name [ "(" expr { "," expr } ")" ] "AS" expr
    expr       = "sum" "(" generator { "," generator } ")" expr
               | "merge" "(" "<" var "," var "," var ">" "in" "<" expr "," expr ">" ")" expr
               | "let" name "=" expr { "," name "=" expr } "in" expr
               | "if" expr "then" expr [ "else" expr ]
               | expr infix expr | "-" expr | "!" expr | "not" expr
               | expr ":" expr                         range: 0:n
               | expr "(" expr { "," expr } ")"        value at a key
               | expr "(" expr ":" expr ")"            sub-array
               | function "(" expr { "," expr } ")"    exp(x), min(x, y)
               | "promote" "[" semiring "]" "(" expr ")"
               | "{" entry { "," entry } "}"
               | "(" expr ")" | name | number | "true" | "false" | "inf"
    generator  = "<" keys "," [ var ] ">" "in" expr
    keys       = var | "(" [ var { "," var } ] ")" | "<" var { "," var } ">"
    entry      = { "@unique" | "@dense" | "@hash" | "@shared" } entrykey "->" expr
    entrykey   = expr | "(" [ expr { "," expr } ] ")"
    var        = name | "_"

Infix operators, loosest first: || or, && and, ! not, comparisons (== != < <= > >=, not chained),
the range :, + -, * / %, the sign -, application. sum, merge, let and if reach as far to the right
as they can; an else belongs to the nearest if. Between "<" and ">" of a merge, comparisons need
parentheses. Words of statements stand in any case. // starts a comment.

No tree is deeper than MAX_DEPTH: whoever walks one may do so recursively.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from difflib import get_close_matches
from typing import NoReturn, TypeAlias, TypeVar

from tensorel.base.cursor import Token
from tensorel.sdql import syntax as s
from tensorel.sdql.functions import ALIASES, FUNCTIONS, SEMIRINGS
from tensorel.sdql.tokens import Reader

Step: TypeAlias = "Generator[Step, s.Expr, s.Expr]"
T = TypeVar("T")
Steps: TypeAlias = "Generator[Step, s.Expr, T]"

#: Binding strength of infix symbols.
LEVELS: dict[str, int] = {"||": 1, "&&": 2}
LEVELS |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4)
LEVELS |= {":": 5, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}
NOT, COMPARE, RANGE, SIGN, ATOM = 3, 4, 5, 8, 9
WORDS = {"or": "||", "and": "&&", "not": "!"}

#: How deep a tree may be after desugaring.
MAX_DEPTH = 200


def parse(text: str) -> s.Expr:
    """The expression that ``text`` says.

    >>> parse("a + 2 * b") == parse("a + (2 * b)")
    True
    """
    reader = Parser(text)
    found = reader.run(reader.infix(0))
    reader.finish()
    return found


class Parser(Reader):
    """The rules of expressions."""

    deepest = 4 * MAX_DEPTH

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.deep: dict[int, int] = {}
        self.kept: list[s.Expr] = []

    def node(self, token: Token, node: T, weight: int = 1) -> T:
        """A new node, if it is not too deep. ``weight``: its height after desugaring."""
        if isinstance(node, s.Expr):
            below = max((self.deep.get(id(p), 0) for p in s.parts(node)), default=0)
            if below + weight > MAX_DEPTH:
                self.too_deep(token)
            self.deep[id(node)] = below + weight
            self.kept.append(node)  # an id stays that of this node
        return node

    def too_deep(self, token: Token) -> NoReturn:
        self.fail(f"nested more than {MAX_DEPTH} deep", token, "name parts of it by CREATE TENSOR")

    # -- operators ---------------------------------------------------------------------------
    def infix(self, least: int) -> Step:
        left = yield from self.prefix()
        while (op := self.operator()) and (level := LEVELS[op]) >= least:
            token = self.take()
            right = yield self.infix(level + 1)
            made = (s.Range(left, right, token.position) if op == ":"
                    else s.Binary(op, left, right, token.position))
            left = self.node(token, made)
            if level in (COMPARE, RANGE) and (again := self.operator()) and LEVELS[again] == level:
                hint = "write a < b && b < c" if level == COMPARE else None
                self.fail(f"{again!r} cannot follow {op!r}", hint=hint)
        return left

    def operator(self) -> str | None:
        token = self.token
        text = WORDS.get(token.text, token.text)
        return text if token.kind in ("symbol", "name") and text in LEVELS else None

    def prefix(self) -> Steps[s.Expr]:
        token = self.token
        if self.skip("-"):
            arg = yield self.infix(SIGN)
            return self.node(token, s.Unary("-", arg, token.position))
        if token.text in ("!", "not"):
            self.take()
            arg = yield self.infix(NOT)
            return self.node(token, s.Unary("!", arg, token.position))
        if token.kind == "name" and token.text in _FORMS:
            self.take()
            return (yield from _FORMS[token.text](self, token))
        return (yield from self.postfix())

    # -- forms that reach to the end ---------------------------------------------------------
    def sum(self, token: Token) -> Steps[s.Expr]:
        self.expect("(")
        bound: set[str] = set()
        found = [(yield from self.generator(bound))]
        while self.skip(","):
            found.append((yield from self.generator(bound)))
        self.expect(")")
        body = yield self.infix(0)
        weight = sum(2 * len(g.keys) + 1 for g in found)
        return self.node(token, s.Sum(tuple(found), body, token.position), weight)

    def generator(self, bound: set[str]) -> Steps[s.Generator]:
        """``bound``: the variables of the generators before, to which those of this one come. A
        key may be among them, a join; a value may not."""
        token = self.token
        self.expect("<")
        keys = self.keys()
        self.expect(",")
        bound.update(keys)
        place = self.token
        value = "_" if place.text == ">" else self.variable("a variable")
        if value in bound - {"_"}:
            self.fail(f"{value!r} is bound twice in one sum", place, "only keys are joined")
        bound.add(value)
        self.expect(">")
        self.expect("in")
        source = yield self.infix(0)
        return s.Generator(keys, value, source, token.position)

    def keys(self) -> tuple[str, ...]:
        close = {"(": ")", "<": ">"}.get(self.token.text)
        if close is None:
            return (self.variable("a variable"),)
        self.take()
        found: list[str] = []
        while not self.skip(close):
            if found:
                self.expect(",")
            found.append(self.variable("a variable"))
        return tuple(found)

    def merge(self, token: Token) -> Steps[s.Expr]:
        self.expect("(")
        self.expect("<")
        first = self.variable("a variable")
        self.expect(",")
        second = self.variable("a variable")
        self.expect(",")
        place = self.token
        value = self.variable("a variable")
        if value in {first, second} - {"_"}:
            self.fail(f"{value!r} is bound twice in one merge", place)
        self.expect(">")
        self.expect("in")
        self.expect("<")
        left = yield self.infix(RANGE)
        self.expect(",")
        right = yield self.infix(RANGE)
        self.expect(">")
        self.expect(")")
        body = yield self.infix(0)
        made = s.Merge((first, second), value, left, right, body, token.position)
        return self.node(token, made, 3)

    def let(self, token: Token) -> Steps[s.Expr]:
        bindings: list[tuple[str, s.Expr]] = []
        while not bindings or self.skip(","):
            name = self.variable("a variable")
            self.expect("=")
            value = yield self.infix(0)
            bindings.append((name, value))
        self.expect("in")
        body = yield self.infix(0)
        return self.node(token, s.Let(tuple(bindings), body, token.position), len(bindings))

    def branch(self, token: Token) -> Steps[s.Expr]:
        test = yield self.infix(0)
        if not self.skip("then"):
            self.fail(f"expected 'then'{self.instead()}", hint="if (test) then e")
        then = yield self.infix(0)
        otherwise = None
        if self.skip("else"):
            otherwise = yield self.infix(0)
        return self.node(token, s.If(test, then, otherwise, token.position))

    def promotion(self, token: Token) -> Steps[s.Expr]:
        self.expect("[")
        place = self.token
        name = self.identifier("a semiring")
        semiring = ALIASES.get(name, name)
        if semiring not in SEMIRINGS:
            known = f"semirings are {', '.join(SEMIRINGS)}"
            self.fail(f"unknown semiring {name!r}", place, known)
        self.expect("]")
        self.expect("(")
        body = yield self.infix(0)
        self.expect(")")
        return self.node(token, s.Promote(semiring, body, token.position))

    # -- operands ----------------------------------------------------------------------------
    def postfix(self) -> Steps[s.Expr]:
        found = yield from self.primary()
        while (token := self.token).text == "(":
            self.take()
            keys = [(yield self.infix(0))]
            while self.skip(","):
                keys.append((yield self.infix(0)))
            self.expect(")")
            first = keys[0]
            if len(keys) == 1 and isinstance(first, s.Range):
                made: s.Expr = s.Slice(found, first.low, first.high, token.position)
            else:
                made = s.Apply(found, tuple(keys), token.position)
            found = self.node(token, made, len(keys))
        return found

    def primary(self) -> Steps[s.Expr]:
        token = self.token
        if token.kind == "number":
            return self.number(self.take())
        if self.skip("("):
            inner = yield self.infix(0)
            self.expect(")")
            return inner
        if self.skip("{"):
            return (yield from self.dictionary(token))
        if self.skip("promote"):
            return (yield from self.promotion(token))
        if token.text in _CONSTANTS:
            self.take()
            return self.node(token, s.Number(*_CONSTANTS[token.text], token.position))
        if token.text in FUNCTIONS and self.next_text == "(":
            self.take()
            return (yield from self.call(token))
        if token.text.upper() == "CREATE":
            self.fail("a statement stands where an expression is needed")
        name = self.identifier("an expression")
        return self.node(token, s.Name(name, token.position))

    def number(self, token: Token) -> s.Expr:
        if token.text.isdigit():
            value: int | float = int(token.text) if len(token.text) < 25 else 2**63
            kind = "int"
            if value >= 2**63:
                self.fail("the number does not fit in 64 bits", token, "write a real: 1e20")
        else:
            value, kind = float(token.text), "real"
            if value == float("inf"):
                self.fail("a number is too large", token, "write inf")
        return self.node(token, s.Number(value, kind, token.position))

    def call(self, token: Token) -> Steps[s.Expr]:
        self.expect("(")
        args = [(yield self.infix(0))]
        while self.skip(","):
            args.append((yield self.infix(0)))
        self.expect(")")
        wanted = FUNCTIONS[token.text]
        if len(args) != wanted:
            arguments = "argument" if wanted == 1 else "arguments"
            self.fail(f"{token.text} takes {wanted} {arguments}, not {len(args)}", token)
        return self.node(token, s.Call(token.text, tuple(args), token.position))

    # -- dictionaries ------------------------------------------------------------------------
    def dictionary(self, token: Token) -> Steps[s.Expr]:
        if self.token.text == "}":
            self.fail("a dictionary has an entry at least", hint="the zero of any type is 0")
        entries = [(yield from self.entry())]
        while self.skip(","):
            entries.append((yield from self.entry()))
        self.expect("}")
        weight = len(entries) + max(len(e.keys) for e in entries)
        return self.node(token, s.Dict(tuple(entries), token.position), weight)

    def entry(self) -> Steps[s.Entry]:
        token = self.token
        marks: list[str] = []
        while self.skip("@"):
            place = self.token
            mark = self.identifier("unique, dense or hash")
            if mark not in s.MARKS:
                near = get_close_matches(mark, s.MARKS, 1)
                hint = f"did you mean @{near[0]}?" if near else "marks are @unique, @dense, @hash"
                self.fail(f"unknown mark @{mark}", place, hint)
            marks.append(mark)
        keys = yield from self.entry_keys()
        self.expect("->")
        value = yield self.infix(0)
        ordered = tuple(m for m in s.MARKS if m in marks)
        return s.Entry(keys, value, ordered, token.position)

    def entry_keys(self) -> Steps[tuple[s.Expr, ...]]:
        """A parenthesis is a tuple of keys if an arrow follows it, else the start of one key."""
        if self.token.text == "(" and self.after_parenthesis() == "->":
            self.take()
            keys: list[s.Expr] = []
            while not self.skip(")"):
                if keys:
                    self.expect(",")
                keys.append((yield self.infix(0)))
            return tuple(keys)
        one = yield self.infix(0)
        return (one,)

    def after_parenthesis(self) -> str:
        """The text of the token after the parenthesis that opens here."""
        deep = 0
        for k in range(self.at, len(self.tokens)):
            text = self.tokens[k].text
            deep += (text == "(") - (text == ")")
            if deep == 0:
                return self.tokens[min(k + 1, len(self.tokens) - 1)].text
        return ""


_CONSTANTS: dict[str, tuple[int | float, str]] = {
    "true": (1, "bool"), "false": (0, "bool"), "inf": (float("inf"), "real"),
}
_FORMS: dict[str, Callable[[Parser, Token], Steps[s.Expr]]] = {
    "sum": Parser.sum, "merge": Parser.merge, "let": Parser.let, "if": Parser.branch,
}
