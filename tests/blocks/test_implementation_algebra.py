"""Operators over (key, block, site): partitions, laws, the first plan of an expression, costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from implementation_support import A, B, by, data, equal, whole

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
    Shuffle,
    Simulation,
    computed,
    evaluate,
    gathered,
    insert,
    logical,
    neighbours,
    plan_cost,
    same_key,
    select,
    show,
    translate,
)
from tensorel.blocks.implementation.partitions import again, grids
from tensorel.errors import ShapeError, TensorelError, ValueError_

SQUARE = Kernel("square", np.square)


def test_normal_forms_of_partitions_say_the_same() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        dims = rng.permutation(3)[: rng.integers(1, 4)]
        axes = [int(d) for d in dims] + [again(int(rng.choice(dims))) for _ in range(2)]
        axes = [axes[n] for n in rng.permutation(len(axes))]
        grid = [int(g) for g in rng.choice([2, 2, 3], len(axes))]
        raw, normal = Partition(tuple(axes), tuple(grid)), Partition.of(axes, grid)
        assert raw.sites == normal.sites and Partition.of(normal.axes, normal.grid) == normal
        assert all((raw.digits(d, 36) == normal.digits(d, 36)).all() for d in range(3))


def test_one_site_is_not_every_site() -> None:
    a = Input("A", (4, 4), (2, 2), by(0, 2))
    at_one, everywhere = Shuffle(a, by()), Broadcast(a)
    assert at_one.relation.partition == Partition((), ()) != everywhere.relation.partition
    sites = Simulation(data(a), 3).run(at_one)
    assert [len(s) for s in sites] == [16, 0, 0]
    total = LocalAggregate(at_one, (), ADD)
    assert total.relation.partial is None and total.relation.partition == by()


def test_a_grid_covers_all_sites_evenly() -> None:
    assert set(grids((64, 64), 8)) == {(1, 8), (2, 4), (4, 2), (8, 1)}
    assert (2, 3) in grids((4, 3), 7) and grids((), 5) == ((),)
    for at in (by(0, 4, 1, 2), by(1, 2, 0, 4), Partition.of((1, 0, again(0)), (2, 2, 2))):
        sites = at.digits(0, 8)[:, None] + at.digits(1, 6)[None, :]
        assert (np.bincount(sites.ravel(), minlength=8) == 6).all()


def test_a_partition_with_more_cells_than_keys_is_refused() -> None:
    with pytest.raises(ShapeError, match="dimension 0 has 3 keys"):
        _ = Shuffle(Input("A", (3, 3), (2, 2)), by(0, 4)).relation
    with pytest.raises(ValueError_, match="more cells than the 4 sites"):
        plan_cost(Shuffle(Input("A", (8, 8), (2, 2)), by(0, 8)), 4)


PRODUCT = logical.Aggregate(logical.Join(A, B, (1,), (0,), MATMUL), (0, 2), ADD)


def joined(left: Node, right: Node) -> LocalJoin:
    return LocalJoin(left, right, (1,), (0,), MATMUL)


@pytest.mark.parametrize(("left", "right", "at"), [
    (Broadcast(A), B, by(2, 2)),
    (A, Broadcast(B), by(0, 2)),
    (Shuffle(A, by(1, 3)), Shuffle(B, by(0, 3)), by(1, 3)),
    (Broadcast(A), Broadcast(B), None),
    (Shuffle(A, by()), Shuffle(B, by()), by()),
])
def test_joins_of_operands_that_meet(left: Node, right: Node, at: Partition | None) -> None:
    join = joined(left, right)
    assert join.relation.partition == at and join.relation.extents == (4, 6, 4)
    given = data(A, B)
    want = {(i, k, j): given["A"][i, k] @ given["B"][k, j]
            for i, k, j in product(range(4), range(6), range(4))}
    assert equal(evaluate(join, given, 4), want)


@pytest.mark.parametrize(("left", "right"), [
    (A, B),
    (Shuffle(A, by(1, 3)), Shuffle(B, by(0, 2))),
    (Shuffle(A, by(1, 2)), Shuffle(B, by(1, 2))),
    (Shuffle(A, by(0, 2, 1, 2)), Shuffle(B, by(1, 2, 0, 2))),
    (Input("A", (4, 6), (2, 3)), Input("B", (6, 4), (3, 2))),
])
def test_joins_that_miss_pairs_are_refused(left: Node, right: Node) -> None:
    join = joined(left, right)
    with pytest.raises(ValueError_, match="misses pairs"):
        _ = join.relation
    assert len(evaluate(join, data(A, B), 4)) < 4 * 6 * 4


def test_an_aggregation_is_complete_where_groups_are_together() -> None:
    made = {at: LocalAggregate(Shuffle(A, at), (0,), ADD) for at in (by(0, 4), by(1, 3), by())}
    assert made[by(0, 4)].relation.partial is None and made[by()].relation.partial is None
    partial = made[by(1, 3)]
    assert partial.relation.partial is ADD and str(partial.relation.partition) == "by partial/3"
    given = data(A)
    want = {(i,): sum(given["A"][i, k] for k in range(6)) for i in range(4)}
    assert equal(evaluate(made[by(0, 4)], given, 4), want)
    together = LocalAggregate(Shuffle(partial, by(0, 2)), (0,), ADD)
    assert together.relation.partial is None and equal(evaluate(together, given, 4), want)
    everywhere = LocalAggregate(Broadcast(partial), (0,), ADD)
    assert everywhere.relation.partition is None and equal(evaluate(everywhere, given, 4), want)


@pytest.mark.parametrize("wrong", [
    lambda partial: LocalAggregate(partial, (0,), MAXIMUM),
    lambda partial: LocalMap(partial, same_key(1), SQUARE),
    lambda partial: LocalJoin(partial, Broadcast(Input("v", (4,), (2, 3))), (0,), (0,), MAXIMUM),
    lambda partial: LocalAggregate(partial.child, (0,), ADD, SQUARE),
    lambda partial: LocalAggregate(partial.child, (0,), MATMUL),
], ids=("other monoid", "map", "join", "finish", "no monoid"))
def test_what_partial_aggregates_do_not_allow(wrong) -> None:  # type: ignore[no-untyped-def]
    partial = LocalAggregate(Shuffle(A, by(1, 3)), (0,), ADD)
    with pytest.raises(TensorelError):
        _ = wrong(partial).relation


def test_partial_aggregates_pass_through_kernels_that_distribute() -> None:
    partial = LocalAggregate(Shuffle(A, by(1, 3)), (0,), ADD)
    v = Input("v", (4,), (3, 2), None)
    plan = LocalJoin(LocalMap(partial, same_key(1), TRANSPOSE), v, (0,), (0,), MULTIPLY)
    done = LocalAggregate(Shuffle(plan, by(0, 4)), (0,), ADD)
    given = data(A, v)
    want = {(i,): sum(given["A"][i, k] for k in range(6)).T * given["v"][i,] for i in range(4)}
    assert plan.relation.partial is ADD and equal(evaluate(done, given, 4), want)


def test_the_product_of_the_paper() -> None:
    plan = translate(PRODUCT, 4)
    given = data(A, B)
    assert isinstance(plan, LocalAggregate) and isinstance(plan.child, Shuffle)
    assert np.allclose(whole(evaluate(plan, given, 4)), whole(given["A"]) @ whole(given["B"]))


def test_translation_of_each_operator() -> None:
    R = Input("R", (2,), (2, 4), by(0, 2))
    given = data(R)
    tiled = translate(logical.Tile(R, 1, 2), 2)
    assert tiled.relation.extents == (2, 2) and tiled.relation.block == (2, 2)
    assert np.array_equal(evaluate(tiled, given, 2)[1, 1], given["R"][1,][:, 2:])
    stacked = translate(logical.Stack(logical.Tile(R, 1, 2), 1, 1), 2)
    assert stacked.relation.block == (2, 4) and equal(evaluate(stacked, given, 2), given["R"])
    flat = logical.Rekey(logical.Tile(R, 1, 2),
                         computed("flat", lambda k: (2 * k[0] + k[1],), (4,)))
    assert str(translate(flat, 2).relation.partition) == "anywhere"
    assert sorted(evaluate(translate(flat, 2), given, 2)) == [(0,), (1,), (2,), (3,)]
    with pytest.raises(ShapeError, match="tiles of 3"):
        translate(logical.Tile(R, 1, 3), 2)


def test_the_diagonal_of_the_paper() -> None:
    diagonal = Kernel("diag", lambda block: np.diag(np.diag(block)), distributes_over=(ADD,))
    X, Y = (Input(n, (4, 4), (3, 3), by(0, 2)) for n in "XY")
    equal_keys = Predicate("equal", (0, 1), lambda i, j: i == j)
    plan = translate(logical.Transform(logical.Rekey(logical.Filter(
        logical.Join(X, Y, (0, 1), (0, 1), ADD), equal_keys), select(0)), diagonal), 2)
    given = data(X, Y)
    want = {(i,): np.diag(np.diag(given["X"][i, i] + given["Y"][i, i])) for i in range(4)}
    assert equal(evaluate(plan, given, 2), want)
    assert plan.relation.tuples == 4 == len(want)


def test_maps_that_give_several_tuples_one_key_are_refused() -> None:
    with pytest.raises(ValueError_, match="24 tuples 4 keys"):
        _ = LocalMap(A, select(0)).relation
    once = LocalFilter(A, Predicate("first", (1,), lambda k: k == 0))
    assert LocalMap(once, select(0)).relation.tuples == 4


def test_copies_are_one_block() -> None:
    wide = LocalMap(A, insert(2, 2, 4))
    assert wide.relation.extents == (4, 6, 4) and wide.relation.bytes == A.relation.bytes
    spread = Shuffle(wide, by(0, 2, 2, 2))
    assert plan_cost(spread, 4).bytes == Partition.of((0, 2), (2, 2)).cells(2) * 24 * 48 - 12 * 48
    assert measured(spread, 4, A) == plan_cost(spread, 4).bytes


def measured(plan: Node, sites: int, *inputs: Input) -> float:
    run = Simulation(data(*inputs), sites)
    run.run(plan)
    return run.moved


MOVES = (None, by(), by(0, 2), by(1, 3), by(0, 2, 1, 2), by(1, 2, 0, 3), by(0, 4))


@pytest.mark.parametrize("sites", (6,))
def test_bytes_are_those_that_leave_their_site(sites: int) -> None:
    for before, after in product(MOVES, MOVES):
        stored = Input("A", (5, 7), (2, 3), before)
        move = Broadcast(stored) if after is None else Shuffle(stored, after)
        assert measured(move, sites, stored) == plan_cost(move, sites).bytes
        for group in ((0,), (1,), ()):
            partial = LocalAggregate(stored, group, ADD)
            extents = dict(enumerate(partial.relation.extents))
            fit = [p for p in MOVES if p is None or all(
                p.cells(d) <= extents.get(d, 0) for d in p.dims)]
            for to in fit:
                move = Broadcast(partial) if to is None else Shuffle(partial, to)
                assert measured(move, sites, stored) == plan_cost(move, sites).bytes


def test_bytes_of_all_plans_of_a_product() -> None:
    given, want = data(A, B), whole(data(A, B)["A"]) @ whole(data(A, B)["B"])
    plans, compared = [translate(PRODUCT, 4)], 0
    for plan in plans:
        assert np.allclose(whole(evaluate(plan, given, 4)), want)
        assert measured(plan, 4, A, B) == pytest.approx(plan_cost(plan, 4).bytes)
        compared += 1
        if len(plans) < 60:
            plans += [p for _, p in neighbours(plan, 4) if p not in plans][: 60 - len(plans)]
    assert compared >= 60


def test_few_keys_on_many_sites_are_slow() -> None:
    narrow = LocalMap(Input("A", (2, 64), (10, 10), by(0, 2)), same_key(2), SQUARE)
    wide = LocalMap(Input("A", (2, 64), (10, 10), by(1, 8)), same_key(2), SQUARE)
    uneven = LocalMap(Input("A", (2, 9), (10, 10), by(1, 8)), same_key(2), SQUARE)
    assert plan_cost(narrow, 8).busiest_flops == 4 * plan_cost(wide, 8).busiest_flops
    assert plan_cost(narrow, 8).flops == plan_cost(wide, 8).flops
    assert plan_cost(uneven, 8).busiest_flops == 2 * 2 * 100


def test_what_is_kept_by_a_filter_is_counted_once() -> None:
    even = Predicate("even", (1,), lambda k: k % 2 == 0)
    left, right = LocalFilter(A, even), LocalFilter(B, Predicate("even", (0,), even.holds))
    join = joined(Broadcast(left), right)
    assert join.relation.tuples == 4 * 3 * 4 == len(evaluate(join, data(A, B), 2))


def test_a_plan_is_printed_an_operator_a_line() -> None:
    text = show(translate(PRODUCT, 4), 4)
    assert [line.split()[0] for line in text.split("\n")] == [
        "aggregate", "shuffle", "join", "broadcast", "A", "B", "4"]
    assert "sends 3.46 kB" in text and "at all sites" in text and "by 2/2" in text


def test_several_sums_of_a_site_are_an_error() -> None:
    shuffled = Shuffle(LocalAggregate(Shuffle(A, by(1, 3)), (0,), ADD), by(0, 2))
    with pytest.raises(ValueError_, match="blocks of the key"):
        gathered(Simulation(data(A), 4).run(shuffled))
