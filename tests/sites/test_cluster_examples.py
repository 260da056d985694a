"""The examples of programs on a cluster run, and compare themselves with NumPy."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/cluster"
SMALL = {"ffnn": ["--sizes", "30", "120", "20", "7", "--steps", "3"],
         "convolution": ["--size", "8"],
         "pnmf": ["--sizes", "60", "50", "4", "--iterations", "3"]}


def test_every_example_is_run() -> None:
    assert sorted(SMALL) == sorted(p.stem for p in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("sites", [1, 3])
@pytest.mark.parametrize("name", SMALL)
def test_results_are_those_of_numpy(name: str, sites: int,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    main([*SMALL[name], "--sites", str(sites)])
    assert "NumPy" in capsys.readouterr().out
