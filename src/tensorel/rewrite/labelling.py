"""Canonical names for the bound indices of a product.

Factors and bound indices are a graph; it falls into parts that share no index, which are named one
after another. Within a part, indices are told apart by where they stand (refinement to a fixpoint);
those that still look alike are tried in every order, and the order with the least text wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tensorel.ir.nodes import Axis, Expr, Index, Read
from tensorel.ir.replacing import substitute
from tensorel.rewrite.names import bound_names
from tensorel.rewrite.spelling import spell, spell_extent

#: Starts names that no program has.
MARK = "\0"
#: Orders that are tried for a part; beyond, the first ones only (then equal forms may differ).
MAX_ORDERS = 200

Form = Callable[[Expr], Expr]


def best_order(factors: Sequence[Expr], bound: tuple[Axis, ...], form: Form, free_order: bool
               ) -> tuple[tuple[Axis, ...], dict[str, str]]:
    """The axes in canonical order and their labels. ``free_order`` is false where axes must stay
    in their order (monoids that do not commute)."""
    if not bound:
        return (), {}
    taken = frozenset().union(*[f.free | bound_names(f) for f in factors])
    if not free_order:
        return bound, dict(zip([a.name for a in bound], _labels(taken, len(bound))))
    parts = []
    for indices, members in _parts(factors, bound):
        order = _order(members, indices, form)
        parts.append((_text(members, order, form), order))
    parts.sort(key=lambda p: p[0])
    axes = tuple(a for _, order in parts for a in order)
    return axes, dict(zip([a.name for a in axes], _labels(taken, len(axes))))


def _labels(taken: frozenset[str], count: int) -> list[str]:
    """Names for bound indices that are neither free nor bound in the factors."""
    found: list[str] = []
    n = 0
    while len(found) < count:
        name = f"{MARK}{n:03}"
        if name not in taken:
            found.append(name)
        n += 1
    return found


def _parts(factors: Sequence[Expr], bound: tuple[Axis, ...]
           ) -> list[tuple[list[Axis], list[Expr]]]:
    """Bound indices with the factors that have them, connected through factors."""
    names = {a.name: a for a in bound}
    parts: list[tuple[set[str], list[Expr]]] = [({n}, []) for n in names]
    for f in factors:
        own = f.free & names.keys()
        if not own:
            continue
        touched = [p for p in parts if p[0] & own]
        first = touched[0]
        for other in touched[1:]:
            first[0].update(other[0])
            first[1].extend(other[1])
        first[1].append(f)
        parts = [p for p in parts if p is first or p not in touched[1:]]
    return [([a for a in bound if a.name in p[0]], p[1]) for p in parts]


def _order(factors: list[Expr], bound: list[Axis], form: Form) -> list[Axis]:
    if len(bound) == 1:
        return bound
    colors = _refine(factors, bound, {a.name: spell_extent(a.extent) for a in bound}, form)
    best: tuple[list[str], list[Axis]] | None = None
    for tried, order in enumerate(_orders(factors, bound, colors, form)):
        text = _text(factors, order, form)
        if best is None or text < best[0]:
            best = text, order
        if tried >= MAX_ORDERS:
            break
    assert best is not None
    return best[1]


def _orders(factors: list[Expr], bound: list[Axis], colors: dict[str, str], form: Form
            ) -> Iterator[list[Axis]]:
    """Every order of the indices that the colors allow."""
    cells: dict[str, list[Axis]] = {}
    for a in bound:
        cells.setdefault(colors[a.name], []).append(a)
    open_ = [c for c in sorted(cells) if len(cells[c]) > 1]
    if not open_:
        yield [cells[c][0] for c in sorted(cells)]
        return
    for a in cells[open_[0]]:
        chosen = {**colors, a.name: colors[a.name] + "!"}
        yield from _orders(factors, bound, _refine(factors, bound, chosen, form), form)


def _refine(factors: list[Expr], bound: list[Axis], colors: dict[str, str], form: Form
            ) -> dict[str, str]:
    """Tell indices apart by the factors they stand in, until nothing changes."""
    count = len(set(colors.values()))
    while count < len(bound):
        seen: dict[str, list[str]] = {a.name: [] for a in bound}
        for f in factors:
            for name in f.free & seen.keys():
                seen[name].append(_seen_from(f, name, colors, form))
        signs = {n: f"{colors[n]}|{'|'.join(sorted(s))}" for n, s in seen.items()}
        ranks = {s: f"{k:03}" for k, s in enumerate(sorted(set(signs.values())))}
        colors = {n: ranks[s] for n, s in signs.items()}
        if len(ranks) == count:
            break
        count = len(ranks)
    return colors


def _seen_from(f: Expr, name: str, colors: dict[str, str], form: Form) -> str:
    """A factor as one of its indices sees it: itself marked, the others by color."""
    if isinstance(f, Read) and all(isinstance(i, Index) for i in f.indices):
        at = [spell(i) for i in f.indices]
        shown = ["*" if i == name else colors.get(i, i) for i in at]
        return f"{_head(f)}[{','.join(shown)}]"
    marks: dict[str, Expr] = {n: Index(f"{MARK}*" if n == name else f"{MARK}c{colors[n]}")
                              for n in f.free & colors.keys()}
    return spell(form(substitute(f, marks)))


def _head(f: Read) -> str:
    return spell(f).partition("[")[0]


def _text(factors: list[Expr], order: list[Axis], form: Form) -> list[str]:
    """The factors with the indices named by their place, sorted, and the extents."""
    names: dict[str, Expr] = {a.name: Index(f"{MARK}t{n:03}") for n, a in enumerate(order)}
    return [*sorted([spell(form(substitute(f, names))) for f in factors]),
            *[spell_extent(a.extent) for a in order]]


__all__ = ["MARK", "best_order"]
