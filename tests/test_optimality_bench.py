"""The benchmark of near-optimality counts what kernels do and never finds less than the best."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

COUNTED = """
import sys
sys.path[:0] = [{folder!r}]
import numpy as np, tensorel as tr
from dataclasses import replace
from optimality.counting import STEP, counting, measured
from tensorel.config import current
from tensorel.engines.binding import bind
from tensorel.engines.in_process.engine import planned
config = replace(current(), threads=1, disk_cache=False)
for n in (200, 400):
    a = tr.tensor(np.tri(n), format="csr")
    with counting():
        bound = bind([(a @ np.ones(n)).node], [None], config)
        (step,) = planned(bound, [None], config).plan.steps
        cost, _ = measured(step, dict(bound.stored), config)
        print((cost - STEP) / a.nnz)
"""


def run(cache: Path, *command: str) -> str:
    """The output; counting code must not reach the cache of kernels."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True,
                          env=os.environ | {"XDG_CACHE_HOME": str(cache)})
    kept = list(cache.glob("tensorel/kernels/*"))
    assert not kept, f"{len(kept)} entries"
    return done.stdout


def test_instructions_are_counted(tmp_path: Path) -> None:
    """In proportion to the entries: some per entry."""
    few, more = map(float, run(tmp_path, "-c", COUNTED.format(folder=str(BENCHMARKS))).split())
    assert 1.0 < more < 40.0 and 0.5 < more / few < 1.5


def test_a_short_run(tmp_path: Path) -> None:
    out, data = tmp_path / "report.md", tmp_path / "data.json"
    run(tmp_path / "cache", str(BENCHMARKS / "optimality" / "run.py"), "--count", "2", "--first",
        "4", "--out", str(out), "--json", str(data))
    assert "| 1.20 |" in out.read_text() and "chosen:" in out.read_text()
    for d in json.loads(data.read_text()):
        assert d["ratio"] >= 1.0 and d["best"]["cost"] <= d["chosen"]["cost"]
        assert d["executed"] > 1 and d["programs"] >= 1
