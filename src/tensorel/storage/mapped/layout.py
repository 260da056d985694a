"""The layout of a mapping, and of several pieces of one as a layout."""

from __future__ import annotations

from functools import cmp_to_key

from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.sdql.syntax import Binary, Expr, If, Name, free
from tensorel.storage.mapped.pieces import Piece
from tensorel.storage.mapped.polynomials import normal, same
from tensorel.storage.mapped.terms import ZERO, conjunction, coordinate, literal, number, subtract
from tensorel.storage.mapped.ways import Solved, Stretch, Way

CHOICE = "piece.0"


@dataclass(frozen=True)
class Layout:
    """The levels of a mapping. ``extents``: per axis the term that is its extent, where the mapping
    says it. ``place``: of the value, by coordinates and walked cursors. ``bound``: solved cursors
    by coordinates."""

    order: tuple[int, ...]
    levels: tuple[Way, ...]
    extents: tuple[Expr | None, ...]
    place: Expr
    bound: dict[str, Expr]


def united(pieces: tuple[Piece, ...], found: list[Layout]) -> Layout:
    """A cell lies in the piece whose range has its last coordinate; the ranges ascend."""
    first = found[0]
    if any(x.order != first.order for x in found) \
            or not all(isinstance(way, Solved) for x in found for way in x.levels) \
            or len({p.array for p in pieces}) != 1:
        raise StorageError(
            "the parts of a mapping share one array, and the coordinates alone decide their places",
            hint="for cells that share a place write one formula, e.g. V(max(i,j), min(i,j))")
    ends = [x.levels[-1] for x in found]
    extents = tuple(next((e for e in es if e is not None), None)
                    for es in zip(*(x.extents for x in found)))
    ranges: list[tuple[Expr, Expr | None]] = [
        (way.low or ZERO, way.high or extents[way.axis])  # type: ignore[attr-defined]
        for way in ends]

    def order(a: int, b: int) -> int:
        return _before(ranges[a], ranges[b])

    ranked = sorted(range(len(found)), key=cmp_to_key(order))
    tests = [conjunction(_bounds_of(x)) for x in found]

    def choose(terms: list[Expr]) -> Expr:
        chosen = terms[ranked[-1]]
        for k in range(len(ranked) - 2, -1, -1):
            chosen = If(Binary("==", Name(CHOICE), number(k)), terms[ranked[k]], chosen)
        return chosen

    lows, highs = [low for low, _ in ranges], [high for _, high in ranges if high is not None]
    if len(highs) < len(lows):
        raise StorageError("the parts of the mapping do not say how long its axes are")
    stops: list[Expr] = [high if test is None else If(test, high, low)
             for low, high, test in zip(lows, highs, tests)]
    last = ends[0]
    shared = {"known": (), "arrays": (), "extents": (), "test": None, "above": last.above}
    whole = [Solved(**{**shared, "axis": way.axis, "place": None, "above": way.above})  # type: ignore[arg-type]
             for way in first.levels[:-1]]
    place = choose([x.place for x in found])
    draft: dict[str, object] = {
        **shared, "axis": last.axis, "place": place, "cursor": CHOICE, "low": ZERO,
        "high": number(len(found)), "first": choose(lows), "stop": choose(stops)}
    return Layout(first.order, (*whole, finished(Stretch, draft, extents, {CHOICE})), extents,
                  place, {})


def _before(a: tuple[Expr, Expr | None], b: tuple[Expr, Expr | None]) -> int:
    """Negative where the range a comes first, whatever the sizes."""
    difference = literal(normal(subtract(a[0], b[0])))
    if difference is not None:
        return difference
    for sign, (x, y) in ((-1, (a, b)), (1, (b, a))):
        if x[1] is not None and same(x[1], y[0]):
            return sign
    raise StorageError(
        "the parts of the mapping are not in an order that holds for all sizes",
        hint="their last keys differ by constants, or one part begins where another ends")


def _bounds_of(layout: Layout) -> list[Expr]:
    """What a cell must be for the piece to hold it, but for the range of its last axis."""
    found = [way.test for way in layout.levels if way.test is not None]
    for way in layout.levels[:-1]:
        assert isinstance(way, Solved)
        if way.low is not None and way.high is not None:
            here = Name(coordinate(way.axis))
            found += [Binary("<=", way.low, here), Binary("<", here, way.high)]
    return found


def finished(kind: type[Way], draft: dict[str, object], extents: tuple[Expr | None, ...],
             own: set[str]) -> Way:
    """A level with the names of what it reads; ``own``: cursors."""
    axes = {e.name: a for a, e in reversed(list(enumerate(extents))) if isinstance(e, Name)}
    terms = [x for x in draft.values() if isinstance(x, Expr)]
    mentioned = set().union(*(free(t) for t in terms))
    draft["extents"] = tuple(sorted((n, axes[n]) for n in mentioned if n in axes))
    draft["arrays"] = tuple(sorted(
        n for n in mentioned if n not in axes and n not in own and not n.startswith("@")))
    return kind(**draft)  # type: ignore[arg-type]
