"""Random programs: the front end, the reference and the engine against NumPy."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tensorel as tr
from program_coverage import ELSEWHERE, public_names, reached
from tensorel import reference
from tensorel.ir import monoids
from tensorel.storage import convert, registry
from tensorel.testing import (
    Event,
    Leaf,
    Program,
    Step,
    check,
    check_format,
    difference,
    examine,
    fuzz,
    run_numpy,
    sample_program,
    shrink,
)
from tensorel.testing.programs.handing import WAYS, Handed
from tensorel.testing.programs.leaves import random_leaf
from tensorel.testing.programs.own_storages import TEXTS
from tensorel.testing.programs.program import Trace
from tensorel.testing.programs.running import build
from tensorel.testing.strategies import leaves, programs

SAMPLES = [pytest.param("small", 0, 50, marks=pytest.mark.check),
           *(("small", n, 50) for n in range(50, 200, 50)),
           *(("medium", n, 20) for n in range(0, 40, 20)), ("large", 0, 4)]


@pytest.mark.parametrize(("size", "first", "count"), SAMPLES)
def test_the_engine_agrees_with_numpy(size: str, first: int, count: int) -> None:
    report = fuzz(2024, range(first, first + count), size=size, most=1)
    for number, wrong, program in report.failures:
        pytest.fail(f"program {number}: {wrong}\n\n{program.text}")
    assert report.skipped_share < 0.2
    assert report.refused.total() <= count // 4, report.refused


def test_every_public_name_is_reached() -> None:
    """A new function has a builder, or a reason not to."""
    found, names = reached(0, 1500), public_names()
    missing = sorted(names - found - set(ELSEWHERE))
    assert not missing, f"no builder of random programs uses {missing}"
    stale = sorted(n for n in ELSEWHERE if n in found or n not in names)
    assert not stale, f"listed as not reached: {stale}"


def test_every_format_and_way_is_reached() -> None:
    rng = np.random.default_rng(0)
    drawn = [random_leaf(rng, "A", (1, 2, 3)) for _ in range(3000)]
    formats = {str(leaf.format).split("(")[0] for leaf in drawn}
    assert formats >= set(registry.names())
    assert {leaf.how for leaf in drawn} == set(WAYS)
    own = {text for texts in TEXTS.values() for text in texts}
    packed = "".join(str(leaf.format) for leaf in drawn)
    assert all(json.dumps(text)[1:-1] in packed for text in own)
    mixed = {str(leaf.format) for leaf in drawn if ";" in str(leaf.format)}
    assert {"0;1", ";0;1", "0;1,2", ";0,1;2", "0;1;2"} <= mixed


def test_histories_have_every_event() -> None:
    events = [e.kind for n in range(1200) for e in sample_program(3, n).history]
    assert set(events) == {"again", "write", "move", "pickle", "copy", "elsewhere", "rebuild",
                           "ask"}
    drawn = [sample_program(3, n) for n in range(100)]
    assert any(p.also for p in drawn)
    assert any("strict" in p.settings for p in drawn)


def test_a_write_that_goes_unseen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is compared with what the memory holds, not with what it held."""
    array = np.array([[0.0, 2.0], [3.0, 0.0]])
    event = Event("write", "A", array * 2)
    program = Program((Leaf("A", array, how="memory"),), (Step("t1", "{0} * 2", ("A",)),),
                      history=(event,))
    assert check(program) is None
    monkeypatch.setattr(Handed, "write", lambda self, array: None)
    assert "values differ" in (check(program) or "")


def test_refusals_are_counted_by_reason() -> None:
    big = Program((Leaf("A", np.ones((300, 300))),), (Step("t1", "{0} + 1", ("A",)),),
                  settings={"memory": 1000})
    assert "MemoryLimitError" in (examine(big).refused or "") and examine(big).wrong is None


def test_tolerances_follow_the_sums() -> None:
    """A sum that cancels may err by what its terms are large; one of small terms may not."""
    array = np.array([1e8, -1e8, 0.1, 0.3])
    program = Program((Leaf("A", array),), (Step("t1", "xp.sum({0})", ("A",),
                                                 measure="xp.sum({0})"),))
    assert 1e-8 < float(run_numpy(program).tolerance) < 1e-5
    small = replace(program, leaves=(Leaf("A", array[2:]),))
    assert float(run_numpy(small).tolerance) < 1e-13


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_the_reference_agrees_with_numpy(first: int) -> None:
    for number in range(first, first + 200):
        program = sample_program(7, number)
        trace = run_numpy(program)
        found = reference.evaluate(build(program, trace).node, _dense)
        expected = trace.values[program.root]
        wrong = difference(found, expected, trace.tolerance, values=trace.comparable)
        assert wrong is None, f"program {number}: {wrong}\n\n{program.text}"


def _dense(source: Any) -> np.ndarray[Any, Any]:
    return convert.to_dense(source.data)


@pytest.mark.parametrize("name", registry.names())
def test_one_answer_for_every_storage(name: str) -> None:
    check_format(name, count=3)


@settings(max_examples=30, deadline=None)
@given(leaves())
def test_a_leaf_keeps_its_values(leaf: Leaf) -> None:
    assert difference(leaf.build().to_numpy(), leaf.array) is None


# -- the machinery itself ----------------------------------------------------------------------
def test_a_program_is_the_same_in_every_process() -> None:
    assert sample_program(3, 14).text == sample_program(3, 14).text
    assert sample_program(3, 14).text != sample_program(3, 15).text


def test_few_programs_are_not_comparable() -> None:
    traces = [run_numpy(sample_program(5, number)) for number in range(300)]
    assert sum(not t.comparable for t in traces) < 40


def test_programs_are_as_large_as_promised() -> None:
    drawn = [sample_program(11, number) for number in range(200)]
    assert max(len(p.steps) for p in drawn) == 8
    assert max(len(p.leaves) for p in drawn) >= 3
    assert {leaf.array.ndim for p in drawn for leaf in p.leaves} == {0, 1, 2, 3, 4}
    assert len({leaf.array.dtype for p in drawn for leaf in p.leaves}) == 13


@settings(max_examples=20, deadline=None)
@given(programs(tensors=2, operators=3))
def test_the_text_of_a_program_runs(program: Program) -> None:
    scope: dict[str, Any] = {"print": lambda *_: None}
    exec(program.text, scope)
    assert tuple(scope["result"].shape) == run_numpy(program).values[program.root].shape


def test_shrinking_keeps_the_failing_step() -> None:
    program = next(
        p for p in (sample_program(0, n) for n in range(500))
        if len(p.steps) >= 5 and any("sum" in s.template for s in p.steps)
    )

    def fails(candidate: Program) -> bool:
        return any("sum" in s.template for s in candidate.steps)

    small = shrink(program, fails)
    assert len(small.steps) == 1 and fails(small)


def test_a_wrong_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = Leaf("A", np.array([[0.0, 2.0], [3.0, 0.0]]), "csr")
    program = Program((leaf,), (Step("t1", "{0} * 2", ("A",)),))
    assert check(program) is None
    trace = run_numpy(program)
    wrong = {**trace.values, "t1": trace.values["t1"] + 1}
    bad = Trace(wrong, True, trace.tolerance)
    assert "values differ" in (check(program, bad) or "")


def test_difference_speaks() -> None:
    a = np.array([1, 2])
    assert difference(a, a) is None
    assert "dtype" in (difference(a, a.astype(np.int32)) or "")
    assert "shape" in (difference(a, a[:1]) or "")
    nan = np.array([np.nan, 1.0])
    assert difference(nan, nan) is None
    assert difference(np.array([1.0]), np.array([1.0 + 1e-15])) is None
    assert difference(np.array([1.0]), np.array([1.0 + 1e-9])) is not None


def test_leaves_cover_empty_and_full_tensors() -> None:
    rng = np.random.default_rng(0)
    drawn = [random_leaf(rng, "A") for _ in range(300)]
    stored = [np.count_nonzero(leaf.array != np.asarray(leaf.fill)) for leaf in drawn]
    assert any(n == 0 for n in stored)
    assert any(n == leaf.array.size > 1 for n, leaf in zip(stored, drawn))


def test_square_of_a_sum_over_an_unused_index() -> None:
    """Fuzz program 777:1710: two sums over the same unused index must not become one."""
    b = np.array([0, 0, 4], dtype="uint16")
    t = tr.broadcast_to(tr.asarray(b), (3, 3)).sum(axis=0)
    assert int(tr.einsum("i,i,i->", tr.asarray(b), t, t).item()) == 4 * 12 * 12


def test_repeat_by_no_counts() -> None:
    """Fuzz program 1:455: of an axis without entries, by an empty list."""
    assert tr.repeat(tr.zeros((0, 2)), [], axis=0).shape == (0, 2)


def test_isclose_takes_what_numpy_takes() -> None:
    """Fuzz program medium 1:91: truth values; and differences of whole numbers do not wrap."""
    a, b = np.array([True, False]), np.array([True, True])
    assert tr.isclose(tr.asarray(a), tr.asarray(b)).to_numpy().tolist() == [True, False]
    x, y = np.array([127, -128], np.int8), np.array([-128, -128], np.int8)
    found = tr.isclose(tr.asarray(x), tr.asarray(y), atol=2).to_numpy()
    assert found.tolist() == np.isclose(x, y, atol=2).tolist()


def test_one_stored_tensor_in_two_formats() -> None:
    """Fuzz program 13:1015: each result has a definition of its own."""
    a = tr.asarray(np.arange(6.0).reshape(2, 3))
    first, second, third = tr.compute(a, a, a, formats=[None, "coo", "csc"])
    assert (first.format, second.format, third.format) == ("dense", "coo", "csc")
    assert all(np.array_equal(t.to_numpy(), a.to_numpy()) for t in (first, second, third))


def test_a_reduction_by_a_users_function_travels() -> None:
    """Fuzz program 13:1220: its operator is written as the formula that it is."""
    x = np.array([[0.5, 0.25], [0.0, 1.0]])
    lazy = tr.reduce(lambda a, b: a + b - a * b, tr.asarray(x), axis=1, identity=0.0)
    message = pickle.dumps(lazy)
    del lazy
    monoids.traced_operator.cache_clear()  # as in a process that has not seen it
    again = pickle.loads(message)
    assert again.to_numpy().tolist() == [0.625, 1.0]


def test_tolerances_beside_what_is_not_finite() -> None:
    """Fuzz program 13:336: nan in the branch that is not chosen says nothing of the other."""
    chosen, other = Leaf("A", np.array([0.1, 0.2])), Leaf("B", np.array([np.nan, 1.0]))
    step = Step("t1", "xp.where({2} > 0, {0}, {1})", ("A", "B", "C"),
                measure="xp.maximum({0}, {1}) + 0 * {2}", safe=True)
    program = Program((chosen, other, Leaf("C", np.ones(2))), (step,))
    assert 0 < float(np.max(run_numpy(program).tolerance)) < 1e-14


@pytest.mark.parametrize("format", ["coo", "csr", "dcsr"])
def test_a_sum_inside_a_product_that_nothing_annihilates(format: str) -> None:
    """Fuzz program 13:2583: a sum that is used up where it is made is there where its operands
    are; points that neither factor stores count all the same."""
    d = np.array([[0.0, 1.0], [2.0, 0.0]])
    for c in (np.zeros((2, 2)), np.array([[0.0, 0.0], [3.0, 0.0]])):
        total = tr.sum(tr.tensor(c, format=format).T, axis=0)
        found = tr.einsum("i,ji->j", total, tr.tensor(d, format="csr"), add="min", mul="add")
        assert found.to_numpy().tolist() == (c.T.sum(0) + d).min(1).tolist()
