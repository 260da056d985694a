"""Costs: measured, kept for this machine, checked before use; shipped ones otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import tensorel as tr
from tensorel import config, costs
from tensorel.cli import main
from tensorel.costs import SHIPPED, Costs
from tensorel.engines.binding import bind
from tensorel.errors import TypeError_
from tensorel.front.tools import calibrate as module

pytestmark = pytest.mark.effort("full")  # no block with settings of its own


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = config.current().costs
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TENSOREL_COSTS", raising=False)
    yield tmp_path / "tensorel" / "costs"
    config.set_default(costs=before)


def values(c: Costs) -> dict[str, float]:
    return {f.name: getattr(c, f.name) for f in fields(Costs)}


def test_costs_are_kept(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = replace(SHIPPED, step=2.5, call=30000.0)
    path = costs.save(mine)
    assert path is not None and Path(path).parent == own_folder
    assert own_folder.stat().st_mode & 0o777 == 0o700
    assert values(costs.load()) == values(mine)
    code = "from tensorel import config; c = config.current().costs; print(c.step, c.call)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["2.5", "30000.0"], "a new process plans by them"
    monkeypatch.setenv("TENSOREL_COSTS", "shipped")
    assert costs.load() is SHIPPED


def test_other_machine_other_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    costs.save(replace(SHIPPED, step=1.5))
    monkeypatch.setattr(costs, "processor", lambda: "another")
    assert values(costs.load()) == values(SHIPPED)


@pytest.mark.parametrize("damage", ["empty", "cut", "flip", "text", "folder", "open"])
def test_damaged_costs_are_ignored(damage: str, own_folder: Path) -> None:
    path = Path(costs.save(replace(SHIPPED, step=1.5)) or "")
    good = path.read_bytes()
    if damage == "open":
        own_folder.chmod(0o777)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "cut": good[:-2], "text": b"step 1.5",
                          "flip": good[:-2] + bytes([good[-2] ^ 1]) + good[-1:]}[damage])
    assert values(costs.load()) == values(SHIPPED)


def test_costs_that_cannot_be_true_are_refused() -> None:
    found = costs.accepted({"step": 31.0, "enter": 0.05, "append": float("nan"),
                            "call": float("inf"), "bucket": 12.0, "unknown": 1.0})
    assert values(found) == values(replace(SHIPPED, bucket=12.0))


def test_calibrate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "EXPERIMENT_SECONDS", 0.0)
    monkeypatch.setattr(module, "ROUNDS", 1)
    found = tr.calibrate(save=False)
    assert found.path is None and config.current().costs is not found.costs
    missing = {"step", "enter", "merge_step", "workspace", "list_sort", "call", "bucket",
               "convert_sort", "blas_speed", "find", "gather", "lookup"} - found.measured.keys()
    assert not missing
    assert all(v > 0 for v in found.measured.values())
    assert main(["calibrate"]) == 0
    assert "merge_step" in capsys.readouterr().out
    assert values(costs.load()) == values(config.current().costs) != values(SHIPPED)


def test_costs_are_an_option() -> None:
    with tr.options(costs="shipped") as c:
        assert c.costs is SHIPPED
    with pytest.raises(TypeError_, match="costs"):
        tr.options(costs=3.0).__enter__()
    node = (tr.asarray(np.ones(3)) + 1).node
    mine = config.with_overrides(config.Config(), costs=replace(SHIPPED))
    assert bind([node], [None], mine).key != bind([node], [None], config.Config()).key
