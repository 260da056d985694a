"""Each rule fires where its law holds and gives the same relation; where what it requires does not
hold it stays silent, and what it would have built gives another relation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from implementation_support import A, B, by, data, equal

from tensorel.blocks.implementation import (
    ADD,
    MATMUL,
    MULTIPLY,
    RULES,
    TRANSPOSE,
    Broadcast,
    Input,
    Kernel,
    LocalAggregate,
    LocalFilter,
    LocalJoin,
    LocalMap,
    Node,
    Predicate,
    Shuffle,
    evaluate,
    insert,
    neighbours,
    rules,
    same_key,
    select,
)
from tensorel.blocks.implementation.functions import after, renumbered, stack, tile
from tensorel.blocks.implementation.rules import Rule
from tensorel.errors import ValueError_

SITES = 4
S = Input("S", (3, 3), (3, 3), by(0, 3))
T = Input("T", (3, 3), (3, 3), by(1, 3))
SQUARE = Kernel("square", np.square)
DOUBLE = Kernel("double", lambda block: 2 * block, distributes_over=(ADD,))
EVEN = Predicate("even", (1,), lambda k: k % 2 == 0)
ROW = Predicate("row", (0,), lambda k: k == 1)
SAME = Predicate("same", (0, 1), lambda i, j: i == j)
ENDS = Predicate("ends", (0, 2), lambda i, j: i <= j)


def fold(child: Node, *group: int, kernel: Kernel = ADD) -> LocalAggregate:
    return LocalAggregate(child, group, kernel)


def times(left: Node, right: Node) -> LocalJoin:
    return LocalJoin(left, right, (1,), (0,), MATMUL)


def mapped(child: Node, kernel: Kernel) -> LocalMap:
    return LocalMap(child, same_key(child.relation.arity), kernel)


PARTIAL = fold(A, 1)  # A lies by dimension 0
PRODUCT = times(Broadcast(A), B)
OVERLAY = LocalJoin(S, Shuffle(T, by(0, 3)), (0, 1), (0, 1), ADD)

FIRE: list[tuple[Rule, Node]] = [
    (rules.merge_filters, LocalFilter(LocalFilter(A, EVEN), ROW)),
    (rules.merge_maps, LocalMap(LocalMap(A, select(1, 0), TRANSPOSE), insert(2, 1, 3), SQUARE)),
    (rules.merge_maps, LocalMap(LocalMap(A, insert(2, 0, 2), SQUARE), insert(3, 3, 3), tile(1, 1))),
    (rules.filter_before_map, LocalFilter(mapped(A, SQUARE), EVEN)),
    (rules.filter_before_map, LocalFilter(LocalMap(A, select(1, 0)), EVEN)),
    (rules.map_before_filter, mapped(LocalFilter(A, EVEN), SQUARE)),
    (rules.finish_aggregation, mapped(fold(A, 0), SQUARE)),
    (rules.map_before_aggregation, mapped(fold(A, 0), DOUBLE)),
    (rules.map_after_aggregation, fold(mapped(A, DOUBLE), 0)),
    (rules.filter_before_aggregation, LocalFilter(fold(Broadcast(A), 1, 0), EVEN)),
    (rules.filter_after_aggregation, fold(LocalFilter(A, ROW), 0)),
    (rules.filter_before_join, LocalFilter(PRODUCT, EVEN)),
    (rules.filter_before_join, LocalFilter(PRODUCT, ROW)),
    (rules.filter_before_join, LocalFilter(PRODUCT, ENDS)),
    (rules.filter_before_join, LocalFilter(OVERLAY, SAME)),
    (rules.map_in_join, mapped(PRODUCT, SQUARE)),
    (rules.map_in_join, LocalMap(PRODUCT, select(2, 1, 0), TRANSPOSE)),
    (rules.map_before_join, mapped(OVERLAY, TRANSPOSE)),
    (rules.last_move, Shuffle(Shuffle(A, by(1, 3)), by(1, 2))),
    (rules.last_move, Shuffle(Broadcast(A), by(1, 2))),
    (rules.last_move, Broadcast(Shuffle(A, by(1, 3)))),
    (rules.last_move, Shuffle(A, by(0, 2))),
    (rules.filter_after_move, Shuffle(LocalFilter(A, EVEN), by(1, 3))),
    (rules.filter_after_move, Broadcast(LocalFilter(A, EVEN))),
    (rules.filter_before_move, LocalFilter(Shuffle(A, by(1, 3)), EVEN)),
    (rules.map_after_move, Broadcast(mapped(A, SQUARE))),
    (rules.map_after_move, Shuffle(LocalMap(A, select(1, 0)), by(0, 3))),
    (rules.map_before_move, LocalMap(Shuffle(A, by(1, 3)), select(1, 0), SQUARE)),
    (rules.map_before_move, LocalMap(Broadcast(A), insert(2, 0, 2))),
    (rules.aggregate_in_place, fold(Shuffle(A, by(0, 4)), 0)),
    (rules.aggregate_in_place, fold(Shuffle(Broadcast(A), by(0, 4)), 0)),
    (rules.aggregate_twice, fold(Shuffle(A, by(1, 3)), 1)),
    (rules.aggregate_twice, replace(fold(Shuffle(A, by(1, 3)), 1), finish=SQUARE)),
    (rules.aggregate_twice, fold(Shuffle(PRODUCT, by(2, 4)), 0, 2)),
    (rules.place_join, PRODUCT),
    (rules.place_join, OVERLAY),
    (rules.join_after_move, Shuffle(times(Shuffle(A, by(1, 2)), Shuffle(B, by(0, 2))), by(1, 3))),
    (rules.join_after_move, Shuffle(PRODUCT, by(2, 4))),
    (rules.join_after_move, Shuffle(PRODUCT, by(1, 2, 2, 2))),
    (rules.replicate_join, PRODUCT),
    (rules.replicate_join, LocalJoin(Broadcast(S), T, (0,), (1,), MULTIPLY)),
    (rules.shuffle_otherwise, fold(Shuffle(fold(A, 1), by(0, 3)), 0)),
]


def ids(value: object) -> str | None:
    return value.name if isinstance(value, Rule) else None


@pytest.mark.parametrize(("rule", "plan"), FIRE, ids=ids)
def test_both_sides_give_the_same_relation(rule: Rule, plan: Node) -> None:
    given = data(A, B, S, T, seed=3)
    want = evaluate(plan, given, SITES)
    fired = [p for _, p in neighbours(plan, SITES, (rule,)) if p != plan]
    assert fired
    for other in fired:
        assert equal(evaluate(other, given, SITES), want)


def test_every_rule_fires_in_a_test() -> None:
    assert {id(rule) for rule, _ in FIRE} == {id(rule) for rule in RULES}
    assert all(rule.law and rule.requires for rule in RULES)


KEYED = LocalMap(A, insert(2, 2, 3), tile(1, 1))
FOLDED_SQUARES = fold(mapped(A, SQUARE), 0)
MOVED_COPIES = Shuffle(LocalMap(A, insert(2, 0, 4)), by(0, 4))

#: A rule, a plan that it has to leave alone, and what it would have made of it.
SILENT: list[tuple[Rule, Node, Node | None]] = [
    # the tile would be chosen by the last number of another key
    (rules.merge_maps, LocalMap(KEYED, select(2, 1, 0)),
     LocalMap(A, select(1, 0), tile(1, 1))),
    # the dimension that is read is not there below the map
    (rules.filter_before_map, LocalFilter(LocalMap(A, insert(2, 1, 3)), EVEN),
     LocalMap(LocalFilter(A, EVEN), insert(2, 1, 3))),
    # above the map keys that the filter took out would meet those that it kept
    (rules.map_before_filter, LocalMap(LocalFilter(S, SAME), select(0)), LocalMap(S, select(0))),
    # f(x + y) is not f(x) + f(y)
    (rules.finish_aggregation, mapped(PARTIAL, SQUARE), None),
    (rules.map_before_aggregation, mapped(fold(A, 0), SQUARE), FOLDED_SQUARES),
    (rules.map_after_aggregation, FOLDED_SQUARES, mapped(fold(A, 0), SQUARE)),
    # the aggregate has no such key
    (rules.filter_after_aggregation, fold(LocalFilter(A, EVEN), 0),
     LocalFilter(fold(A, 0), renumbered(EVEN, (0,)))),
    # the kernel would take the key for a block
    (rules.map_in_join, LocalMap(PRODUCT, insert(3, 3, 2), tile(1, 1)), None),
    # (AB)' is not A'B'
    (rules.map_before_join, mapped(LocalJoin(S, Broadcast(T), (0, 1), (0, 1), MATMUL), TRANSPOSE),
     LocalJoin(mapped(S, TRANSPOSE), mapped(Broadcast(T), TRANSPOSE), (0, 1), (0, 1), MATMUL)),
    # the partition is by a dimension that is new
    (rules.map_after_move, fold(MOVED_COPIES, 0),
     fold(LocalMap(Shuffle(A, by(0, 4)), insert(2, 0, 4)), 0)),
    # groups lie at several sites
    (rules.aggregate_in_place, fold(Shuffle(A, by(1, 3)), 1), fold(A, 1)),
    (rules.aggregate_in_place, fold(Shuffle(LocalMap(Input("A", (4, 6), (2, 3)), select(1, 0)),
                                            by(0, 3)), 0), None),
    # the order of keys counts, and the parts that sites have are not of one shape
    (rules.aggregate_twice, fold(Shuffle(Input("A", (4, 6), (2, 3), by(0, 2, 1, 2)), by(1, 3)), 1,
                                 kernel=stack(0)), None),
    # what the shuffle goes by is no group key
    (rules.aggregate_twice, fold(Shuffle(A, by(0, 4)), 1), None),
    # the kernel does not distribute over what is partial
    (rules.place_join, LocalJoin(mapped(PARTIAL, TRANSPOSE), Broadcast(
        Input("v", (6,), (3, 2))), (0,), (0,), MULTIPLY), None),
    # a join by one key, moved by another: pairs would miss each other
    (rules.join_after_move, fold(Shuffle(times(Shuffle(A, by(1, 2)), Shuffle(B, by(0, 2))),
                                         by(0, 4)), 0, 2),
     fold(times(Shuffle(A, by(0, 4)), Shuffle(B, by(1, 4))), 0, 2)),
    # nothing to repeat an operand along
    (rules.replicate_join, OVERLAY, None),
]


@pytest.mark.parametrize(("rule", "plan", "wrong"), SILENT, ids=ids)
def test_a_rule_is_silent_where_firing_would_be_wrong(
        rule: Rule, plan: Node, wrong: Node | None) -> None:
    assert not list(rule.apply(plan, SITES))
    assert not [p for used, p in neighbours(plan, SITES, (rule,)) if used is rule]
    if wrong is None:
        return
    given = data(A, B, S, T, seed=3)
    want = evaluate(plan, given, SITES)
    try:
        got = evaluate(wrong, given, SITES)
    except (ValueError_, IndexError):  # several blocks of a key
        return
    assert not equal(got, want)


def test_a_rule_that_requires_something_has_a_test_of_it() -> None:
    silent = {id(rule) for rule, *_ in SILENT}
    free = (rules.map_before_move, rules.shuffle_otherwise, rules.filter_before_aggregation)
    for rule in RULES:
        if rule.requires != "nothing" and rule not in free:
            assert id(rule) in silent, rule


def test_a_map_that_drops_the_partition_stays_above_its_shuffle() -> None:
    """Of the diagonal one block is left in each column, so the column may be dropped."""
    plan = LocalMap(Shuffle(LocalFilter(S, SAME), by(1, 3)), select(0))
    assert plan.relation.partition is not None and plan.relation.partition.grid is None
    assert not list(rules.map_before_move.apply(plan, SITES))


def test_what_is_partial_is_finished_after_it_is_complete() -> None:
    """The two-phase plan with the map in both phases is another function; the rule keeps it out."""
    plan = replace(fold(Shuffle(A, by(1, 3)), 1), finish=SQUARE)
    (twice,) = rules.aggregate_twice.apply(plan, SITES)
    assert isinstance(twice, LocalAggregate) and isinstance(twice.child, Shuffle)
    inner = twice.child.child
    assert isinstance(inner, LocalAggregate) and inner.finish is not SQUARE
    given = data(A)
    wrong = replace(twice, child=replace(twice.child, child=replace(inner, finish=SQUARE)))
    assert not equal(evaluate(wrong, given, SITES), evaluate(plan, given, SITES))
    with pytest.raises(ValueError_, match="of aggregates that are partial"):
        _ = wrong.relation


def test_stacks_of_parts_are_not_stacks() -> None:
    """Blocks of a column that lie at two sites, stacked at each and then together."""
    stored = Input("A", (4, 6), (2, 3), by(0, 2))
    plan = fold(Shuffle(stored, by(1, 3)), 1, kernel=stack(0))
    parts = LocalAggregate(stored, (1,), stack(0))
    given = {"A": data(A)["A"]}
    assert evaluate(plan, given, SITES)[0,].shape == (8, 3)
    with pytest.raises(ValueError_, match="is no monoid"):
        _ = parts.relation


def test_composed_kernels_know_what_they_distribute_over() -> None:
    assert after(DOUBLE, MATMUL).distributes_over == (ADD,)
    assert after(SQUARE, MATMUL).distributes_over == ()
    assert after(DOUBLE, MATMUL) is after(DOUBLE, MATMUL)


def test_a_plan_in_which_something_complete_becomes_partial_is_none() -> None:
    make: Callable[[Node], Node] = lambda child: fold(child, 0)  # noqa: E731
    plan = make(Shuffle(PRODUCT, by(0, 4)))
    for _, other in neighbours(plan, SITES):
        assert other.relation.partial is None
