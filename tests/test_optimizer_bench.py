"""The benchmarks of the optimizer at tiny scale: every contestant gives our answer."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytest.importorskip("scipy")
pytest.importorskip("sparse")
sys.path.insert(0, str(BENCHMARKS))

from optimizer import catalogue, children, contest, verdicts  # noqa: E402
from optimizer.peers import WHOLE  # noqa: E402
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


def test_a_peer_that_ends_its_process_costs_one_row() -> None:
    def dies(scale: float) -> contest.Problem:
        os._exit(3)

    cases = [Case("dies", "-", dies), _case("paths power-law")]
    first, second = children.results(cases, 0.001, contest.Timing((1,), 0.01))
    assert first.name == "dies" and "3" in first.wrong
    assert second.name == "paths power-law" and second.ours and not second.wrong


def _row(name: str, ours: float, **peers: float) -> contest.Result:
    labels = {"best": "scipy by hand", "naive": "scipy naive", "loop": "c loop",
              "duck": "duckdb naive", "oriented": "duckdb oriented"}
    return contest.Result(name, "-", ours={1: ours}, peers={labels[k]: v for k, v in peers.items()})


def test_verdicts_count_and_name_what_misses() -> None:
    stopped = _row("4-cliques x", 2.0)
    stopped.over["duckdb naive"] = 5.0
    part, whole = _row("convolution 0.1%", 1.0), _row("convolution 100%", 100.0)
    part.share = 0.02, 0.004
    part.peers[WHOLE] = 100.0
    rows = [_row("mmm a", 1.0, best=2.0, loop=1.0), _row("batax a", 2.0, best=1.0, naive=30.0),
            _row("triangles x", 1.0, duck=6.0, oriented=2.0), stopped, part, whole]
    lines = {line.split(" | ")[0].strip("| "): line for line in
             verdicts.table(rows).splitlines()}
    assert "missed: 1 of 2 | batax a 2.00x" in lines["Table 3: never slower than the best peer"]
    assert "holds: 1 of 1" in lines["Sum of MMM and BATAX 10x faster than naive SciPy"]
    same = lines["Patterns of graphs 5x faster than DuckDB on the same tables"]
    assert "missed: 1 of 2 | 4-cliques x 2.5x" in same
    assert "triangles x 2.0x" in lines["The same beside DuckDB on edges oriented beforehand"]
    assert "holds" in lines["Convolution of 0.1% of the nodes costs in proportion"]
    assert "missed" in lines["The same by what is read"]
    assert "not measured" in lines["BFS and PageRank re-planned as density changes"]


def test_times_of_heavy_peers_are_estimated_from_smaller_data() -> None:
    def setup(scale: float) -> contest.Problem:
        work = 1e9 * scale
        skip = "" if scale < 0.1 else "too much"
        job = None if skip else (lambda: sum(range(int(work / 1e4))))
        return contest.Problem(lambda: 0, (contest.Heavy("scipy", "naive", job, skip, None, work),))

    found = contest.estimated(Case("x", "-", setup), 1.0, contest.Heavy(
        "scipy", "naive", None, "too much", None, 1e9))
    assert found is not None and found > 0
