"""Statements: the part of the grammar of ``parser`` above expressions."""

from __future__ import annotations

from tensorel.base.cursor import Token
from tensorel.sdql import syntax as s
from tensorel.sdql.parser import Parser


def parse_script(text: str) -> s.Script:
    """Statements, and the expression after them if there is one.

    >>> parse_script("CREATE int SCALAR n; n + 1").result is not None
    True
    """
    return _Statements(text).script()


class _Statements(Parser):
    def expr(self) -> s.Expr:
        return self.run(self.infix(0))

    def script(self) -> s.Script:
        found: list[s.Statement] = []
        while (token := self.token) and self.word("CREATE"):
            found.append(self.statement(token))
            self.skip(";")
        result = None
        if self.token.kind != "end":
            result = self.expr()
            self.skip(";")
            self.finish()
        return s.Script(tuple(found), result)

    def statement(self, start: Token) -> s.Statement:
        kind = self.word("REAL", "INT")
        form = self.word(*s.FORMS) or (self.word("TENSOR") if kind is None else None)
        if form is None:
            words = ", ".join(s.FORMS if kind else (*s.FORMS, "TENSOR"))
            self.fail(f"expected one of {words}{self.instead()}")
        if form == "TENSOR":
            return self.tensor(start)
        declared = [self.declaration(form)]
        while self.skip(","):
            declared.append(self.declaration(form))
        return s.CreatePhysical((kind or "REAL").lower(), form, tuple(declared), start.position)

    def declaration(self, form: str) -> s.Declaration:
        token = self.token
        name = self.variable("a name")
        extents: list[s.Expr] = []
        if form == "TRIE":
            while not extents or self.token.text == "(":
                self.expect("(")
                extents.append(self.expr())
                self.expect(")")
        elif form != "SCALAR":
            extents = self.extents(token)
            if form == "ARRAY" and len(extents) != 1:
                self.fail("an ARRAY has one extent", token, "a HASHMAP or a TRIE has several")
        return s.Declaration(name, tuple(extents), token.position)

    def extents(self, token: Token) -> list[s.Expr]:
        self.expect("(")
        found = [self.expr()]
        while self.skip(","):
            found.append(self.expr())
        self.expect(")")
        return found

    def tensor(self, start: Token) -> s.Statement:
        token = self.token
        name = self.variable("a name")
        extents = tuple(self.extents(token)) if self.token.text == "(" else None
        if not self.word("AS"):
            self.fail(f"expected AS{self.instead()}")
        return s.CreateTensor(name, self.expr(), extents, start.position)
