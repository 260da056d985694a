"""Points per tile of two indices: what blocks, clusters and bands look like from afar.

A ``Grid`` of a pair of indices (x, y) holds estimated points per tile. Grids serve estimates
alone, never bounds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.base.records import cached_property

FloatArray = npt.NDArray[np.float64]
Pair = tuple[str, str]


class Grid:
    """``points[s, t]``: points whose x is in tile s and y in tile t. ``edges``: coordinates
    per tile of x and of y, the last tiles may be short."""

    def __init__(self, points: FloatArray, edges: tuple[FloatArray, FloatArray]) -> None:
        self.points = points
        self.edges = edges

    @cached_property
    def turned(self) -> Grid:
        return Grid(self.points.T, self.edges[::-1])

    @cached_property
    def cells(self) -> FloatArray:
        return np.outer(*self.edges)

    @cached_property
    def density(self) -> FloatArray:
        made: FloatArray = self.points / self.cells
        return made

    @cached_property
    def expected(self) -> FloatArray:
        """What the sums of rows and columns of tiles let one expect."""
        total = float(self.points.sum())
        made: FloatArray = np.outer(self.points.sum(1), self.points.sum(0))
        made /= max(total, 1e-300)
        return made

    @cached_property
    def expected_density(self) -> FloatArray:
        made: FloatArray = self.expected / self.cells
        return made


Grids = dict[Pair, Grid]


def widths(extent: int, size: int) -> FloatArray:
    """Coordinates per tile of an axis."""
    tiles = -(-extent // size)
    made = np.full(tiles, float(size))
    if tiles:
        made[-1] = extent - size * (tiles - 1)
    return made


def find(grids: Grids, x: str, y: str) -> Grid | None:
    found = grids.get((x, y))
    if found is None:
        other = grids.get((y, x))
        found = None if other is None else other.turned
    return found


def alike(a: Grid, b: Grid) -> bool:
    return all(p is q or np.array_equal(p, q) for p, q in zip(a.edges, b.edges))


def together(a: Grids, b: Grids) -> Grids:
    """Of a join: each pair from the side that has it; both: chances multiply in each tile."""
    if not a or not b:
        return a or b
    grids = dict(a)
    for (x, y), grid in b.items():
        held = find(grids, x, y)
        if held is None:
            grids[x, y] = grid
        elif alike(held, grid):
            grids.pop((y, x), None)
            grids[x, y] = Grid(held.points * grid.points / grid.cells, grid.edges)
    return grids


def either(a: Grids, b: Grids) -> Grids:
    """Of a union: pairs that both have; in each tile chances complement each other."""
    grids: Grids = {}
    for (x, y), grid in a.items():
        held = find(b, x, y)
        if held is not None and alike(grid, held):
            common = grid.points * held.points / grid.cells
            grids[x, y] = Grid(grid.points + held.points - common, grid.edges)
    return grids


def lift(a: Grid, b: Grid) -> float:
    """How much more often points of a and b meet than is expected."""
    if not alike(a, b):
        return 1.0
    real = float(np.vdot(a.points, b.density))
    expected = float(np.vdot(a.expected, b.expected_density))
    return real / expected if expected > 0 else 1.0


def through(grids: Grids, x: str, y: str, gone: frozenset[str]) -> Grid | None:
    """The grid of (x, y) after a reduction: its own, or by way of one reduced index."""
    own = find(grids, x, y)
    if own is not None:
        return own
    for k in sorted(gone):
        first, second = find(grids, x, k), find(grids, k, y)
        if first is not None and second is not None and np.array_equal(
                first.edges[1], second.edges[0]):
            points = (first.points / first.edges[1]) @ second.points
            return Grid(points, (first.edges[0], second.edges[1]))
    return None


def filled(grid: Grid, points: float) -> Grid:
    """Expected number of different cells in each tile that ``points`` hit, falling as the grid
    says."""
    total = float(grid.points.sum())
    if total <= 0:
        return grid
    return Grid(grid.cells * -np.expm1(grid.density * (-points / total)), grid.edges)
