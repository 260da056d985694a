"""SDQLite programs over named tensors, lowered to one tensor of the calculus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from tensorel.errors import TypeError_
from tensorel.front.array.base import wrap
from tensorel.front.languages.program import lowered
from tensorel.ir import nodes as ir
from tensorel.language.builder import Builder
from tensorel.language.dictionaries import Value, scalar
from tensorel.sdql.desugar import desugar
from tensorel.sdql.functions import FUNCTIONS, KINDS
from tensorel.sdql.script import parse_script
from tensorel.sdql.syntax import CreatePhysical, CreateTensor, Declaration, Expr, Name, Script
from tensorel.sdql.to_calculus import HINTS, Lowering
from tensorel.sdql.tokens import KEYWORDS
from tensorel.sdql.typing import Type, Types

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

_KINDS = {"b": "bool", "i": "int", "u": "int"}


def node_of(text: str, tensors: Mapping[str, object]) -> ir.Tensor:
    """The node of a program over named tensors."""
    return lowered("sdql", text, tensors, lambda build, given: _Program(build, given).run(), HINTS)


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

    def __init__(self, builder: Builder, given: Mapping[str, Tensor]) -> None:
        self.builder = builder
        self.script = _parsed(builder.text)
        self.given = given
        self.types: dict[str, Type] = {}
        self.env: dict[str, Value] = {}
        for name, t in self.given.items():
            _check_name(name)
            self.bind(name, t, _KINDS.get(t.dtype.kind, "real"))

    def fail(self, message: str, at: int, hint: str | None = None) -> NoReturn:
        self.builder.fail(message, at, hint)

    def bind(self, name: str, t: Tensor, kind: str, total: bool = False) -> None:
        value = self.builder.tensor(t.node, KINDS[kind], total, name)
        if t.ndim == 0 and kind == "int" and t.given is not None:
            # Extents are made of whole scalars, whose values are needed to build the program.
            value = scalar(ir.const(_whole(t), ir.INT64), KINDS[kind])
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
            self.fail("the program has no expression", len(self.builder.text),
                      "end it with one, or with CREATE TENSOR")
        return self.builder.result(self.value(result)[1], result.at)

    def value(self, e: Expr) -> tuple[Type, Value]:
        types = Types(e, self.types, self.builder.text)
        return types[e], Lowering(types, self.builder).of(e, self.env)

    def declare(self, statement: CreatePhysical, d: Declaration) -> None:
        """Check and bind a physical value, which is given with the call."""
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
        of, value = self.value(e)
        if of != Type("int"):
            self.fail("an extent is a whole number", e.at)
        node = self.builder.result(value, e.at)
        assert isinstance(node, ir.Lambda)
        found = int(node.body.value) if isinstance(node.body, ir.Const) else _whole(wrap(node))
        if not 0 <= found < 2**62:
            self.fail(f"{found} is no extent", e.at)
        return found

    def define(self, statement: CreateTensor) -> None:
        """A tensor by its definition; with extents, the keys outside of them are left out. A tensor
        is never total, whatever it is made of."""
        found, value = self.value(statement.definition)
        if statement.extents is None:
            value = self.builder.shared(self.builder.plain(value))
        else:
            if len(statement.extents) != found.depth:
                self.fail(f"{statement.name!r} has {len(statement.extents)} extents, its "
                          f"definition is {found}", statement.at)
            extents = tuple([self.whole(e) for e in statement.extents])
            value = self.builder.declared(value, statement.definition.at, extents)
        self.types[statement.name] = Type(found.kind, found.depth)
        self.env[statement.name] = value


def _check_name(name: str) -> None:
    if name in FUNCTIONS or name in KEYWORDS or name.upper() == "CREATE" or not name.isascii():
        raise TypeError_(f"sdql: {name!r} cannot be the name of a tensor",
                         hint="it is a word of the language; choose another name")


def _whole(t: Tensor) -> int:
    return int(t.to_numpy())
