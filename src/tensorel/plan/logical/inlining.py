"""Shared sums written out at each of their readers.

``UV = U @ V.T`` in ``(T * log(UV)).sum() - UV.sum()`` is one formula with two readers. Stored, it
is dense; written out, the first reader evaluates it where T has entries and the second sums the
factors. A variant beside the program as written, where the sum would be stored: readers that
need all of it share it again (``share_definitions``).

The other way round, formulas that reductions read in windows are not written out there: each of
their cells would be computed again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tensorel.ir.nodes import Expr, Lambda, Read, Source, Tensor, is_gather, postorder, reads_in
from tensorel.ir.replacing import substitute
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.definitions import (
    Definition,
    Program,
    inner_reductions,
    product_of,
    replace_exprs,
    sources_of,
)
from tensorel.rewrite.names import bound_names, relabel

#: A sum is written out only if its cells are so many times the entries that it is made from.
MIN_GROWTH = 4.0
#: Formulas that are written out inside one another: a chain doubles with each that is read twice.
MAX_INLINED_FORMULAS = 32
#: Times that windows read a cell, from which on it is computed once and stored.
MIN_REVISITS = 4


def inlined(program: Program) -> Program | None:
    """The program with sums that outgrow their operands written out; None if there are none."""
    return written_out(program, _outgrows)


def written_out(program: Program, worth: Callable[[Program, Definition], bool]) -> Program | None:
    """The program with formulas that are ``worth`` it written out at their readers; None if there
    are none."""
    other = program.copy()
    formulas: dict[object, Lambda] = {}
    inside: dict[object, int] = {}  # formulas written out in each of them, itself included
    stored: set[object] = set()  # read by operators on whole tensors
    done: list[Definition] = []
    for d in program.definitions:
        if isinstance(d.tensor, Lambda):
            count = 1
            for r in reads_in(d.tensor.body):  # each place where one is read
                count += inside.get(r.tensor.data, 0) if isinstance(r.tensor, Source) else 0
            lam = Lambda(d.tensor.axes, _with_formulas(other, d.tensor.body, formulas))
            if lam.body is not d.tensor.body:
                d = d.rewritten(lam)
            if d.name not in program.results and d.format is None \
                    and count <= MAX_INLINED_FORMULAS and worth(program, d):
                formulas[d.ref], inside[d.ref] = lam, count
        else:
            stored.update(s.data for s in sources_of(d.tensor))
        done.append(d)
    if formulas.keys() <= stored:
        return None
    other.definitions = [d for d in done if d.ref not in formulas or d.ref in stored]
    other.fire("write-out: a shared sum at each of its readers")
    return other


def _outgrows(program: Program, d: Definition) -> bool:
    lam = d.tensor
    if not isinstance(lam, Lambda) or not inner_reductions(lam.body):
        return False
    read = {s.data: program.stats[s.data].count for s in sources_of(lam)
            if s.data in program.stats}
    return product_of(lam.axes) > MIN_GROWTH * sum(read.values())


def _with_formulas(program: Program, body: Expr, formulas: dict[object, Lambda]) -> Expr:
    table: dict[Expr, Expr] = {}
    for x in postorder(body):
        if isinstance(x, Read) and isinstance(x.tensor, Source) and x.tensor.data in formulas:
            lam = formulas[x.tensor.data]
            names = {n: program.fresh("w") for n in sorted(bound_names(lam.body))}
            at = [replace_exprs(i, table) for i in x.indices]
            table[x] = substitute(relabel(lam.body, names),
                                  {a.name: i for a, i in zip(lam.axes, at)})
    return replace_exprs(body, table) if table else body


def revisited(lam: Lambda) -> Iterator[Tensor]:
    """Formulas over dense tensors that a reduction reads in windows: at sums of an index of the
    result and of one that is reduced, so that each cell is read as often as the window is large."""
    for r in inner_reductions(lam.body):
        extents = {a.name: a.extent for a in r.axes}
        for read in reads_in(r.body):
            tensor, indices = _through_views(read)
            mixed = set().union(*[i.free for i in indices if i.free - extents.keys()])
            times = math.prod([n for name, n in extents.items() if name in mixed])
            if isinstance(tensor, Lambda) and times >= MIN_REVISITS \
                    and not inner_reductions(tensor.body) and _is_dense(tensor):
                yield tensor


def _through_views(read: Read) -> tuple[Tensor, tuple[Expr, ...]]:
    """What is read in the end, and where, if what stands between only moves entries, to places
    that need not be looked up."""
    tensor, indices = read.tensor, read.indices
    while isinstance(tensor, Lambda) and isinstance(tensor.body, Read) \
            and not is_gather(tensor.body):
        by = {a.name: i for a, i in zip(tensor.axes, indices)}
        indices = tuple([substitute(i, by) for i in tensor.body.indices])
        tensor = tensor.body.tensor
    return tensor, indices


def _is_dense(tensor: Tensor) -> bool:
    """Whether all that it reads in the end is stored dense."""
    leaves = [t for t in postorder(tensor) if isinstance(t, Source)]
    return bool(leaves) and all(
        isinstance(t.data, Slot) and t.data.format.is_dense for t in leaves)
