"""What is computed once: definitions with the same formula, whatever their indices are called, and
matrices that are each other's transpose: of X.T @ X over a star join, block (p, q) is block (q, p)
with its axes exchanged."""

from __future__ import annotations

from dataclasses import replace

from tensorel.ir.nodes import Expr, Index, Lambda, Read, Reduce, Source, is_same_literal, postorder
from tensorel.ir.replacing import substitute
from tensorel.plan.definitions import (
    Definition,
    Program,
    Ref,
    distributing,
    factors_of,
    reading,
    replace_exprs,
    sources_of,
)
from tensorel.rewrite.names import rename_bound
from tensorel.rewrite.polynomial import canonical


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
        if len(group) > 1:
            quick = all([_product(d, exchanged=False) is not None for d in group])  # noqa: C419
            form = _product if quick else _form
            forms: dict[object, Definition] = {}
            for d in group:
                same = forms.get(form(d, exchanged=True)) if forms else None
                if same is not None and d.ref not in fixed and d.format is None:
                    instead[d.ref] = same.source()
                else:
                    forms.setdefault(form(d, exchanged=False), d)
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


def _product(d: Definition, exchanged: bool) -> object:
    """The same for a product of reads at indices, in which each index is told from the others by
    where it stands; else None. Equal forms are equal products: indices are numbered."""
    lam = d.tensor
    assert isinstance(lam, Lambda) and isinstance(lam.body, Reduce)
    times = distributing(lam.body.op, lam.body.body)
    factors = [] if times is None else factors_of(lam.body.body, times)
    reads = [(id(f.tensor), [i.name for i in f.indices if isinstance(i, Index)])
             for f in factors if isinstance(f, Read)]
    if times is None or len(reads) < len(factors) or any(
            len(names) < len(f.indices) for f, (_, names) in zip(factors, reads)):  # type: ignore[attr-defined]
        return None
    axes = lam.axes[::-1] if exchanged else lam.axes
    looks = {a.name: hash((a.extent, -k if k <= len(axes) else 0))
             for k, a in enumerate((*axes, *lam.body.axes), 1)}
    for _ in lam.body.axes:
        near: dict[str, list[int]] = {n: [look] for n, look in looks.items()}
        for tensor, names in reads:
            whole = hash((tensor, *[looks[n] for n in names]))
            for k, n in enumerate(names):
                near[n].append(hash((whole, k)))
        looks = {n: hash(tuple(sorted(seen))) for n, seen in near.items()}
    numbers = {look: k for k, look in enumerate(sorted(looks.values()))}
    if len(numbers) < len(looks):
        return None
    extents = sorted([(numbers[looks[a.name]], a.extent) for a in (*axes, *lam.body.axes)])
    return (tuple([numbers[looks[a.name]] for a in axes]), tuple(extents), tuple(sorted(
        [(tensor, tuple([numbers[looks[n]] for n in names])) for tensor, names in reads])))


def _exchanged(body: Expr, instead: dict[object, Source]) -> Expr:
    table: dict[Expr, Expr] = {}
    for x in postorder(body):
        if isinstance(x, Read) and isinstance(x.tensor, Source) and isinstance(x.tensor.data, Ref) \
                and x.tensor.data in instead:
            i, j = x.indices
            table[x] = Read(instead[x.tensor.data], (replace_exprs(j, table),
                                                     replace_exprs(i, table)))
    return replace_exprs(body, table) if table else body
