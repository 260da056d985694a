"""Long programs in windows: every part is planned whole, and what passes between them is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.engines import programs
from tensorel.engines.in_process import engine
from tensorel.ir.analysis import fill
from tensorel.ir.nodes import Lambda, Source, Tensor, postorder
from tensorel.ir.replacing import replaced
from tensorel.plan.logical import windows
from tensorel.testing import fuzz

SMALL = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.25]])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of two steps, so that ordinary programs have several."""
    for module in (windows, engine):
        monkeypatch.setattr(module, "MAX_WHOLE_STEPS", 2)
    monkeypatch.setattr(windows, "WINDOW_STEPS", 2)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("formed", [0, programs.MAX_FUNCTIONS])
def test_random_programs_in_windows(formed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and fills are those of NumPy and of the formulas, wherever a program is cut; window
    by window, and in one plan (as formulas that are remembered have)."""
    monkeypatch.setattr(programs, "MAX_FUNCTIONS", formed)
    report = fuzz(77, range(60), most=1)
    for number, wrong, program in report.failures:
        pytest.fail(f"program {number}: {wrong}\n\n{program.text}")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("formed", [0, programs.MAX_FUNCTIONS])
def test_what_is_absent_by_its_formula_stays_so(
        formed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of a sparse matrix are stored in dense vectors, and have no value where nothing is
    summed: 0 / 0 of two of them is NumPy's."""
    monkeypatch.setattr(programs, "MAX_FUNCTIONS", formed)
    a: Any = tr.tensor(SMALL, format="csr")
    t = tr.sin(tr.sin(a.sum(axis=0))) / tr.sin(tr.sin((a * 2).sum(axis=1)))
    assert np.isnan(t.fill)
    assert np.isnan(t.compute().fill)


def chain(length: int) -> Any:
    t: Any = tr.tensor(SMALL, format="csr")
    for k in range(length):
        t = t @ SMALL + 0.5 * t if k % 3 else t * 0.9
    return t


def test_every_window_is_short_and_reads_what_was_made() -> None:
    a, b = chain(150), chain(151)
    roots = [a.node, (b + a).node]
    parts = windows.windows(roots)
    held: set[Tensor] = set()
    for w in parts:
        assert set(w.read) <= held
        sources = {t: Source(k, t.shape, t.dtype, fill(t)) for k, t in enumerate(w.read)}
        inside = postorder(*replaced(w.made, sources))
        assert sum(isinstance(t, Lambda) for t in inside) <= windows.WINDOW_STEPS
        held = (held | set(w.made)) - set(w.done)
    assert not held
    assert set(roots) <= {t for w in parts for t in w.made}


def test_short_programs_have_no_windows() -> None:
    assert windows.windows([chain(20).node]) == []


def test_slices_of_slices_are_less_than_steps() -> None:
    t: Any = tr.asarray(np.arange(2000.0))
    for _ in range(900):
        t = t[1:]
    assert windows.windows([t.node]) == []


def test_cuts_are_where_little_passes() -> None:
    """Vectors are stored between windows, not the matrices that they are summed from."""
    a, x = tr.asarray(np.ones((40, 40))), tr.asarray(np.ones(40))
    for _ in range(60):
        x = (a * x[:, None] * 0.5 + 1).sum(axis=0) * 0.01
    parts = windows.windows([x.node])
    assert len(parts) > 2
    assert {t.shape for w in parts for t in w.made} <= {(40,), (40, 1)}


def test_what_is_held_beside_a_window_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory limit sees results of windows that wait for later ones."""
    beside = []

    class Noted(engine.Run):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            beside.append(self.held - sum(s.nbytes for s in self.inputs.values()))

    monkeypatch.setattr(engine, "Run", Noted)
    x = tr.asarray(np.ones(1000))
    first: Any = tr.cumulative_sum(x)
    t: Any = first.sum()
    for _ in range(200):
        t = tr.sin(t) + 1
    (first * t).to_numpy()
    assert max(beside) == 8000


def test_results_that_others_read_and_in_several_formats() -> None:
    t = chain(200)
    u = t @ SMALL
    dense, sparse, other = (x.to_numpy() for x in (
        tr.compute(t, u)[0], t.to_format("coo"), tr.compute(u, t)[0]))
    np.testing.assert_allclose(dense, sparse)
    np.testing.assert_allclose(other, dense @ SMALL)


def test_explain_puts_windows_together() -> None:
    t = chain(150)
    explained = t.explain(analyze=True)
    assert explained.plan.windows > 1
    assert "peak memory" in str(explained)
    steps = explained.to_dict()["steps"]
    assert len({s["name"] for s in steps}) == len(steps)
    assert len(explained.actual) == len(steps)
