"""Definitions with the same formula are computed once, whatever their indices are called."""

from __future__ import annotations

from dataclasses import replace

from tensorel.ir.nodes import Expr, Index, Lambda, Source, is_same_literal
from tensorel.ir.replacing import substitute
from tensorel.plan.definitions import Definition, Program, reading
from tensorel.rewrite.names import rename_bound


def share_definitions(program: Program) -> None:
    """Read the first of several equal definitions in place of the others."""
    shared = Shared(program)
    kept: list[Definition] = []
    for d in program.definitions:
        d = shared.reading(d)
        if not shared.is_known(d):
            kept.append(d)
    program.definitions = kept


class Shared:
    """Definitions that were met, and what to read in place of equal ones that come later."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.asked = set(program.results)
        self.alike: dict[object, list[Definition]] = {}
        self.instead: dict[object, Source] = {}
        self.keys: dict[Definition, object] = {}

    def reading(self, d: Definition) -> Definition:
        """The definition with reads of the first of equal ones."""
        return replace(d, tensor=reading(d.tensor, self.instead)) if self.instead else d

    def is_known(self, d: Definition) -> bool:
        """Whether an equal one came before, which is read in its place from now on."""
        others = self.alike.setdefault(_look(d), []) if isinstance(d.tensor, Lambda) else []
        same = next((x for x in others if self._key(x) == self._key(d)), None)
        if same is None:
            others.append(d)
        elif d.name not in self.asked and is_same_literal(same.source().fill, d.source().fill):
            self.instead[d.ref] = same.source()
            self.program.fire("share: equal definitions are computed once")
            return True
        return False

    def _key(self, d: Definition) -> object:
        found = self.keys.get(d)
        if found is None:
            found = self.keys[d] = formula_key(d)
        return found


def formula_key(d: Definition) -> object:
    """The formula up to the names of its indices. A pinned format is part of it."""
    lam = d.tensor
    assert isinstance(lam, Lambda)
    places: dict[str, Expr] = {a.name: Index(f"\1{k}") for k, a in enumerate(lam.axes)}
    return rename_bound(substitute(lam.body, places)), d.shape, d.format


def _look(d: Definition) -> object:
    """What equal formulas have in common at first sight."""
    body = d.tensor.body  # type: ignore[union-attr]
    return d.shape, body.reads, type(body), body.dtype, d.format
