"""Definitions with the same formula are computed once, whatever their indices are called."""

from __future__ import annotations

from dataclasses import replace

from tensorel.ir.nodes import Expr, Index, Lambda, Source, substitute
from tensorel.plan.definitions import Definition, Program, reading
from tensorel.rewrite.names import rename_bound


def share_definitions(program: Program) -> None:
    """Read the first of several equal definitions in place of the others."""
    alike: dict[object, list[Definition]] = {}
    instead: dict[object, Source] = {}
    kept: list[Definition] = []
    asked = set(program.results)
    keys: dict[Definition, object] = {}
    for d in program.definitions:
        if instead:
            d = replace(d, tensor=reading(d.tensor, instead))
        others = alike.setdefault(_look(d), []) if isinstance(d.tensor, Lambda) else []
        same = next((x for x in others if _key(x, keys) == _key(d, keys)), None)
        if same is not None and d.name not in asked and same.source().fill is d.source().fill:
            instead[d.ref] = same.source()
            program.fire("share: equal definitions are computed once")
            continue
        if same is None:
            others.append(d)
        kept.append(d)
    program.definitions = kept


def _look(d: Definition) -> object:
    """What equal formulas have in common at first sight."""
    body = d.tensor.body  # type: ignore[union-attr]
    return d.shape, body.reads, type(body), body.dtype, d.format


def _key(d: Definition, known: dict[Definition, object]) -> object:
    """The formula up to the names of its indices. A pinned format is part of it."""
    found = known.get(d)
    if found is None:
        lam = d.tensor
        assert isinstance(lam, Lambda)
        places: dict[str, Expr] = {a.name: Index(f"\1{k}") for k, a in enumerate(lam.axes)}
        found = known[d] = rename_bound(substitute(lam.body, places)), d.shape, d.format
    return found
