"""Definitions with the same formula are computed once, whatever their indices are called."""

from __future__ import annotations

from dataclasses import replace

from tensorel.ir.nodes import Expr, Index, Lambda, Source, substitute
from tensorel.plan.definitions import Definition, Program, reading
from tensorel.rewrite.names import rename_bound


def share_definitions(program: Program) -> None:
    """Read the first of several equal definitions in place of the others."""
    first: dict[object, Definition] = {}
    instead: dict[object, Source] = {}
    kept: list[Definition] = []
    asked = set(program.results)
    for d in program.definitions:
        if instead:
            d = replace(d, tensor=reading(d.tensor, instead))
        key = _key(d)
        same = first.get(key) if key is not None else None
        if same is not None and d.name not in asked and same.source().fill is d.source().fill:
            instead[d.ref] = same.source()
            program.fire("share: equal definitions are computed once")
            continue
        if key is not None:
            first.setdefault(key, d)
        kept.append(d)
    program.definitions = kept


def _key(d: Definition) -> object:
    """The formula up to the names of its indices; None for what is no formula. A pinned format
    is part of it."""
    lam = d.tensor
    if not isinstance(lam, Lambda):
        return None
    places: dict[str, Expr] = {a.name: Index(f"\1{k}") for k, a in enumerate(lam.axes)}
    extents = tuple(a.extent for a in lam.axes)
    return rename_bound(substitute(lam.body, places)), extents, d.format
