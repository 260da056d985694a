"""Random programs: the front end, the reference and the engine against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tensorel as tr
from tensorel import reference
from tensorel.storage import convert, registry
from tensorel.testing import (
    Leaf,
    Program,
    Step,
    check,
    check_format,
    difference,
    fuzz,
    run_numpy,
    sample_program,
    shrink,
)
from tensorel.testing import programs as testing_programs
from tensorel.testing.generate import random_leaf
from tensorel.testing.strategies import leaves, programs


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_the_engine_agrees_with_numpy(first: int) -> None:
    report = fuzz(2024, range(first, first + 50), most=1)
    for number, wrong, program in report.failures:
        pytest.fail(f"program {number}: {wrong}\n\n{program.text}")
    assert report.skipped_share < 0.2


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_the_reference_agrees_with_numpy(first: int) -> None:
    for number in range(first, first + 200):
        program = sample_program(7, number)
        trace = run_numpy(program)
        found = reference.evaluate(testing_programs.build(program, trace).node, _dense)
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
    assert sum(not t.comparable for t in traces) < 30


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
    bad = testing_programs.Trace(wrong, True, trace.tolerance)
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
