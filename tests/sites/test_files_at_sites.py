"""Data in many files, read and written by the sites: nothing larger than a block passes the driver,
and each block is read where it is needed and written where it was made."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_sites import SPREAD

import tensorel as tr
from tensorel.catalog.parts import PartWriter
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster
from tensorel.errors import DatabaseError, FileError, StorageError, TypeError_
from tensorel.io.blocked.opening import writing_blocks
from tensorel.io.blocked.source import About
from tensorel.storage import convert

zarr = pytest.importorskip("zarr")


@pytest.fixture
def engine() -> Iterator[SitesEngine]:
    with SitesEngine(ThreadCluster(4), rates=SPREAD) as found:
        yield found


@pytest.fixture
def matrix(tmp_path: Path) -> np.ndarray:
    a = np.random.default_rng(0).random((96, 60))
    tr.asarray(a).write(tmp_path / "a.zarr", tile=(12, 20))
    tr.asarray(a).write(tmp_path / "a.parts", tile=(10, 25))
    with tr.connect(tmp_path / "db") as db:
        db["a"] = tr.asarray(a)
    return a


KINDS: dict[str, dict[str, Any]] = {"a.zarr": {}, "a.parts": {}, "db": {"name": "a"}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("out", ["out.zarr", "out.parts"])
def test_nothing_larger_than_a_block_passes_the_driver(
        kind: str, out: str, matrix: np.ndarray, engine: SitesEngine, tmp_path: Path) -> None:
    A = tr.read(tmp_path / kind, engine=engine, **KINDS[kind])
    assert A.shape == matrix.shape and engine.stats()["tasks"] == 0
    (A @ A.T + 1).write(tmp_path / out, engine=engine)
    assert engine.stats()["largest_driver"] == 0 and engine.stats()["bytes_driver"] == 0
    assert sum(x > 0 for x in engine.stats()["work"]) == 4
    engine.reset()
    back = tr.read(tmp_path / out, engine=engine)
    np.testing.assert_allclose(back.compute().to_numpy(), matrix @ matrix.T + 1)
    assert 0 < engine.stats()["largest_driver"] <= back.size * 8 / 4
    np.testing.assert_allclose(tr.read(tmp_path / out).to_numpy(), matrix @ matrix.T + 1)


def test_chunks_are_blocks(matrix: np.ndarray, engine: SitesEngine, tmp_path: Path) -> None:
    plan = str((tr.read(tmp_path / "a.zarr", engine=engine) + 1).explain(engine=engine))
    assert "S0: 8 x 3 blocks at 4 sites" in plan and "moves 0 bytes" in plan
    (tr.read(tmp_path / "a.zarr", engine=engine) * 2).write(tmp_path / "b.zarr")
    assert engine.stats()["bytes_moved"] == 0
    chunks = zarr.open_array(str(tmp_path / "b.zarr")).chunks
    assert np.prod([-(-n // c) for n, c in zip(matrix.shape, chunks)]) >= 4


def test_each_site_reads_what_it_needs_once(matrix: np.ndarray, engine: SitesEngine,
                                            tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                            ) -> None:
    from tensorel.io.blocked import parts
    read: list[tuple[str, str]] = []
    before = parts.files.read

    def noted(path: str) -> Any:
        read.append((path, threading.current_thread().name))
        return before(path)

    monkeypatch.setattr(parts.files, "read", noted)
    A = tr.read(tmp_path / "a.parts", engine=engine)
    (A.sum(axis=1) + (A * A).sum(axis=1)).compute()
    assert len(read) == len({path for path, _ in read}) == 30
    assert len({thread for _, thread in read}) > 1


def test_sparse_parts_stay_sparse(engine: SitesEngine, tmp_path: Path) -> None:
    a = np.zeros((80, 80))
    a[:20, :20] = np.random.default_rng(1).random((20, 20)) < 0.2
    S = tr.tensor(a, format="csr")
    S.write(tmp_path / "s.parts", tile=20)
    assert len(list((tmp_path / "s.parts").iterdir())) == 2  # what is all fill has no part
    A = tr.read(tmp_path / "s.parts", engine=engine).persist()
    assert sum(engine.stats()["bytes_held"]) < 4 * S.nbytes
    (A * 3).write(tmp_path / "t.parts")
    found = tr.read(tmp_path / "t.parts")
    assert found.format != "dense" and found.nnz == S.nnz
    np.testing.assert_array_equal(found.to_numpy(), 3 * a)


@pytest.mark.parametrize("tile", [None, 7, (30, 11)])
@pytest.mark.parametrize("ending", [".zarr", ".parts"])
def test_blocks_are_cut_anew_where_it_is_asked_for(
        tile: Any, ending: str, matrix: np.ndarray, engine: SitesEngine, tmp_path: Path) -> None:
    A = tr.read(tmp_path / "a.zarr", engine=engine)
    (A.T * 2).write(tmp_path / f"out{ending}", tile=tile)
    np.testing.assert_array_equal(tr.read(tmp_path / f"out{ending}").to_numpy(), matrix.T * 2)
    assert engine.stats()["bytes_driver"] == 0


def test_errors_at_the_sites(matrix: np.ndarray, engine: SitesEngine, tmp_path: Path) -> None:
    A = tr.read(tmp_path / "a.parts", engine=engine)
    (tmp_path / "a.parts/part-1-1.npy").unlink()
    with pytest.raises(StorageError, match="part-1-1") as caught:
        (A + 1).write(tmp_path / "out.zarr")
    assert any("block (1, 1)" in note for note in caught.value.__notes__)
    assert not (tmp_path / "out.zarr").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    Z = tr.read(tmp_path / "a.zarr", engine=engine)
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(3, 3), dtype="f8", overwrite=True)
    with pytest.raises(StorageError, match="was changed"):
        Z.sum().compute()
    with pytest.raises(FileError, match="overwrite"):
        tr.asarray(matrix).write(tmp_path / "a.zarr", engine=engine)
    with pytest.raises(TypeError_, match="format="):
        tr.read(tmp_path / "a.zarr", "csr", engine=engine)


def test_single_files_and_settings(matrix: np.ndarray, engine: SitesEngine, tmp_path: Path) -> None:
    with tr.options(engine=engine):
        A = tr.read(tmp_path / "a.zarr")
        (A + 1).write(tmp_path / "a.npy")
        assert engine.stats()["tasks"] > 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), matrix + 1)
    assert tr.read(tmp_path / "a.npy", engine=engine).shape == matrix.shape


# -- databases ------------------------------------------------------------------------------------
def test_sites_write_into_a_database(matrix: np.ndarray, engine: SitesEngine, tmp_path: Path
                                     ) -> None:
    A = tr.read(tmp_path / "a.zarr", engine=engine)
    with tr.connect(tmp_path / "db") as db:
        db["product"] = A @ A.T + 1
        db["total"] = A.sum()
        assert engine.stats()["bytes_driver"] == 0
        names = set(os.listdir(tmp_path / "db/data"))
        with db.transaction():
            db["again"] = (A @ A.T + 1).persist()
            db["product"] = A * 2
            np.testing.assert_array_equal(db["product"].to_numpy(), matrix * 2)
        assert names & set(os.listdir(tmp_path / "db/data"))
        assert "product  (96, 60)  float64  dense  46.1 kB" in repr(db)
        db.verify()
    with tr.connect(tmp_path / "db", read_only=True) as db:
        np.testing.assert_allclose(db["again"].to_numpy(), matrix @ matrix.T + 1)
        assert db["total"].item() == pytest.approx(matrix.sum())
        assert db["a"].shape == matrix.shape
    engine.reset()
    back = tr.read(tmp_path / "db", name="product", engine=engine)
    assert "S0: 2 x 2 blocks at 4 sites" in str((back + 1).explain(engine=engine))
    (back + 1).write(tmp_path / "more.zarr", engine=engine)
    assert engine.stats()["bytes_driver"] == 0
    np.testing.assert_array_equal(tr.read(tmp_path / "more.zarr").to_numpy(), matrix * 2 + 1)


def test_sparse_parts_of_a_database(engine: SitesEngine, tmp_path: Path) -> None:
    a = np.zeros((80, 80), np.float32)
    a[:20, :20] = np.random.default_rng(1).random((20, 20)) < 0.2
    tr.tensor(a, format="csr").write(tmp_path / "s.parts", tile=20)
    with tr.connect(tmp_path / "db") as db:
        db["s"] = tr.read(tmp_path / "s.parts", engine=engine) * 3
        db["nothing"] = tr.read(tmp_path / "s.parts", engine=engine)[40:] * 2
        found = db["s"]
        assert found.format != "dense" and found.nnz == np.count_nonzero(a)
        np.testing.assert_array_equal(found.to_numpy(), 3 * a)
        assert not db["nothing"].to_numpy().any() and db["nothing"].dtype == np.float32
        db.verify()
        there = tr.read(tmp_path / "db", name="s", engine=engine).persist()
        assert sum(engine.stats()["bytes_held"]) < a.nbytes
        np.testing.assert_array_equal(there.to_numpy(), 3 * a)


def test_a_failed_write_leaves_the_database_as_it_was(
        matrix: np.ndarray, engine: SitesEngine, tmp_path: Path) -> None:
    A = tr.read(tmp_path / "a.parts", engine=engine)
    (tmp_path / "a.parts/part-1-1.npy").unlink()
    with tr.connect(tmp_path / "db") as db:
        before = set(os.listdir(tmp_path / "db/data"))
        with pytest.raises(StorageError, match="part-1-1"):
            db["b"] = A + 1
        assert list(db) == ["a"]
        db["c"] = [1.0]  # what was written for nothing goes with the next commit
        assert before < set(os.listdir(tmp_path / "db/data"))
        assert len(os.listdir(tmp_path / "db/data")) == len(before) + 2  # values and statistics
    tag = (tmp_path / "db/tensorel-database").read_text().split()[-1]
    put = PartWriter(str(tmp_path / "db"), "0" * 32, About((2,), np.dtype(float), np.float64(0)),
                     False)
    with pytest.raises(DatabaseError, match="not the database here"):
        put((0,), convert.from_dense(np.ones(2), 0))
    with pytest.raises(FileError, match="all sites"):
        replace(put, path=str(tmp_path / "elsewhere"), tag=tag)(
            (0,), convert.from_dense(np.ones(2), 0))


@pytest.mark.parametrize("kind", KINDS)
def test_readers_and_writers_can_be_sent(kind: str, matrix: np.ndarray, engine: SitesEngine,
                                         tmp_path: Path) -> None:
    """As values, to processes that see the same paths."""
    data: Any = tr.read(tmp_path / kind, engine=engine, **KINDS[kind]).node
    make = pickle.loads(pickle.dumps(data.data.make))
    block = make((0,) * (0 if data.data.whole else 2)).arrays["val"]
    first = matrix if data.data.whole else matrix[:12, :20] if kind == "a.zarr" \
        else matrix[:10, :25]
    np.testing.assert_array_equal(np.asarray(block).reshape(first.shape), first)
    for name in ("b.zarr", "b.parts"):
        about = About(matrix.shape, matrix.dtype, matrix.dtype.type(0))
        with writing_blocks(str(tmp_path / name), about, 30, True, None) as writer:
            edges, put = writer.cut([np.array([0, n]) for n in matrix.shape])
            put = pickle.loads(pickle.dumps(put))
            writer.finish([put((i, j), convert.from_dense(matrix[
                30 * i:30 * i + 30, 30 * j:30 * j + 30].copy(), 0))
                for i in range(len(edges[0]) - 1) for j in range(len(edges[1]) - 1)])
        np.testing.assert_array_equal(tr.read(tmp_path / name).to_numpy(), matrix)
