"""The benchmarks of the optimizer at tiny scale: every contestant gives our answer."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytest.importorskip("scipy")
pytest.importorskip("sparse")
sys.path.insert(0, str(BENCHMARKS))

from optimizer import catalogue, contest  # noqa: E402
from suite.case import Case, all_cases  # noqa: E402

catalogue.load()

#: One of each family: the others differ in their data alone.
NAMES = (
    "mmm cop20k", "sum mmm webbase", "batax cant", "ttm facebook", "ttm enron, B by rows",
    "mttkrp nips, sparse", "mttkrp enron, C by columns", "mttkrp facebook, dense",
    "quotient cant", "likelihood webbase", "weighted loss cant", "squared loss webbase",
    "triangles power-law", "4-cliques power-law", "4-cycles power-law", "paths power-law",
    "bfs power-law", "pagerank webbase", "pagerank webbase, one page",
    "convolution 0.1%", "linear regression",
    "logistic regression", "covariance", "gram row sum 50k", "gram trace 500k", "gram cell 50k",
    "gram cell 500k, by columns", "least squares row 5k", "pnmf step 50k",
)
SCALE = 0.0005
#: PyData/Sparse compiles for half a minute; the benchmark itself compares with it.
SLOW_TO_START = ("sparse",)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Peers warn of their own features' state; that is not ours to fail on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _case(name: str) -> Case:
    return next(c for c in all_cases() if c.name == name)


@pytest.mark.parametrize("name", NAMES)
def test_all_contestants_agree(name: str) -> None:
    assert contest.answer(_case(name), SCALE, SLOW_TO_START) == []


def test_a_result_names_its_faults() -> None:
    row = contest.Result("x", "A", ours={1: 3.0, 2: 2.4}, peers={"scipy by hand": 2.0,
                                                                "c loop": 1.0, "scipy naive": 48})
    assert row.best_peer == ("scipy by hand", 2.0)
    assert row.loop_ratio == 3.0
    assert row.naive_gain == 20.0
    assert row.faults == ["1.20x the best peer", "3.00x the loop"]


def test_a_program_is_planned_and_timed() -> None:
    row = contest.measure(_case("paths power-law"), 0.001, contest.Timing((1,), 0.01))
    assert row.planning is not None and row.planning.first > 0 and row.planning.hit > 0
    assert set(row.ours) == {1} and "scipy by hand" in row.peers
