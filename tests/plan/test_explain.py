"""What plans say of themselves: readable, the same in every process, true."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from plan_support import operands, programs

import tensorel as tr
from tensorel.errors import TypeError_
from tensorel.plan import pipeline
from tensorel.plan.pipeline import PASSES

HERE = Path(__file__).parent
SNAPSHOTS = [(name, level) for name in (
    "spmv", "sparse product", "sum of a product", "sddmm", "mttkrp", "sum of two layouts",
    "shifted", "dense product") for level in ("logical", "physical")] + [("spmv", "code")]


@pytest.mark.parametrize(("name", "level"), SNAPSHOTS)
def test_snapshot(name: str, level: str, regen: bool) -> None:
    with tr.options(threads=2):
        text = str(programs()[name].explain(level)) + "\n"
    path = HERE / "snapshots" / f"{name.replace(' ', '_')}.{level}.txt"
    if regen:
        path.write_text(text)
    assert path.read_text() == text, f"pytest tests/plan --regen writes {path.name} anew"


def test_logical_text_is_one_line_per_definition() -> None:
    """``name = formula``, nothing else."""
    for name, program in programs().items():
        for line in str(program.explain("logical")).splitlines():
            assert not line.startswith("return"), (name, line)
            assert line.split(" -> ")[0].count(" = ") == 1, (name, line)


@pytest.mark.parametrize("level", ["logical", "physical", "code"])
def test_levels(level: str) -> None:
    a, b = operands()["A"], operands()["B"]
    text = str((a @ b).explain(level))
    assert "sum(" in text and "A[" in text and "B[" in text
    assert all(len(line) < 400 for line in text.splitlines())
    assert "0x" not in text and "object at" not in text and "<" not in text.replace("<<", "") \
        .replace("<=", "").replace(" < ", ""), "no addresses, no class names"
    assert text == str((a @ b).explain(level)) == repr((a @ b).explain(level))
    if level == "code":
        assert "for " in text and "+=" in text
    if level != "logical":
        assert "csr" in text and "peak memory" in text and "loops:" in text


def test_unknown_level() -> None:
    with pytest.raises(TypeError_, match="poetic"):
        operands()["A"].explain("poetic")


def test_to_dict() -> None:
    a, b = operands()["A"], operands()["B"]
    found = (a @ b).explain().to_dict()
    assert set(found) >= {"inputs", "steps", "rules", "passes", "predicted_bytes"}
    assert set(found["inputs"]) == {"A", "B"}
    (step,) = found["steps"]
    assert set(step) >= {"name", "kind", "text", "shape", "dtype", "format", "fill",
                         "estimated_nnz", "estimated_bytes", "bound_bytes", "cost"}
    assert step["shape"] == (100, 100) and step["dtype"] == "float64" and step["format"] == "csr"
    assert "actual_nnz" not in step
    assert 0 < step["estimated_nnz"] <= 10_000
    assert step["estimated_bytes"] <= step["bound_bytes"]
    assert found["predicted_bytes"] >= a.nbytes + b.nbytes + (a @ b).nbytes
    assert set(found["passes"]) <= {
        *(p.name for p in PASSES), "choose_loops"}
    assert all(seconds >= 0 for seconds in found["passes"].values())


def test_passes_are_timed_over_all_ways_to_write_the_program(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that goes on by one each time that it is read, each run of a pass takes 1."""
    rng = np.random.default_rng(0)
    a = tr.tensor(np.where(rng.random((300, 300)) < 0.01, 1.0, 0.0), format="csr")
    u = tr.tensor(rng.random((300, 2)))
    ticks = itertools.count()
    monkeypatch.setattr(pipeline, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    found = ((a - u @ u.T)**2).sum().explain(level="logical").to_dict()["passes"]
    assert found["expand"] >= 1 and found["simplify"] == 1
    assert found["order_contractions"] == found["choose_loops"] == 2


def test_the_runner_up_of_the_whole_plan() -> None:
    """What lost, by which decision, and both costs; never cheaper than what was chosen, but for
    forms of the program, which must win by a margin."""
    for name, program in programs().items():
        explained = program.explain()
        closest, cost = explained.runner_up, explained.plan.cost
        assert closest is not None and closest.cost == pytest.approx(cost), name
        assert closest.other >= cost and closest.instead != closest.chosen, name
        found = explained.to_dict()
        assert found["cost"] == cost and found["runner_up"]["why"] in str(explained)
    u, w = operands()["U"], operands()["W"]
    assert "loops instead of BLAS" in str((u.T @ w).explain())


def test_analyze_compares_estimates_with_actuals() -> None:
    blocks = np.kron(np.eye(30), np.ones((4, 4)))
    a = tr.tensor(blocks, format="csr")
    text = str((a @ a).explain(analyze=True))
    assert "times as many estimated" in text and "ms against about" in text


def test_analyze_has_actuals() -> None:
    for name, program in programs().items():
        explained = program.explain(analyze=True)
        steps = explained.to_dict()["steps"]
        assert steps
        for step in steps:
            assert step["actual_nnz"] >= 0 and step["actual_bytes"] >= 0 and step["seconds"] >= 0
            assert step["actual_bytes"] <= step["bound_bytes"] * 1.01 + 64, (name, step["text"])
        result = program.compute()
        assert steps[-1]["actual_bytes"] == result.nbytes, name
        text = str(explained)
        assert text.count("actual:") == len(steps)
        assert "planning:" in text


def test_estimates_are_of_the_right_size() -> None:
    """Within a factor of four on uniform data."""
    for name in ("sparse product", "sum of two layouts", "sddmm", "shifted"):
        step = programs()[name].explain(analyze=True).to_dict()["steps"][-1]
        assert step["estimated_nnz"] <= 4 * step["actual_nnz"], name
        assert step["actual_nnz"] <= 4 * step["estimated_nnz"], name


def test_rules_that_fired() -> None:
    a = operands()["A"]
    assert a.explain().rules == {}
    fired = (tr.negative(-(a * 1.0)) / 1.0).explain().rules
    assert fired["identity: f(a, e) -> a"] == 1
    assert fired["double negation: -(-a) -> a"] == 1
    assert fired["divide by one: a / 1 -> a"] == 1
    assert "rules:" in str((a * 1.0).explain())
    with tr.options(optimize=False):
        assert (a * 1.0).explain().rules == {}
    assert "identity: f(a, e) -> a" not in (a * 1.0).explain(disabled=["simplify"]).rules


def test_passes_can_be_switched_off() -> None:
    a, b = operands()["A"], operands()["B"]
    program = (a @ b).sum()
    for p in PASSES:
        named = program.explain(disabled=[p.name]).to_dict()["passes"]
        assert (p.name not in named) == p.optional
    assert len(program.explain(disabled=["order_contractions"]).to_dict()["steps"]) == 1


def test_explain_runs_nothing() -> None:
    """Planning a product of 80 TB is fine; nothing is computed or allocated."""
    rng = np.random.default_rng(0)
    n = 10**7
    big = tr.from_coo(rng.integers(0, n, (2, 1000)), np.ones(1000), (n, n), format="csr")
    explained = (big + tr.ones((n, n))).explain()
    assert explained.predicted_bytes > 10**12 or "fill 1" in str(explained)
    assert "out1" in str(explained)


class Tags(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br", "hr", "link"):
            self.open.append(tag)
        self.cells += tag == "td"

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag


def test_html() -> None:
    for name, program in programs().items():
        for analyze in (False, True):
            explained = program.explain(analyze=analyze)
            page = explained.html()
            tags = Tags()
            tags.feed(page)
            tags.close()
            assert tags.open == [], name
            assert tags.cells
            assert page.startswith("<!doctype html>")
            assert page == explained._repr_html_()
    assert "&lt;" in (operands()["A"] < 3).explain().html(), "text is escaped"


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from plan_support import programs
import tensorel as tr
with tr.options(threads=2):
    made = list(programs().items())
    for name, program in made if sys.argv[2] == "forward" else made[::-1]:
        for level in ("logical", "physical", "code"):
            print(f"@@{name}/{level}@@{program.explain(level)}", end="")
"""


def test_same_text_in_every_process() -> None:
    """No counters of the process, no order of a hash: other seeds, other order of the programs."""
    texts = []
    for seed, order in (("1", "forward"), ("2", "backward")):
        ran = subprocess.run(
            [sys.executable, "-c", CHILD, str(HERE), order], capture_output=True, text=True,
            env=os.environ | {"PYTHONHASHSEED": seed}, timeout=300)
        assert ran.returncode == 0, ran.stderr[-2000:]
        parts = ran.stdout.split("@@")[1:]
        texts.append(dict(zip(parts[::2], parts[1::2])))
    assert texts[0].keys() == texts[1].keys()
    for key, text in texts[0].items():
        assert text == texts[1][key], key


def test_several_outputs() -> None:
    a, b = operands()["A"], operands()["B"]
    explained = tr.explain((a @ b).sum(axis=0), (a @ b).sum(axis=1), a * 2)
    names = [s["name"] for s in explained.to_dict()["steps"]]
    assert len(names) == len(set(names)) >= 3
    once = ((a @ b) + 1).explain().to_dict()["steps"]
    twice = tr.explain((a @ b) + 1, (a @ b) + 1).to_dict()["steps"]
    assert len(twice) == len(once), "the same result twice is computed once"
