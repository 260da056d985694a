"""Mappings that are stacks of the levels of ``storage.levels`` in other words: CSR written in
SDQLite is CSR. They get the same levels, hence the same loops, statistics and conversions."""

from __future__ import annotations

from itertools import permutations

from tensorel.base.records import dataclass
from tensorel.sdql.syntax import Apply, Expr, Name
from tensorel.storage.levels import Compressed, Dense, Level, Listed
from tensorel.storage.mapped.layout import Layout
from tensorel.storage.mapped.pieces import Physical, Piece
from tensorel.storage.mapped.polynomials import same
from tensorel.storage.mapped.terms import ONE, ZERO, add, coordinate, multiply
from tensorel.storage.mapped.ways import Segment, Solved

MAX_AXES = 5  # of dense mappings, whose axes are tried in every order


@dataclass(frozen=True)
class Standard:
    """Standard levels; ``roles``: name of an array in them to its name in the mapping."""

    order: tuple[int, ...]
    levels: tuple[Level, ...]
    roles: dict[str, str]


def standard(piece: Piece, layout: Layout, physical: Physical) -> Standard | None:
    """The stack that the layout is, or None."""
    if piece.array is None or piece.shared or any(way.test is not None for way in layout.levels):
        return None
    if all(isinstance(way, Solved) and way.full for way in layout.levels):
        return _dense(piece, layout)
    position: Expr = ZERO
    roles: dict[str, str] = {}
    levels: list[Level] = []
    for depth, way in enumerate(layout.levels):
        extent = layout.extents[way.axis]
        if isinstance(way, Solved) and way.full and extent is not None:
            levels.append(Dense(way.axis))
            position = add(multiply(position, extent), Name(coordinate(way.axis)))
            continue
        found = _compressed(way, depth, position, physical) if isinstance(way, Segment) else None
        if found is None:
            return None
        level, named = found
        levels.append(level)
        roles |= named
        position = Name(way.cursor)  # type: ignore[attr-defined]
    roles["val"] = piece.array
    if not same(position, layout.place) or len(set(roles.values())) != len(roles):
        return None
    return Standard(layout.order, tuple(levels), roles) if _is_stack(levels) else None


def _dense(piece: Piece, layout: Layout) -> Standard | None:
    """Row-major, column-major, or any other order of the axes."""
    rank = len(layout.order)
    if rank > MAX_AXES or any(e is None for e in layout.extents):
        return None
    for order in permutations(range(rank)):
        position: Expr = ZERO
        for axis in order:
            extent = layout.extents[axis]
            assert extent is not None
            position = add(multiply(position, extent), Name(coordinate(axis)))
        if same(position, layout.place):
            assert piece.array is not None
            return Standard(order, tuple(map(Dense, order)), {"val": piece.array})
    return None


def _compressed(way: Segment, depth: int, position: Expr, physical: Physical
                ) -> tuple[Level, dict[str, str]] | None:
    cursor = Name(way.cursor)
    match way.coord:
        case Apply(target=Name(name=idx), keys=(at,)) if at == cursor:
            named = {f"idx{depth}": idx}
        case _:
            return None
    if way.inside:
        return Listed(depth, way.runs), named
    match way.low, way.high:
        case Apply(target=Name(name=a), keys=(t,)), Apply(target=Name(name=b), keys=(u,)) \
                if a == b and same(t, position) and same(u, add(t, ONE)):
            return Compressed(depth, way.runs), {f"pos{depth}": a, **named}
    if depth == 0 and way.low == ZERO and same(way.high, physical.length(idx)):
        return (Listed(0, True) if way.runs else Compressed(0)), named
    return None


def _is_stack(levels: list[Level]) -> bool:
    """Dense levels stand first or last (``storage.stack``), a list's axes together and last."""
    kinds = "".join("d" if isinstance(x, Dense) else "c" for x in levels)
    return "c" not in kinds.strip("d") or "d" not in kinds.strip("d")
