r"""Text to the syntax tree; ``printer.show`` is its inverse.

    program    = { typemap } expr
    expr       = "if" [ "(" ] expr [ ")" ] [ "then" ] expr "else" expr
               | expr infix expr | "-" expr | "!" expr | expr ".." expr
               | monoid "/" factor                      +/v, avg/(a*b), max/[ ... ]
               | expr "[" expr { "," expr } "]"         the cell of a tensor
               | function "(" expr { "," expr } ")"
               | ("tensor" | "tensor" "*" | mapping) "(" extents ")" [ "(" extents ")" ] factor
               | "[" expr "|" qualifier { "," qualifier } "]"
               | "(" expr { "," expr } ")" | name | number | "true" | "false" | "inf" | "nan"
    qualifier  = pattern ("<-" | "<=") expr             entries unlike the fill; every cell
               | "let" pattern "=" expr | "group" "by" pattern [ ":" expr ] | expr
    pattern    = name | "_" | "(" [ pattern { "," pattern } ] ")"
    monoid     = "+" | "*" | "min" | "max" | "&&" | "||" | "avg" | "count" | "last"
    typemap    = "typemap" name [ "[" name "]" ] "(" params ")" [ ":" type ]
                 "{" "def" "view" "(" params ")" "=" comprehension { "def" ... } "}"

Infix operators, loosest first: ||, &&, comparisons (not chained), the range .., + -, * / %, the
sign -. An aggregation binds as tightly as a sign, so ``+/v / count/v`` is a quotient. After a
pattern ``<=`` is the full scan: a comparison of a bare name is written ``(i) <= n`` or ``n >= i``.
// starts a comment.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NoReturn, TypeAlias, TypeVar

from tensorel.base.cursor import Cursor, Token
from tensorel.comprehension import syntax as s
from tensorel.comprehension.functions import ALIASES, MONOIDS, is_function, takes
from tensorel.comprehension.tokens import KEYWORDS, TOKEN

T = TypeVar("T")
Steps: TypeAlias = "Generator[Any, Any, T]"

#: Binding strength of infix symbols.
LEVELS: dict[str, int] = {"||": 1, "&&": 2}
LEVELS |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 3)
LEVELS |= {"..": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
COMPARE, RANGE = 3, 4
ARROWS = {"<-": False, "←": False, "<=": True, "⇐": True}
MAX_DEPTH = 150


def parse(text: str) -> s.Program:
    """The program that ``text`` says.

    >>> parse("a + 2 * b") == parse("a + (2 * b)")
    True
    """
    reader = Parser(text)
    found = reader.run(reader.program())
    reader.finish()
    return found


class Parser(Cursor):
    """The rules of the grammar."""

    pattern = TOKEN
    keywords = KEYWORDS
    deepest = 4 * MAX_DEPTH

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.maps: dict[str, s.TypeMap] = {}
        self.arrays: tuple[str, ...] = ()  # of the view that is read: a(i) is a cell, too
        self.nested = 0

    def too_deep(self, token: Token) -> NoReturn:
        self.fail(f"nested more than {MAX_DEPTH} deep", token)

    def program(self) -> Steps[s.Program]:
        while self.token.text == "typemap":
            made = yield self.typemap()
            self.maps[made.name] = made
        body = yield self.infix(0)
        self.skip(";")
        return s.Program(tuple(self.maps.values()), body)

    # -- operators ---------------------------------------------------------------------------
    def infix(self, least: int) -> Steps[s.Expr]:
        left: s.Expr = yield self.prefix()
        height = 0
        while (op := self.operator()) and (level := LEVELS[op]) >= least:
            token = self.take()
            right = yield self.infix(level + 1)
            at = token.position
            left = s.Range(left, right, at) if op == ".." else s.Binary(op, left, right, at)
            height += 1
            if height > MAX_DEPTH:
                self.too_deep(token)
            if level in (COMPARE, RANGE) and (again := self.operator()) and LEVELS[again] == level:
                hint = "write a < b && b < c" if level == COMPARE else None
                self.fail(f"{again!r} cannot follow {op!r}", hint=hint)
        return left

    def operator(self) -> str | None:
        token = self.token
        if token.kind != "symbol" or token.text not in LEVELS:
            return None
        return token.text

    def prefix(self) -> Steps[s.Expr]:
        token = self.token
        made: s.Expr
        if token.text in ("-", "!") and token.kind == "symbol" and self.next_text != "/":
            self.take()
            arg = yield self.prefix()
            if token.text == "-" and isinstance(arg, s.Number) and type(arg.value) is not bool:
                return s.Number(-arg.value, token.position)
            return s.Unary(token.text, arg, token.position)
        if token.text == "if":
            made = yield self.choice(token)
            return made
        monoid = self.monoid()
        if monoid is not None:
            body = yield self.prefix()
            return s.Aggregate(monoid, body, token.position)
        made = yield self.postfix()
        return made

    def monoid(self) -> str | None:
        """Take ``monoid /``, if that is what follows."""
        token = self.token
        name = ALIASES.get(token.text, token.text)
        if token.kind in ("name", "symbol") and name in MONOIDS and self.follows(token.text, "/"):
            self.take()
            self.take()
            return name
        return None

    def choice(self, token: Token) -> Steps[s.Expr]:
        self.expect("if")
        test = yield self.infix(0)
        self.skip("then")
        then = yield self.infix(0)
        if not self.skip("else"):
            self.fail(f"expected 'else'{self.instead()}",
                      hint="a choice has both: if (c) then x else y; a condition is a qualifier")
        return s.If(test, then, (yield self.infix(0)), token.position)

    def postfix(self) -> Steps[s.Expr]:
        found: s.Expr = yield self.atom()
        while self.token.text == "[" and self.token.kind == "symbol":
            token = self.take()
            found = s.Access(found, (yield self.listed("]")), token.position)
        return found

    def listed(self, close: str) -> Steps[tuple[s.Expr, ...]]:
        """Expressions with commas between, and what closes them."""
        found: list[s.Expr] = []
        while not self.skip(close):
            if found:
                self.expect(",")
            found.append((yield self.infix(0)))
        return tuple(found)

    # -- atoms -------------------------------------------------------------------------------
    def atom(self) -> Steps[s.Expr]:
        token = self.token
        at = token.position
        made: s.Expr
        if token.kind == "number":
            self.take()
            whole = token.text.isdigit()
            return s.Number(int(token.text) if whole else float(token.text), at)
        if token.text in ("true", "false", "inf", "nan"):
            self.take()
            return s.Number({"true": True, "false": False, "inf": float("inf"),
                             "nan": float("nan")}[token.text], at)
        if token.text == "tensor" or (token.text in self.maps and self.next_text == "("):
            made = yield self.stored(token)
            return made
        if self.skip("("):
            items: tuple[s.Expr, ...] = yield self.listed(")")
            return items[0] if len(items) == 1 else s.Tuple(items, at)
        if token.text == "[":
            made = yield self.comprehension()
            return made
        name = self.identifier("an expression")
        if self.token.text != "(":
            return s.Name(name, at)
        if name in self.arrays:
            self.take()
            return s.Access(s.Name(name, at), (yield self.listed(")")), at)
        made = yield self.call(name, token)
        return made

    def call(self, name: str, token: Token) -> Steps[s.Expr]:
        if not is_function(name):
            self.fail(f"{name!r} is no function", token,
                      f"a cell of a tensor is {name}[i, j]; functions are abs, sqrt, exp, min, ...")
        self.expect("(")
        args = yield self.listed(")")
        if not takes(name, len(args)):
            self.fail(f"{name} does not take {len(args)} arguments", token)
        return s.Call(name, args, token.position)

    def stored(self, token: Token) -> Steps[s.Expr]:
        name = self.take().text
        mapping = "" if name == "tensor" else name
        blocks = not mapping and self.skip("*")
        self.expect("(")
        dense = yield self.listed(")")
        sparse: tuple[s.Expr, ...] = ()
        if self.token.text == "(" and not mapping:
            self.take()
            sparse = yield self.listed(")")
        body = yield self.prefix()
        if mapping and len(dense) != len(self.maps[mapping].params):
            self.fail(f"{mapping} has {len(self.maps[mapping].params)} parameters", token)
        return s.Stored(dense, sparse, body, blocks, mapping, False, token.position)

    # -- comprehensions ----------------------------------------------------------------------
    def comprehension(self) -> Steps[s.Comprehension]:
        token = self.take()
        self.nested += 1
        if self.nested > MAX_DEPTH:
            self.too_deep(token)
        head = yield self.infix(0)
        found: list[s.Qualifier] = []
        if not self.skip("|"):
            self.fail(f"expected '|'{self.instead()}", hint="[ head | qualifier, qualifier, ... ]")
        while not found or self.skip(","):
            found.append((yield self.qualifier()))
        self.expect("]")
        self.nested -= 1
        return s.Comprehension(head, tuple(found), token.position)

    def qualifier(self) -> Steps[s.Qualifier]:
        token = self.token
        at = token.position
        if self.skip("let"):
            pattern = self.pattern_here()
            self.expect("=")
            return s.Let(pattern, (yield self.infix(0)), at)
        if self.follows("group", "by"):
            self.take()
            self.take()
            pattern = self.pattern_here()
            key = (yield self.infix(0)) if self.skip(":") else None
            return s.Group(pattern, key, at)
        start = self.at
        drawn = self.draws()
        if drawn is not None:
            full = ARROWS[self.take().text]
            return s.Draw(drawn, (yield self.infix(0)), full, at)
        self.at = start
        return s.Test((yield self.infix(0)), at)

    def draws(self) -> s.AnyPattern | None:
        """The pattern of a generator, if one begins here. ``(i)`` is no pattern: ``(i) <= n``
        compares."""
        depth, ahead = 0, self.at
        if self.tokens[ahead].text == "(" and self.tokens[min(
                ahead + 2, len(self.tokens) - 1)].text == ")":
            return None
        while True:
            token = self.tokens[ahead]
            if token.text == "(":
                depth += 1
            elif token.text == ")":
                depth -= 1
            elif token.text != "," and (token.kind != "name" or token.text in KEYWORDS):
                return None
            ahead += 1
            if depth <= 0:
                break
        if self.tokens[ahead].text not in ARROWS or self.tokens[ahead].kind != "symbol":
            return None
        return self.pattern_here()

    def pattern_here(self) -> s.AnyPattern:
        token = self.token
        if not self.skip("("):
            return s.Bind(self.identifier("a name or a tuple of names"), token.position)
        items: list[s.AnyPattern] = []
        while not self.skip(")"):
            if items:
                self.expect(",")
            items.append(self.pattern_here())
        return items[0] if len(items) == 1 else s.Pattern(tuple(items), token.position)

    # -- type maps ---------------------------------------------------------------------------
    def typemap(self) -> Steps[s.TypeMap]:
        token = self.take()
        name = self.identifier("the name of the mapping")
        if self.skip("["):
            self.identifier("a type")
            self.expect("]")
        params = self.params()
        if self.skip(":"):
            self.type_()
        self.expect("{")
        view: s.Comprehension | None = None
        arrays: tuple[str, ...] = ()
        while not self.skip("}"):
            self.expect("def")
            what = self.identifier("view or store")
            if what == "view":
                arrays = self.arrays = self.params()
                self.expect("=")
                if self.token.text != "[":
                    self.fail(f"expected a comprehension{self.instead()}")
                view = yield self.comprehension()
                self.arrays = ()
            else:
                self.unread()
        if view is None:
            self.fail(f"typemap {name} has no view", token,
                      "def view(a: Array) = [ (key, a[place]) | ... ]; store is derived from it")
        return s.TypeMap(name, params, arrays, view, token.position)

    def params(self) -> tuple[str, ...]:
        """Names with types, which are checked by what is given."""
        self.expect("(")
        found: list[str] = []
        while not self.skip(")"):
            if found:
                self.expect(",")
            found.append(self.identifier("a name"))
            if self.token.text == ":":
                self.take()
                self.type_()
        return tuple(found)

    def type_(self) -> None:
        """Int, Array[T], (Int, Int): read over."""
        depth = 0
        while True:
            token = self.token
            if token.kind == "end" or (depth == 0 and token.text in (",", ")", "{", "=")):
                return
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            self.take()

    def unread(self) -> None:
        """``def store``: what is derived from the view is read over, to the end of its braces."""
        depth = 0
        while self.token.kind != "end":
            text = self.token.text
            if depth == 0 and text in ("def", "}"):
                return
            depth += (text == "{") - (text == "}")
            self.take()
