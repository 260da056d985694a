"""SDQLite programs over named tensors, lowered to one tensor of the calculus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from tensorel.errors import ParseError, TypeError_
from tensorel.front.base import wrap
from tensorel.front.convert import asarray
from tensorel.front.sdql_data import GivenData
from tensorel.ir import nodes as ir
from tensorel.sdql.desugar import desugar
from tensorel.sdql.functions import FUNCTIONS
from tensorel.sdql.lexer import KEYWORDS
from tensorel.sdql.lower import Lowering, tensor
from tensorel.sdql.script import parse_script
from tensorel.sdql.syntax import CreatePhysical, CreateTensor, Declaration, Expr, Name, Script
from tensorel.sdql.terms import Space, Value, scalar
from tensorel.sdql.typing import Type, Types

if TYPE_CHECKING:
    from tensorel.front.array import Tensor

_KINDS = {"b": "bool", "i": "int", "u": "int"}


def lowered(text: str, tensors: Mapping[str, object]) -> ir.Tensor:
    """The node of a program over named tensors."""
    return _Program(text, tensors).run()


@lru_cache(maxsize=256)
def _parsed(text: str) -> Script:
    """The script with every expression in the core."""
    script = parse_script(text)
    found = [
        CreateTensor(s.name, desugar(s.definition), _cored(s.extents), s.at)
        if isinstance(s, CreateTensor) else s
        for s in script.statements
    ]
    return Script(tuple(found), None if script.result is None else desugar(script.result))


def _cored(extents: tuple[Expr, ...] | None) -> tuple[Expr, ...] | None:
    return None if extents is None else tuple([desugar(e) for e in extents])


class _Program:
    """A script at work: the types and the values of the names known so far."""

    def __init__(self, text: str, given: Mapping[str, object]) -> None:
        self.text = text
        self.script = _parsed(text)
        self.given = {name: asarray(x) for name, x in given.items()}
        self.space = Space(GivenData())
        self.types: dict[str, Type] = {}
        self.env: dict[str, Value] = {}
        for name, t in self.given.items():
            _check_name(name)
            self.bind(name, t, _KINDS.get(t.dtype.kind, "real"))

    def fail(self, message: str, at: int, hint: str | None = None) -> NoReturn:
        raise ParseError(message, text=self.text, position=at, hint=hint)

    def bind(self, name: str, t: Tensor, kind: str, total: bool = False) -> None:
        value = tensor(self.space, t.node, kind, total)
        if t.ndim == 0 and kind == "int" and t.given is not None:
            # Extents are made of whole numbers: these are known as the program is built.
            value = scalar(ir.const(_whole(t), ir.INT64), kind)
        self.types[name] = Type(kind, t.ndim, total)
        self.env[name] = value

    # -- statements ----------------------------------------------------------------------------
    def run(self) -> ir.Tensor:
        last: Expr | None = None
        for statement in self.script.statements:
            if isinstance(statement, CreatePhysical):
                for d in statement.declared:
                    self.declare(statement, d)
            elif isinstance(statement, CreateTensor):
                last = Name(statement.name, statement.at)
                self.define(statement)
        result = self.script.result or last
        if result is None:
            self.fail("the program has no expression", len(self.text),
                      "end it with one, or with CREATE TENSOR")
        lowering, value = self.value(result)
        return lowering.result(result, value)

    def value(self, e: Expr) -> tuple[Lowering, Value]:
        lowering = Lowering(Types(e, self.types, self.text), self.text, self.space)
        return lowering, lowering.of(e, self.env)

    def declare(self, statement: CreatePhysical, d: Declaration) -> None:
        """A physical value: it was given with the call."""
        t = self.given.get(d.name)
        if t is None:
            self.fail(f"{d.name!r} is declared and not given", d.at,
                      f"tr.sdql(text, {d.name}=...)")
        found = _KINDS.get(t.dtype.kind, "real")
        if t.ndim != len(d.extents) or (statement.kind == "int" and found == "real"):
            self.fail(f"{d.name!r} has {t.ndim} axes and dtype {t.dtype.name}, declared is "
                      f"{statement.kind} {statement.form} with {len(d.extents)}", d.at)
        declared = tuple([self.whole(desugar(e)) for e in d.extents])
        if declared != t.shape:
            self.fail(f"{d.name!r} has shape {t.shape}, declared is {declared}", d.at)
        self.bind(d.name, t, statement.kind, statement.form == "ARRAY")

    def whole(self, e: Expr) -> int:
        """The value of an extent."""
        lowering, value = self.value(e)
        if lowering.types[e] != Type("int"):
            self.fail("an extent is a whole number", e.at)
        node = lowering.result(e, value)
        assert isinstance(node, ir.Lambda)
        found = int(node.body.value) if isinstance(node.body, ir.Const) else _whole(wrap(node))
        if not 0 <= found < 2**62:
            self.fail(f"{found} is no extent", e.at)
        return found

    def define(self, statement: CreateTensor) -> None:
        """A tensor by its definition; with extents, the keys outside of them are left out. A tensor
        is never total, whatever it is made of."""
        lowering, value = self.value(statement.definition)
        found = lowering.types[statement.definition]
        if statement.extents is None:
            value = lowering.shared(self.space.plain(value))
        else:
            if len(statement.extents) != found.depth:
                self.fail(f"{statement.name!r} has {len(statement.extents)} extents, its "
                          f"definition is {found}", statement.at)
            extents = tuple([self.whole(e) for e in statement.extents])
            value = lowering.declared(statement.definition, value, extents)
        self.types[statement.name] = Type(found.kind, found.depth)
        self.env[statement.name] = value


def _check_name(name: str) -> None:
    if name in FUNCTIONS or name in KEYWORDS or name.upper() == "CREATE" or not name.isascii():
        raise TypeError_(f"sdql: {name!r} cannot be the name of a tensor",
                         hint="it is a word of the language; choose another name")


def _whole(t: Tensor) -> int:
    return int(t.to_numpy())
