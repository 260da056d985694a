"""What a driver knows of results elsewhere: what is kept, and what is made again."""

from __future__ import annotations

from tensorel.engines.sites.cluster import Task
from tensorel.engines.sites.ledger import Ledger
from tensorel.engines.sites.placing import BANDWIDTH, levels, place


def ledger_of(*tasks: Task) -> tuple[Ledger, list[int]]:
    dropped: list[int] = []
    ledger = Ledger(dropped.append)
    for t in tasks:
        ledger.accept(t)
        ledger.start(t.number, t.site)
    return ledger, dropped


A, B, C = Task(1, 0, abs), Task(2, 1, abs, (1,)), Task(3, 2, abs, (1, 2))


def test_a_result_is_sent_once_to_each_site_and_dropped_after_its_last_use():
    D = Task(4, 2, abs, (1, 1))
    ledger, dropped = ledger_of(A, B, C, D)
    ledger.release(1)
    assert ledger.finish(1, 100) == 0
    assert ledger.finish(2, 10) == 100
    assert not ledger.ready(3) or ledger.finish(3, 1) == 110
    assert not dropped
    assert ledger.finish(4, 1) == 0 and dropped == [1]
    assert ledger.held(3) == [0, 10, 12]


def test_what_was_dropped_is_made_again_for_what_is_lost_and_forgotten_with_it():
    ledger, dropped = ledger_of(A, B, C)
    ledger.release(1)
    ledger.release(2)
    for n in (1, 2, 3):
        ledger.finish(n, 8)
    assert dropped == [1, 2] and set(ledger.tasks) == {1, 2, 3}
    assert ledger.to_make({3}) == [1, 2, 3]
    for n in (1, 2, 3):
        ledger.start(n, 0)
    assert [ledger.finish(n, 8) for n in (1, 2, 3)] == [0, 0, 0]
    assert dropped == [1, 2, 1, 2] and ledger.held(3) == [24 - 16, 0, 0]
    ledger.release(3)
    assert not ledger.tasks and not ledger.made_at and not ledger.sizes


def test_tasks_are_sent_after_those_that_they_need_whatever_their_numbers_are():
    late = Task(9, 0, abs), Task(4, 0, abs, (9,)), Task(6, 1, abs, (4, 9))
    ledger, _ = ledger_of(*late)
    assert ledger.in_order([4, 6, 9]) == [9, 4, 6]
    assert ledger.in_order([4, 6]) == [4, 6]


def test_what_nobody_needs_is_kept_while_tasks_run_and_there_is_room():
    later = Task(4, 0, abs), Task(5, 1, abs, (4,))
    ledger, dropped = ledger_of(A, B, C, *later)
    ledger.room = 30
    for n in (1, 2, 3, 4):
        ledger.release(n)
    ledger.finish(1, 10)  # at site 0, and its copies at 1 and 2
    ledger.finish(2, 10)
    ledger.finish(3, 10)
    assert not dropped and ledger.held(3) == [10, 20, 30]
    ledger.finish(4, 25)
    assert dropped == [1] and ledger.held(3) == [25, 10, 20]
    ledger.finish(5, 1)  # nothing runs any more
    assert sorted(dropped) == [1, 2, 3, 4] and ledger.held(3) == [0, 1, 0]


def test_of_what_is_lost_what_nobody_needs_is_not_made_again():
    D = Task(4, 0, abs, (2, 3))
    ledger, dropped = ledger_of(A, B, C, D, Task(5, 0, abs, (1,)))
    for n in (1, 2, 3):
        ledger.release(n)
        ledger.finish(n, 10)
    ledger.finish(4, 1)
    assert not dropped  # 5 still runs: the others are spare
    assert ledger.to_make({2, 4}) == [2, 4]  # 4 is a result, made of 2 and of 3, which is there
    assert ledger.to_make({3}) == [] and dropped == [3]
    assert ledger.to_make({4}) == [3, 4]  # it has to be made for that


def test_flying_tasks_go_anew_with_all_that_wait_for_them():
    other = Task(5, 0, abs)
    ledger, _ = ledger_of(A, B, C, other)
    assert ledger.again({2}, set()) == [2, 3]
    ledger.finish(1, 8)
    assert ledger.again(set(), {1}) == [2, 3]
    ledger.start(2, 0)  # elsewhere
    ledger.start(3, 2)
    assert list(ledger.flying) == [5, 2, 3]
    ledger.finish(2, 8)
    assert ledger.finish(3, 8) == 16


def test_tasks_without_a_site_go_where_they_are_done_first():
    tasks = [Task(n, 0, abs, work=1.0) for n in (1, 2, 3)]
    level = levels(tasks)
    assert level == {1: 1, 2: 1, 3: 1}
    at = place(tasks, [1, 2], {(2, 1): 5.0}, level, {}, {}, lambda t: 2.0)
    assert at == {1: 1, 2: 1, 3: 1}
    at = place(tasks, [1, 2], {(2, 9): 5.0}, level, {}, {}, lambda t: 2.0)
    assert at == {1: 1, 2: 2, 3: 1}  # what waits on another level does not matter
    large = int(10 * BANDWIDTH)
    reader = Task(9, 0, abs, (1, 8), 1.0)
    at = place([reader], [1, 2], {(2, 1): 5.0}, {9: 1}, {8: {2}}, {8: large, 1: 8},
               lambda t: 2.0)
    assert at == {9: 2}


def test_blocks_are_made_again_where_they_are_needed_step_by_step():
    made = [Task(n, 0, abs) for n in range(8)]
    steps = [Task(10, 0, abs, tuple(range(8)), 1.0), Task(11, 0, abs, (10, *range(8)), 1.0)]
    other = [Task(20, 1, abs, (), 1.0), Task(21, 2, abs, (20,), 1.0)]
    at = place([*made, *steps], [1, 2], {}, levels([*made, *other, *steps]), {}, {}, lambda t: 2.0)
    assert len(set(at.values())) == 1
