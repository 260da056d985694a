"""The examples of relational pipelines run, and compare themselves with NumPy."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/relations"
ARGUMENTS = {"overlay": ["--zones", "3"], "regression": [],
             "factorization": ["--sizes", "120", "90", "--rank", "4", "--tolerance", "1e-3"]}


def test_every_example_is_run() -> None:
    assert sorted(ARGUMENTS) == sorted(p.stem for p in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_results_are_those_of_numpy(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](ARGUMENTS[name])
    said = capsys.readouterr().out
    assert "as NumPy has it: True" in said
    assert "False" not in said
