"""Results that were asked for are kept with the tensors that name them; programs read them."""

from __future__ import annotations

import contextlib
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.engines import programs
from tensorel.engines.in_process import engine
from tensorel.testing import difference, run_numpy, sample_program


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each execution of a plan has."""
    found: list[int] = []
    run = engine.execute

    def noted(what: Any, *more: Any, **options: Any) -> Any:
        found.append(len(what.plan.steps))
        return run(what, *more, **options)

    for module in ("tensorel.engines.evaluation.execute",
                   "tensorel.engines.in_process.engine.execute"):
        monkeypatch.setattr(module, noted)
    return found


def links(n: int = 400) -> tr.Tensor:
    rng = np.random.default_rng(0)
    dense = (rng.random((n, n)) < 0.02) * rng.random((n, n))
    return tr.tensor(dense, format="csr")


def test_iterations_that_test_their_result_cost_the_same(steps: list[int]) -> None:
    a = links()
    p, counts = tr.asarray(np.full(400, 1 / 400), copy=True), []
    expected, dense = np.full(400, 1 / 400), a.to_numpy()
    for _ in range(30):
        new = 0.85 * (a @ p) + 0.15 / 400
        steps.clear()
        change = float(abs(new - p).sum())
        counts.append(sum(steps))
        later = 0.85 * (dense @ expected) + 0.15 / 400
        assert change == pytest.approx(np.abs(later - expected).sum(), rel=1e-9, abs=1e-15)
        p, expected = new, later
    assert max(counts[4:]) <= 3
    np.testing.assert_allclose(p.to_numpy(), expected, rtol=1e-12)


def test_what_it_was_computed_from_is_forgotten() -> None:
    a, p = links(), tr.asarray(np.ones(400), copy=True)
    first = weakref.ref((a @ p).program)
    history = []
    for _ in range(12):
        p = (a @ p).compute() if len(history) == 5 else a @ p
        p.nnz  # noqa: B018 (asks)
        history.append(weakref.ref(p.program))
    gc.collect()
    assert first() is None
    assert sum(h() is not None for h in history) <= 3


def test_who_asks_again_gets_what_was_computed(steps: list[int]) -> None:
    y = links() @ tr.asarray(np.ones(400), copy=True)
    one = y.compute()
    steps.clear()
    two = y.compute()
    assert not steps and two.stored is one.stored
    assert not y.is_lazy
    y.forget()
    assert y.is_lazy
    np.testing.assert_array_equal(y.compute().to_numpy(), one.to_numpy())
    assert steps
    steps.clear()
    y.compute(strict=True)
    assert steps, "other settings, another result"


def test_results_of_arrays_that_may_change_are_computed_again() -> None:
    given = np.ones(50)
    x = tr.asarray(given)
    y, before = x * 2.0 + 1.0, 0.0
    z = (y * y).sum()
    for value in (1.0, 3.0, -2.0):
        given[:] = value
        assert float(z) == pytest.approx(50 * (2 * value + 1) ** 2)
        assert y.compute().to_numpy()[0] == 2 * value + 1 != before
        before = 2 * value + 1


def test_asking_changes_no_answer() -> None:
    """What was asked of a lazy tensor is no answer once its data may be other ones."""
    given = np.ones((4, 4))
    x = tr.asarray(given)
    y = x @ x
    for value in (1.0, 0.0, 2.0):
        given[:] = value
        assert y.nnz == (16 if value else 0)
        given[:] = value + 1
        for found in (y.to_numpy(), np.asarray(y), y.compute().to_numpy(), (y + 0).to_numpy()):
            np.testing.assert_array_equal(found, np.full((4, 4), 4 * (value + 1) ** 2))
        assert y.sum().item() == y.to_coo()[1].sum() == y.to_scipy().sum()


@pytest.mark.filterwarnings("ignore::tensorel.errors.NonFiniteWarning")
def test_results_are_those_of_the_settings_that_they_are_asked_under() -> None:
    x = tr.asarray(np.array([np.nan, 1, 2]), copy=True)
    y = tr.tensor(np.eye(3), format="csr") @ x
    for strict, numbers in [(False, 2), (True, 0), (False, 2)]:
        with tr.options(strict=strict):
            y.compute()
        with tr.options(strict=not strict):
            other = 2 - numbers
            for found in (y.to_numpy(), np.asarray(y), y.to_coo()[1], y.to_numpy(copy=True),
                          y.to_format("coo").to_numpy(), np.array([float(v) for v in y])):
                assert np.isfinite(found).sum() == other


def test_results_that_are_kept_count_and_are_dropped_first() -> None:
    a = tr.asarray(np.ones((500, 500)), copy=True)
    kept = [a * float(k) for k in range(3, 9)]
    for t in kept:
        t.compute()
    held = programs.KEPT.bytes_
    assert held >= 6 * a.nbytes
    with tr.options(memory=4 * a.nbytes):
        assert float((a + 0.25).sum()) == 1.25 * 250_000
    assert programs.KEPT.bytes_ <= held - 4 * a.nbytes
    assert [float(t.sum()) for t in kept] == [k * 250_000.0 for k in range(3, 9)]
    del kept, t
    gc.collect()
    assert programs.KEPT.bytes_ <= held - 6 * a.nbytes


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_programs_whose_steps_are_named(first: int) -> None:
    """Every step has a name and is asked for, in any order: each is right, kept or not."""
    for number in range(first, first + 40):
        rng = np.random.default_rng([8, number])
        program = sample_program(31, number, operators=6)
        trace = run_numpy(program)
        if not trace.comparable:
            continue
        named: dict[str, Any] = {leaf.name: leaf.build() for leaf in program.leaves}
        for step in program.steps:
            named[step.name] = eval(step.code, {"xp": tr, "np": np, "pickle": pickle} | named)
        with tr.options(effort="quick"):
            for name in [program.root, *rng.permutation(list(named)).tolist()]:
                t = named[name]
                if rng.random() < 0.2:
                    continue
                found = (t.compute() if rng.random() < 0.5 else t).to_numpy()
                wrong = difference(found, trace.values[name], trace.tolerances.get(name))
                assert wrong is None, (number, name, wrong, program.text)


@pytest.mark.parametrize("format", ["dense", "csr", "coo", "dok"])
@pytest.mark.parametrize("options", [{"optimize": False}, {"effort": "quick"}, {"strict": True},
                                     {"memory": 10**9}, {"threads": 1}])
def test_parts_that_are_computed_under_other_settings(format: str, options: Any) -> None:
    """What reads them later assumes what it assumed when it was written, or looks again."""
    def tensor(array: np.ndarray) -> tr.Tensor:
        return tr.asarray(array, copy=True).to_format(format)

    x = np.eye(6) * 3 + np.eye(6)[::-1]
    for program in (lambda r, X: r[4], lambda r, X: r * X, lambda r, X: r @ X):
        X = tensor(x)
        u = X * 10.0
        u.compute()
        r = u[0]
        s = program(r, X)
        r.compute(**options)
        assert np.array_equal(s.to_numpy(), program((x * 10)[0], x))
    w, y = x * 3, x + x
    W, Y = tensor(w) * 1.5, tensor(y)
    W.compute()
    assert np.array_equal((W[0] * Y).to_numpy(), (w * 1.5)[0] * y)


@pytest.mark.parametrize("how", ["refresh", "forget"])
def test_parts_that_are_forgotten(how: str) -> None:
    x = np.eye(6) * 3 + np.eye(6)[::-1]
    X = tr.tensor(x, format="csr")
    u = X * 10.0
    u.compute()
    r = u[0]
    getattr(u, how)()
    assert r[4].item() == (x * 10)[0][4]
    assert np.array_equal((r * X).to_numpy(), (x * 10)[0] * x)


def test_parts_that_are_computed_again() -> None:
    """What was written over the first result reads the second."""
    x = np.arange(16.0).reshape(4, 4) % 5
    u = tr.asarray(x, copy=True) * 0.25
    u.compute()
    w = u * 7
    u.refresh()
    u.compute()
    assert np.array_equal(w.to_numpy(), x * 0.25 * 7)
    z = u * 7.5 + 1.5
    z.compute()
    q = 3.5 - z
    z.refresh()
    z.compute()
    assert np.array_equal(q.to_numpy(), 3.5 - (x * 0.25 * 7.5 + 1.5))
    big = np.arange(200_000.0)
    t = tr.asarray(big, copy=True) * 10.0
    t.compute()
    last = t * 3.25
    with contextlib.suppress(tr.errors.MemoryLimitError):  # room is made: t is dropped
        (tr.asarray(np.ones(200_000), copy=True) * 3.5).compute(memory=3_300_000)
    t.compute()
    assert np.array_equal(last.to_numpy(), big * 10.0 * 3.25)


def test_random_orders_of_asking_and_forgetting() -> None:
    for seed in range(60):
        rng = np.random.default_rng([9, seed])
        x = rng.integers(0, 5, (4, 4)).astype(float)
        base = tr.tensor(x, format=str(rng.choice(["csr", "dok"]))) if seed % 2 \
            else tr.asarray(x, copy=True)
        made, known = [base], [x]
        for step in range(14):
            k = int(rng.integers(len(made)))
            match int(rng.integers(6)):
                case 0:
                    other = int(rng.integers(len(made)))
                    made.append(made[k] * made[other])
                    known.append(known[k] * known[other])
                case 1:
                    made.append(made[k] * (step + 0.5))
                    known.append(known[k] * (step + 0.5))
                case 2 if k:
                    made[k].forget()
                case 3 if k:
                    made[k].refresh()
                case 4:
                    made[k].compute(**({} if rng.random() < 0.6 else {"effort": "quick"}))
                case _:
                    assert np.array_equal(made[k].to_numpy(), known[k]), (seed, step)
