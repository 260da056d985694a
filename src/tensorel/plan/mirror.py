"""Matrices that are each other's transpose are computed once: of X.T @ X over a star join, block
(p, q) is block (q, p) with its axes exchanged."""

from __future__ import annotations

from tensorel.ir.nodes import Expr, Index, Lambda, Read, Reduce, Source, postorder, substitute
from tensorel.plan.definitions import Definition, Program, Ref, replace_exprs, sources_of
from tensorel.rewrite.polynomial import canonical


def share_transposed(program: Program) -> None:
    """Read the first of two such definitions with its indices exchanged in place of the second.

    Formulas are compared as polynomials, so this reassociates; what an operator or a copy reads
    whole stays."""
    groups: dict[object, list[Definition]] = {}
    fixed = _read_whole(program)
    for d in program.definitions:
        lam = d.tensor
        if isinstance(lam, Lambda) and isinstance(lam.body, Reduce) and len(lam.axes) == 2:
            a, b = sorted([a.extent for a in lam.axes])
            key = (a, b, lam.body.op, lam.dtype, frozenset(sources_of(lam.body)), d.source().fill)
            groups.setdefault(key, []).append(d)
    instead: dict[object, Source] = {}
    for group in groups.values():
        forms: dict[object, Definition] = {}
        for d in group if len(group) > 1 else ():
            same = forms.get(_form(d, exchanged=True)) if forms else None
            if same is not None and d.ref not in fixed and d.format is None:
                instead[d.ref] = same.source()
            else:
                forms.setdefault(_form(d, exchanged=False), d)
    if instead:
        program.fire("share-transposed: a matrix and its transpose are computed once",
                     len(instead))
        program.definitions = [d for d in program.definitions if d.ref not in instead]
        program.map_bodies(lambda lam: _exchanged(lam.body, instead))


def _read_whole(program: Program) -> set[object]:
    """What is asked for, or read by something that is no formula."""
    asked = set(program.results)
    found: set[object] = {d.ref for d in program.definitions if d.name in asked}
    for d in program.definitions:
        if not isinstance(d.tensor, Lambda):
            found.update([s.data for s in sources_of(d.tensor)])
    return found


def _form(d: Definition, exchanged: bool) -> object:
    """The formula as a polynomial of its first and second index."""
    lam = d.tensor
    assert isinstance(lam, Lambda)
    axes = lam.axes[::-1] if exchanged else lam.axes
    places: dict[str, Expr] = {a.name: Index(f"\1{k}") for k, a in enumerate(axes)}
    return canonical(substitute(lam.body, places)), tuple(a.extent for a in axes)


def _exchanged(body: Expr, instead: dict[object, Source]) -> Expr:
    table: dict[Expr, Expr] = {}
    for x in postorder(body):
        if isinstance(x, Read) and isinstance(x.tensor, Source) and isinstance(x.tensor.data, Ref) \
                and x.tensor.data in instead:
            i, j = x.indices
            table[x] = Read(instead[x.tensor.data], (replace_exprs(j, table),
                                                     replace_exprs(i, table)))
    return replace_exprs(body, table) if table else body
