"""Programs on four nodes of Ray: results and bytes are those on threads, the examples run, and what
goes wrong at a site is told in the words of the program."""

from __future__ import annotations

import gc
import pickle
import runpy
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensorel as tr

pytest.importorskip("ray", reason="Ray is not installed (pip install 'tensorel[ray]')")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # nodes get these paths
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comprehension"))

from comprehension_corpus import cases, check

from cluster.programs import PROGRAMS, Program
from cluster.table import counted_on
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.errors import StorageError
from tensorel.testing import difference, run_numpy, sample_program

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")]


@pytest.fixture
def without_limit(ray_cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans take what they think they need, which for products of sparse matrices is too much."""
    monkeypatch.setattr(ray_cluster, "memory", None)


@pytest.fixture
def engine(ray_cluster) -> Iterator[SitesEngine]:
    """On the nodes that all tests share; not closed."""
    gc.collect()
    before = sum(ray_cluster.held())
    engine = SitesEngine(ray_cluster)
    engine.reset()
    yield engine
    ray_cluster.submit([])  # an error of the last run is forgotten, and all that it refers to
    gc.collect()
    assert sum(ray_cluster.held()) == before  # nothing stays that no tensor refers to


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_bytes_are_those_foretold_and_results_those_on_threads(
        program: Program, engine: SitesEngine, without_limit: None) -> None:
    foretold, moved, found = counted_on(engine, program)
    assert abs(moved - foretold) <= 0.05 * foretold
    with tr.engines.local(sites=4) as threads:
        _, _, expected = counted_on(threads, program)
    for one, other in zip(found, expected):
        if one.nnz < 10**6:
            np.testing.assert_allclose(np.asarray(one.to_coo()[1]), np.asarray(other.to_coo()[1]),
                                       rtol=1e-9)
        assert one.nnz == other.nnz


def test_random_programs(engine: SitesEngine) -> None:
    done = 0
    for number in range(24):
        program = sample_program(78, number)
        trace = run_numpy(program)
        if not trace.comparable:
            continue
        named = {leaf.name: leaf.build() for leaf in program.leaves}
        with warnings.catch_warnings(), tr.options(effort="quick"):
            warnings.simplefilter("ignore")
            for step in program.steps:
                named[step.name] = eval(step.code, {"xp": tr, "np": np, "pickle": pickle} | named)
            found = named[program.root].compute(engine=engine).to_numpy()
        assert difference(found, trace.values[program.root],
                          trace.tolerances.get(program.root)) is None, program.text
        done += 1
    assert done >= 12


@pytest.mark.parametrize("name, arguments", [
    ("ffnn", ["--sizes", "30", "120", "20", "7", "--steps", "2"]),
    ("convolution", ["--size", "6"]),
    ("pnmf", ["--sizes", "60", "50", "4", "--iterations", "2"])])
def test_examples(name: str, arguments: list[str], ray_cluster,
                  capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(ROOT / f"examples/cluster/{name}.py"))["main"]
    main([*arguments, "--ray", "auto"])  # by the connection that is open
    assert "NumPy" in capsys.readouterr().out


def test_what_a_loop_reads_is_moved_once(engine: SitesEngine) -> None:
    matrix, x = np.random.default_rng(0).random((60, 60)) / 60, np.ones(60)
    M, y = tr.asarray(matrix).persist(engine=engine), tr.asarray(x).persist(engine=engine)
    moved = []
    for _ in range(3):
        engine.reset()
        y, x = (M @ y).persist(engine=engine), matrix @ x
        moved.append(engine.stats()["bytes_moved"])
    np.testing.assert_allclose(y.to_numpy(), x)
    assert max(moved[1:]) <= 4 * x.nbytes and sum(moved) < 1.5 * matrix.nbytes


def test_several_results_share_their_work(engine: SitesEngine) -> None:
    calls = tr.from_blocks(lambda key: np.full((5, 5), float(key[0])), (20, 20), 5, engine=engine)
    product = calls @ calls
    one, other = tr.persist(product, product + 1, engine=engine)
    np.testing.assert_array_equal(one.to_numpy() + 1, other.to_numpy())


def test_a_block_that_cannot_be_made_is_named(engine: SitesEngine) -> None:
    def block(key):
        return np.ones((5, 5)) / (0 if key == (1, 0) else 1) if key != (1, 1) else {}["absent"]

    with pytest.raises(KeyError, match="absent") as caught:
        tr.from_blocks(block, (10, 10), 5, engine=engine).sum().compute()
    assert any("block (1, 1) of S0" in note for note in caught.value.__notes__)


def test_a_function_that_sites_do_not_have_is_named(engine: SitesEngine) -> None:
    module = types.ModuleType("only_here")
    exec("def block(key):\n    return 1.0", module.__dict__)
    module.block.__module__ = "only_here"
    sys.modules["only_here"] = module
    try:
        with pytest.raises(tr.errors.EngineError, match="only_here") as caught:
            tr.from_blocks(module.block, (4,), 2, engine=engine).sum().compute()
        assert "every node" in str(caught.value)
    finally:
        del sys.modules["only_here"]


def test_what_many_tasks_share_is_sent_once(engine: SitesEngine) -> None:
    table = np.arange(50_000.0)
    read = tr.from_blocks(lambda key: table[key[0] * 10:][:10], (400,), 10, engine=engine)
    assert read.sum().compute().item() == table[:400].sum()


def test_more_data_than_a_node_may_hold(engine: SitesEngine) -> None:
    """Three times the memory of a node; a product of it and a column, and sums of its columns."""
    limit = engine.cluster.memory
    rows, columns = 12_000, 2_500
    assert rows * columns * 8 > 2.8 * limit
    data = tr.from_blocks(lambda key: np.full((500, columns), float(key[0])), (rows, columns),
                          (500, columns), engine=engine)
    total = data.sum(axis=0).compute()
    np.testing.assert_array_equal(total.to_numpy(), 500.0 * sum(range(24)))
    assert max(engine.stats()["bytes_held"]) <= limit


def test_a_share_that_does_not_fit_is_refused_before_anything_runs(engine: SitesEngine) -> None:
    wide = tr.from_blocks(lambda key: np.ones((2000, 2000)), (8000, 8000), 2000, engine=engine)
    with pytest.raises(tr.errors.MemoryLimitError) as caught:
        (wide @ wide).compute()
    assert caught.value.needed > caught.value.limit
    assert not engine.stats()["tasks"]


# -- files -----------------------------------------------------------------------------------------
KINDS: dict[str, dict[str, str]] = {"a.zarr": {}, "a.parts": {}, "a.mtx/": {}, "db": {"name": "a"}}


@pytest.fixture
def matrix(tmp_path: Path) -> np.ndarray:
    a = np.random.default_rng(0).random((96, 60)).round(3)
    tr.asarray(a).write(tmp_path / "a.zarr", tile=(12, 20))
    tr.asarray(a).write(tmp_path / "a.parts", tile=(10, 25))
    tr.asarray(a).write(f"{tmp_path}/a.mtx/", tile=(40, 60), part="mtx")
    with tr.connect(tmp_path / "db") as db:
        db["a"] = tr.asarray(a)
    return a


@pytest.mark.parametrize("kind", KINDS)
def test_files_go_through_the_nodes_alone(kind: str, matrix: np.ndarray, engine: SitesEngine,
                                          tmp_path: Path) -> None:
    A = tr.read(f"{tmp_path}/{kind}", engine=engine, **KINDS[kind])
    assert A.shape == matrix.shape and engine.stats()["tasks"] == 0
    wanted = matrix @ matrix.T + 1
    for out in ("out.zarr", "out.parts"):
        (A @ A.T + 1).write(tmp_path / out)
        np.testing.assert_allclose(tr.read(tmp_path / out).to_numpy(), wanted)
    with tr.connect(tmp_path / "db") as db:
        db["out"] = A @ A.T + 1
        np.testing.assert_allclose(db["out"].to_numpy(), wanted)
        db.verify()
    assert engine.stats()["bytes_driver"] == 0
    back = tr.read(tmp_path / "db", name="out", engine=engine)
    np.testing.assert_allclose(back.sum(axis=0).compute().to_numpy(), wanted.sum(axis=0))
    assert engine.stats()["largest_driver"] <= wanted.nbytes / 4


def test_errors_of_files_are_those_of_the_nodes(matrix: np.ndarray, engine: SitesEngine,
                                                tmp_path: Path) -> None:
    A = tr.read(tmp_path / "a.parts", engine=engine)
    (tmp_path / "a.parts").rename(tmp_path / "not shared")
    with pytest.raises(StorageError, match="npy cannot be opened: No such file") as caught:
        A.sum().compute()
    assert "all sites of an engine" in str(caught.value)
    assert any("of S0, at site" in note for note in caught.value.__notes__)
    with tr.connect(tmp_path / "db") as db:
        with pytest.raises(StorageError, match="part-"):
            db["b"] = A + 1
        assert list(db) == ["a"]
    B = tr.read(tmp_path / "db", name="a", engine=engine)
    (tmp_path / "db").rename(tmp_path / "not shared either")
    with pytest.raises(StorageError, match="db cannot be opened"):
        B.sum().compute()


# -- languages -------------------------------------------------------------------------------------
def test_comprehensions(engine: SitesEngine) -> None:
    for k, case in enumerate(cases()[::25]):
        check(case, *(("blocks",) if k % 2 else ("sparse", "dense")), engine=engine)


@tr.loops
def smoothed(A, steps):
    B = A.copy()
    for _ in range(steps):
        C = B.copy()
        for i in range(1, len(B) - 1):
            C[i] = (B[i - 1] + B[i] + B[i + 1]) / 3
        B = C
    return B


def test_loops_windows_relations_and_sql(engine: SitesEngine) -> None:
    rng = np.random.default_rng(3)
    a, v = rng.random((24, 18)), rng.random(40)
    A = tr.from_blocks(lambda key: a[6 * key[0]:6 * key[0] + 6], a.shape, (6, 18), engine=engine)
    with tr.options(engine=engine):
        wanted = v.copy()
        for _ in range(2):
            wanted[1:-1] = (wanted[:-2] + wanted[1:-1] + wanted[2:]) / 3
        np.testing.assert_allclose(smoothed(v, 2).to_numpy(), wanted)
        found = tr.convolve(A, np.ones((3, 3)), mode="valid").to_numpy()
        np.testing.assert_allclose(
            found, np.lib.stride_tricks.sliding_window_view(a, (3, 3)).sum(axis=(2, 3)))
        np.testing.assert_allclose(A.aggregate("sum", "row").to_numpy(), a.sum(axis=1))
        np.testing.assert_allclose(A.select("rid < 5 and val > 0.5").to_numpy(),
                                   np.where((np.arange(24)[:, None] < 5) & (a > 0.5), a, 0))
        rows = tr.sql("SELECT i0, SUM(val) AS s FROM A WHERE i0 < 3 GROUP BY i0 ORDER BY i0",
                      A=A).rows()
        np.testing.assert_allclose([s for _, s in rows], a[:3].sum(axis=1))
        np.testing.assert_allclose(tr.cumulative_sum(A, axis=0).to_numpy(), np.cumsum(a, axis=0))
        assert tr.argmax(A).item() == a.argmax()
