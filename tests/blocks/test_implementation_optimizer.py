"""Which plan wins, that it moves the bytes of the textbook, and that it computes the same."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from implementation_support import by, data, equal, whole

from tensorel.blocks.implementation import (
    ADD,
    MATMUL,
    MAXIMUM,
    MULTIPLY,
    TRANSPOSE,
    Broadcast,
    Input,
    Kernel,
    LocalAggregate,
    LocalFilter,
    LocalJoin,
    LocalMap,
    Node,
    Partition,
    Predicate,
    Rates,
    Shuffle,
    Simulation,
    evaluate,
    logical,
    optimize,
    plan_cost,
    same_key,
    translate,
)

#: Sites that compute at once, so that bytes alone decide among plans that use all of them.
NETWORK = Rates(flops=1e12, bytes=1e9, exchange=0.0)


def operands(extents: tuple[int, int, int], block: int = 1000) -> tuple[Input, Input]:
    rows, inner, columns = extents
    return (Input("A", (rows, inner), (block, block), free=True),
            Input("B", (inner, columns), (block, block), free=True))


def matrix_product(left: logical.Expr, right: logical.Expr) -> logical.Expr:
    return logical.Aggregate(logical.Join(left, right, (1,), (0,), MATMUL), (0, 2), ADD)


def joins(plan: Node) -> list[LocalJoin]:
    found = [j for c in plan.children for j in joins(c)]
    return [plan, *found] if isinstance(plan, LocalJoin) else found


def factors(plan: Node) -> tuple[int, int, int]:
    """The grid (p_i, p_k, p_j) that the product's join runs on."""
    (join,) = joins(plan)
    at = join.relation.partition
    assert at is not None
    return at.cells(0), at.cells(1), at.cells(2)


def textbook(extents: tuple[int, int, int], grid: tuple[int, int, int], block: int = 1000) -> int:
    (rows, inner, columns), (p_i, p_k, p_j) = extents, grid
    a, b, c = rows * inner, inner * columns, rows * columns
    return (a * (p_j - 1) + b * (p_i - 1) + c * (p_k - 1)) * block * block * 8


def all_grids(extents: tuple[int, int, int], sites: int) -> list[tuple[int, int, int]]:
    powers = [1 << n for n in range(sites.bit_length())]
    return [g for g in product(powers, repeat=3) if math.prod(g) == sites
            and all(p <= e for p, e in zip(g, extents))]


SHAPES = {
    "square": (64, 64, 64), "tall": (1024, 64, 64), "wide": (64, 64, 1024),
    "inner": (64, 1024, 64), "outer": (64, 1, 64), "tall times small": (1024, 4, 4),
    "small times wide": (4, 4, 1024), "small result": (8, 1024, 8),
    "matrix times vector": (64, 64, 1),
}


@pytest.mark.parametrize("sites", (4, 8, 64))
@pytest.mark.parametrize("extents", SHAPES.values(), ids=SHAPES)
def test_the_winner_moves_the_least_bytes_of_the_textbook(
        extents: tuple[int, int, int], sites: int) -> None:
    found = optimize(translate(matrix_product(*operands(extents)), sites), sites, NETWORK)
    grid, best = factors(found.best.plan), found.best.cost
    assert math.prod(grid) == sites and best.busiest_flops * sites == pytest.approx(best.flops)
    assert best.bytes == textbook(extents, grid)
    assert best.bytes == min(textbook(extents, g) for g in all_grids(extents, sites))


@pytest.mark.parametrize(("extents", "sites", "grid"), [
    ((64, 64, 64), 8, (2, 2, 2)),  # replication: the three-dimensional product
    ((64, 64, 64), 64, (4, 4, 4)),
    ((64, 1, 64), 64, (8, 1, 8)),  # group-by-join: every block of the result at one site
    ((64, 64, 1), 64, (8, 8, 1)),  # the vector along the columns of a grid, sums along its rows
    ((1024, 4, 4), 64, (64, 1, 1)),  # broadcast of the small operand, rows of the other
    ((4, 4, 1024), 64, (1, 1, 64)),  # and columns
    ((8, 1024, 8), 64, (1, 64, 1)),  # cross product: together by the join key
], ids=("3-D", "3-D", "group-by-join", "matrix times vector", "broadcast B", "broadcast A",
        "co-partition"))
def test_each_scheme_wins_somewhere(
        extents: tuple[int, int, int], sites: int, grid: tuple[int, int, int]) -> None:
    best = optimize(translate(matrix_product(*operands(extents)), sites), sites, NETWORK).best
    assert factors(best.plan) == grid and best.cost.bytes == textbook(extents, grid)
    (join,) = joins(best.plan)
    assert any(isinstance(c, Broadcast) for c in join.children) == (1 in grid and sites in grid
                                                                    and grid[1] == 1)
    assert (len(join.left_keys) == 3) == (grid not in [(64, 1, 1), (1, 1, 64), (1, 64, 1)])


def test_the_runner_up_runs_its_joins_elsewhere() -> None:
    found = optimize(translate(matrix_product(*operands((64, 64, 64))), 8), 8)
    assert found.runner_up is not None and found.runner_up.seconds >= found.best.seconds
    assert factors(found.runner_up.plan) != factors(found.best.plan)
    again = optimize(translate(matrix_product(*operands((64, 64, 64))), 8), 8)
    assert again.best.plan == found.best.plan and again.plans == found.plans


@pytest.mark.parametrize(("scheme_a", "scheme_b", "moved"), [
    (0, 0, "nothing"), (1, 1, "nothing"), (0, 1, "smaller"), (1, 0, "smaller"),
    (None, 0, "nothing"), (1, None, "nothing"),
])
def test_overlays_by_the_schemes_of_their_operands(
        scheme_a: int | None, scheme_b: int | None, moved: str) -> None:
    """Row, column and broadcast schemes of paper 003: the smaller operand is partitioned as the
    other one, which costs (N - 1) / N of it."""
    at = [None if d is None else by(d, 4) for d in (scheme_a, scheme_b)]
    a = Input("A", (8, 8), (100, 100), at[0])
    b = Input("B", (8, 8), (100, 100), at[1], block_bytes=1000.0)
    best = optimize(translate(logical.Join(a, b, (0, 1), (0, 1), ADD), 4), 4, NETWORK).best
    assert best.cost.bytes == (0 if moved == "nothing" else 0.75 * b.relation.bytes)


def test_joins_on_one_dimension_by_the_schemes_of_their_operands() -> None:
    """RID = RID: min((N - 1) |A|, (N - 1) / N |B|) for rows and columns."""
    for small in (1.0, 80000.0):
        a = Input("A", (8, 8), (100, 100), by(0, 4), block_bytes=small)
        b = Input("B", (8, 8), (100, 100), by(1, 4))
        best = optimize(translate(logical.Join(a, b, (0,), (0,), MULTIPLY), 4), 4, NETWORK).best
        assert best.cost.bytes == min(3 * a.relation.bytes, 0.75 * b.relation.bytes)


def test_cross_products_send_the_smaller_operand_everywhere() -> None:
    a, b = Input("a", (4,), (10,), by(0, 4)), Input("b", (400,), (10,), by(0, 4))
    outer = Kernel("outer", np.outer, lambda u, v: u + v)
    best = optimize(translate(logical.Join(a, b, (), (), outer), 4), 4, NETWORK).best
    assert best.cost.bytes == 3 * a.relation.bytes


def test_a_plan_that_sites_cannot_hold_is_not_chosen() -> None:
    expr = matrix_product(*operands((1024, 8, 8)))
    free = optimize(translate(expr, 4), 4, NETWORK).best
    assert any(isinstance(c, Broadcast) for c in joins(free.plan)[0].children)
    less = replace(NETWORK, memory=0.9 * free.cost.memory)
    found = optimize(translate(expr, 4), 4, less).best
    assert found.cost.memory <= less.memory or math.isinf(found.seconds)


def test_the_result_can_be_asked_for_where_it_lies() -> None:
    a, b = operands((64, 4, 4))
    plan = translate(matrix_product(a, b), 8)
    for to in (by(1, 4), by(), None):
        moved = Broadcast(plan) if to is None else Shuffle(plan, to)
        best = optimize(moved, 8, keep_partition=True).best
        assert best.plan.relation.partition == to


def test_one_input_has_one_home() -> None:
    a = Input("A", (16, 16), (10, 10), free=True)
    best = optimize(translate(matrix_product(a, a), 4), 4, NETWORK).best
    homes, stack = set(), [best.plan]
    while stack:
        node = stack.pop()
        stack += node.children
        homes |= {node} if isinstance(node, Input) else set()
    assert len(homes) == 1
    given = data(a)
    assert np.allclose(whole(evaluate(best.plan, given, 4)), whole(given["A"]) @ whole(given["A"]))


SQUARE = Kernel("square", np.square)
LOWER = Predicate("lower", (0, 1), lambda i, j: i >= j)
ROW = Predicate("row", (0,), lambda i: i == 1)


def programs() -> dict[str, logical.Expr]:
    a, b = Input("A", (4, 6), (2, 3), by(0, 4)), Input("B", (6, 4), (3, 2), free=True)
    c, v = Input("C", (4, 4), (2, 2), by(1, 2)), Input("v", (4,), (2, 2))
    ab = matrix_product(a, b)
    return {
        "chain": matrix_product(ab, c),
        "sum of products": logical.Join(ab, c, (0, 1), (0, 1), ADD),
        "filtered product": logical.Filter(ab, LOWER),
        "a row of a product": logical.Filter(matrix_product(ab, c), ROW),
        "squares of a product": logical.Transform(ab, SQUARE),
        "transposed sum": logical.Transform(logical.Join(
            c, Input("D", (4, 4), (2, 2), by(0, 4)), (0, 1), (0, 1), ADD), TRANSPOSE),
        "largest of rows": logical.Aggregate(ab, (0,), MAXIMUM),
        "sum of everything": logical.Aggregate(ab, (), ADD),
        "scaled rows": logical.Join(ab, v, (0,), (0,), MULTIPLY),
        "tiled and stacked": logical.Stack(logical.Tile(ab, 1, 1), 2, 1),
        "tiled product": matrix_product(logical.Stack(logical.Tile(a, 0, 1), 2, 0), b),
    }


@pytest.mark.parametrize("sites", (1, 3, 8))
@pytest.mark.parametrize("name", programs())
def test_the_best_plan_computes_the_same_with_its_bytes(name: str, sites: int) -> None:
    expr = programs()[name]
    inputs = [Input("A", (4, 6), (2, 3)), Input("B", (6, 4), (3, 2)), Input("C", (4, 4), (2, 2)),
              Input("D", (4, 4), (2, 2)), Input("v", (4,), (2, 2))]
    given = data(*inputs)
    if sites < 4:  # inputs that lie by four cells need as many sites
        expr = _anywhere(expr)
    plan = translate(expr, sites)
    found = optimize(plan, sites, NETWORK)
    want = evaluate(plan, given, sites)
    for choice in filter(None, (found.best, found.runner_up)):
        assert equal(evaluate(choice.plan, given, sites), want)
    assert found.best.seconds <= plan_cost(plan, sites).seconds(NETWORK)


def _anywhere(expr: logical.Expr) -> logical.Expr:
    if isinstance(expr, Input):
        return replace(expr, partition=Partition((), None))
    named = {f: _anywhere(getattr(expr, f)) for f in ("left", "right", "child") if hasattr(expr, f)}
    return replace(expr, **named)


def test_a_filter_goes_below_the_product() -> None:
    expr = logical.Filter(matrix_product(*operands((64, 64, 64), 10)), ROW)
    best = optimize(translate(expr, 4), 4).best
    (join,) = joins(best.plan)
    below = [join.left]
    while below[-1].children:
        below.append(below[-1].children[0])
    assert any(isinstance(n, LocalFilter) for n in below)
    assert best.cost.flops < 2.5e3 * 64 * 64


def test_a_map_that_distributes_runs_once_for_each_result() -> None:
    double = Kernel("double", lambda b: 2 * b, flops=lambda b: 1e6, distributes_over=(ADD,))
    a = Input("A", (8, 64), (4, 4), by(0, 4))
    plan = LocalAggregate(LocalMap(a, same_key(2), double), (0,), ADD)
    best = optimize(plan, 4).best
    assert isinstance(best.plan, LocalAggregate) or best.cost.flops < plan_cost(plan, 4).flops
    assert best.cost.flops < 9e6


def test_predicted_bytes_of_winners_are_measured() -> None:
    for extents, sites in product(((8, 8, 8), (16, 2, 2), (2, 16, 2), (8, 1, 8)), (4, 8)):
        a, b = (replace(i, block=(2, 2)) for i in operands(extents))
        best = optimize(translate(matrix_product(a, b), sites), sites, NETWORK).best
        run = Simulation(data(a, b), sites)
        run.run(best.plan)
        inputs = [n for j in joins(best.plan) for c in j.children for n in _inputs(c)]
        if all(i.partition is None or i.partition.grid is not None for i in inputs):
            assert run.moved == best.cost.bytes


def _inputs(plan: Node) -> list[Input]:
    return [plan] if isinstance(plan, Input) else [i for c in plan.children for i in _inputs(c)]
