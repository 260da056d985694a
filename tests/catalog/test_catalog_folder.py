"""Databases: what goes in comes out, in every format, after reopening; damage is told."""

from __future__ import annotations

import errno
import json
import mmap
import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalog_support import (
    catalogs,
    data_files,
    exactly,
    files_in_use,
    random_tensor,
    state_of,
    texts,
)

import tensorel as tr
from tensorel.catalog import disk, statistics
from tensorel.catalog.folder import Folder
from tensorel.catalog.records import State, from_text, to_text
from tensorel.catalog.transactions import Session
from tensorel.stats.collected.collect import collect
from tensorel.storage import registry
from tensorel.storage.registry import names
from tensorel.storage.stored import Stored


def fresh(stored: Stored) -> Stored:
    """Without anything that is known of it."""
    return Stored(stored.format, stored.shape, stored.dtype, stored.fill, stored.arrays)


@pytest.mark.parametrize("place", ["folder", "memory"])
@pytest.mark.parametrize("seed", range(4))
def test_random_tensors_survive(tmp_path: Path, seed: int, place: str) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "db" if place == "folder" else None
    made = {f"t{k}": random_tensor(rng) for k in range(60)}
    db = tr.connect(path)
    db.update(made)
    if path is not None:
        db.close()
        db = tr.connect(path)
    assert list(db) == list(made) and len(db) == 60
    for name, tensor in made.items():
        back = db[name]
        assert exactly(back.stored, tensor.stored), (name, tensor)
        assert statistics.to_text(collect(back.stored)) == statistics.to_text(
            collect(fresh(tensor.stored)))
        assert back.nnz == tensor.nnz
    db.verify()
    db.close()


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 4)])
def test_every_format_survives_and_computes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(-2, 3, shape).astype(float)
    lower = np.tril(array[..., :5]) if len(shape) == 2 else array
    kinds = dict.fromkeys(texts(shape, "float64"), array)
    if len(shape) == 2:
        kinds |= {"tril": lower, "triu": lower.T, "symmetric": lower + lower.T}
        assert {n.partition("(")[0] for n in kinds} >= set(names()) - {"bitmap"}
    with tr.connect(tmp_path / "db") as db, db.transaction():
        for name, dense in kinds.items():
            db[name] = tr.tensor(dense, format=name)
    with tr.connect(tmp_path / "db") as db:
        for name, dense in kinds.items():
            wanted = (dense * 2 + dense).sum(axis=0)
            np.testing.assert_array_equal((db[name] * 2 + db[name]).sum(axis=0).to_numpy(), wanted)


def test_arrays_are_mapped_and_aligned(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db") as db:
        db["A"] = tr.tensor(np.eye(50), format="csr")
        db["none"] = np.zeros((0, 4))
        found = db["A"].stored, db["none"].stored
        for array in [a for s in found for a in s.arrays.values()]:
            assert array.ctypes.data % 64 == 0 and not array.flags.writeable
            assert isinstance(array.base, memoryview) and isinstance(array.base.obj, mmap.mmap)
        assert db["A"].stored is found[0], "mapped once"
    assert found[0].arrays["val"].sum() == 50, "tensors stay usable after close"
    for name in data_files(tmp_path / "db"):
        if name.endswith(".npy"):
            assert np.load(tmp_path / "db" / "data" / name).ndim == 1


def test_lazy_views_and_windows(tmp_path: Path) -> None:
    dense = np.arange(12.0).reshape(3, 4)
    A = tr.tensor(dense, format="csr")
    with tr.connect(tmp_path / "db") as db:
        db["lazy"] = A @ A.T
        db["rows"] = A[1:]
        db["columns"] = np.asfortranarray(dense)[:, ::2]
        db["list"] = [1, 2, 3]
        db["scalar"] = 2.5
        db["alias"] = db["rows"]
        np.testing.assert_array_equal(db["lazy"].to_numpy(), dense @ dense.T)
        np.testing.assert_array_equal(db["rows"].to_numpy(), dense[1:])
        np.testing.assert_array_equal(db["alias"].to_numpy(), dense[1:])
        np.testing.assert_array_equal(db["columns"].to_numpy(), dense[:, ::2])
        assert db["list"].tolist() == [1, 2, 3] and db["scalar"].item() == 2.5
        assert exactly(db["rows"].stored, db["alias"].stored)


def test_alternatives_survive(tmp_path: Path) -> None:
    A = tr.tensor(np.diag([1.0, 2.0, 3.0]), format="csr")
    with tr.connect(tmp_path / "db") as db:
        db["A"] = tr.alternatives(A, A.to_format("csc"))
    with tr.connect(tmp_path / "db") as db:
        (other,) = db["A"].stored.alternatives
        assert db["A"].format == "csr" and other.format.name == "csc"
        assert "csr, csc" in repr(db)
        assert (db["A"].T @ db["A"]).sum().item() == 14.0
        db.verify()


def test_formats_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered format survives; where it is not registered, its tensors say so."""
    monkeypatch.setattr(registry, "BUILDERS", dict(registry.BUILDERS))
    registry.register("mine", lambda shape, dtype: replace(
        registry.resolve("tril", shape, dtype), name="mine"))
    with tr.connect(tmp_path / "db") as db:
        db["L"] = tr.tensor(np.tril(np.ones((3, 3))), format="mine")
        db["x"] = [1.0]
    with tr.connect(tmp_path / "db") as db:
        assert db["L"].format == "mine" and db["L"].sum().item() == 6
        named = db["L"]
    monkeypatch.undo()
    with tr.connect(tmp_path / "db") as db:
        with pytest.raises(tr.errors.StorageError, match=r"'mine'(.|\n)*register the package"):
            db["L"]
        assert db["x"].item() == 1.0
        with pytest.raises(tr.errors.StorageError, match="'mine' cannot be kept"):
            db["again"] = named
        assert list(db) == ["L", "x"]


def test_names(tmp_path: Path) -> None:
    strange = ["ü", "日本", "../out", "/etc/passwd", "a/b", "a\0b", "\ud800", " ", ".", "..",
               "x" * 999, "con", "A", "a", "e\u0301", "\u00e9", "\n"]
    with tr.connect(tmp_path / "db") as db:
        db.update({name: [k] for k, name in enumerate(strange)})
    with tr.connect(tmp_path / "db") as db:
        assert list(db) == strange and [db[n].item() for n in strange] == list(range(len(strange)))
        assert repr(db).count("\n") == len(strange)
        for bad in ("", 3, None, b"x"):
            with pytest.raises(tr.errors.TypeError_):
                db[bad] = 1  # type: ignore[index]
        with pytest.raises(KeyError):
            db[3]  # type: ignore[index]
    assert os.listdir(tmp_path) == ["db"]
    assert set(os.listdir(tmp_path / "db")) == {
        "tensorel-database", "lock", "writer.json", "data", *catalogs(tmp_path / "db")}


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_a_mapping(tmp_path: Path, place: str) -> None:
    db = tr.connect(tmp_path / "db" if place == "folder" else None)
    assert len(db) == 0 and "A" not in db and db.tensors() == {} and db.get("A") is None
    db["A"], db["B"] = [1.0], [2.0]
    assert "A" in db and 3 not in db and list(db.items())[1][0] == "B"
    assert {n: t.item() for n, t in db.tensors().items()} == {"A": 1.0, "B": 2.0}
    assert "A  (1,)  float64  dense  8 bytes" in repr(db)
    del db["A"]
    db["weights"] = 1
    with pytest.raises(tr.errors.KeyError_, match=r"'weigths'\n  hint: did you mean 'weights'"):
        db["weigths"]
    with pytest.raises(KeyError):
        del db["A"]
    assert db.pop("B").item() == 2.0 and list(db) == ["weights"]
    db.clear()
    assert not db and db == db and db != tr.connect() and {db: 1}
    db.close()
    db.close()
    assert "closed" in repr(db)
    for use in (lambda: db["A"], lambda: db.__setitem__("A", 1), lambda: len(db), db.verify):
        with pytest.raises(tr.errors.DatabaseError, match="closed"):
            use()


def test_bad_arguments(tmp_path: Path) -> None:
    for bad in (3, "", b"x", "a\0b"):
        with pytest.raises(tr.errors.TypeError_):
            tr.connect(bad)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("x")
    with pytest.raises(tr.errors.DatabaseError):
        tr.connect(tmp_path / "file")
    with pytest.raises(tr.errors.DatabaseError, match="not a database, and not empty"):
        tr.connect(tmp_path)
    with pytest.raises(tr.errors.DatabaseError, match="no database"):
        (tmp_path / "new").mkdir()
        tr.connect(tmp_path / "new", read_only=True)
    with pytest.raises(OSError):
        tr.connect(tmp_path / "missing", read_only=True)
    assert not (tmp_path / "missing").exists()
    assert os.listdir(tmp_path / "new") == []


# -- transactions ------------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["folder", "memory"])
def test_transactions(tmp_path: Path, place: str) -> None:
    db = tr.connect(tmp_path / "db" if place == "folder" else None)
    db["A"] = [1]
    with pytest.raises(RuntimeError), db.transaction():
        db["A"] = [2]
        db["B"] = db["A"] + 1
        assert db["A"].item() == 2 and db["B"].item() == 3
        raise RuntimeError
    assert db["A"].item() == 1 and "B" not in db
    with db.transaction():
        db["B"] = [5]
        with pytest.raises(RuntimeError), db.transaction():
            db["B"] = [6]
            del db["A"]
            raise RuntimeError
        assert db["B"].item() == 5 and "A" in db
        with db.transaction():
            db["C"] = [7]
        with pytest.raises(tr.errors.DatabaseError, match="in a transaction"):
            db.close()
    assert {n: t.item() for n, t in db.tensors().items()} == {"A": 1, "B": 5, "C": 7}
    db.close()
    if place == "folder":
        with tr.connect(tmp_path / "db") as again:
            assert {n: t.item() for n, t in again.tensors().items()} == {"A": 1, "B": 5, "C": 7}


def test_one_commit_for_a_transaction(tmp_path: Path) -> None:
    db = tr.connect(tmp_path / "db")
    before = catalogs(tmp_path / "db")
    with db.transaction():
        pass
    assert catalogs(tmp_path / "db") == before
    db.update(a=1, b=2)
    assert catalogs(tmp_path / "db") == ["catalog-000000000002.json"]


def test_files_are_shared_and_collected(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with tr.connect(path) as db:
        db["A"] = np.arange(1000.0)
        one = data_files(path)
        db["B"] = np.arange(1000.0)
        assert data_files(path) == one, "equal content is one file"
        del db["A"]
        assert data_files(path) == one
        held = db["B"]
        db["B"] = 1
        assert not one & data_files(path)
        assert held.sum().item() == 499500, "a removed file stays readable while it is mapped"
        with pytest.raises(RuntimeError), db.transaction():
            db["C"] = np.arange(7.0)
            raise RuntimeError
        tag = (path / "tensorel-database").read_text().split()[-1]
        (path / "data" / f".new-{tag}-{1:016x}").write_text("left by a killed writer")
        (path / f".new-{tag}-{2:016x}").write_text("left by a killed writer")
        db["D"] = 2
        assert data_files(path) == files_in_use(path)
        assert len(os.listdir(path)) == 5


# -- statistics --------------------------------------------------------------------------------
def test_statistics_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = tr.from_coo(rng.integers(0, 30, (3, 200)), np.ones(200), (30, 30, 30), duplicates="sum",
                    format="csf")
    a = tr.tensor(np.eye(9), format="csr")
    with tr.connect(tmp_path / "db") as db:
        db["x"], db["a"] = x, a
    with tr.connect(tmp_path / "db") as db:
        found = db["x"].stored.derived.stats
        assert found.values is not None and found.vectors[0] is not None  # type: ignore[attr-defined]
        assert ((0,), (1, 2)) in found.degrees  # type: ignore[attr-defined]
        assert db["a"].stored.derived.stats.tiles is not None  # type: ignore[attr-defined]
    before = catalogs(tmp_path / "db")
    with tr.connect(tmp_path / "db") as db:
        db["a"].sum().item()
    assert catalogs(tmp_path / "db") == before, "nothing new was learned"


def test_statistics_of_odd_values() -> None:
    for values in ([0.1, 1e300], [np.inf, 1.0], [np.nan], [2**63 - 1], [1 + 2j], [1 + 2j, 0],
                   [True], []):
        stats = collect(tr.asarray(np.asarray(values)).stored)
        back = statistics.from_text(statistics.to_text(stats), stats.shape)
        assert back.values == stats.values and back.nnz == stats.nnz


# -- damage ------------------------------------------------------------------------------------
@pytest.fixture
def made(tmp_path: Path) -> Path:
    with tr.connect(tmp_path / "db") as db:
        db["A"] = tr.tensor(np.eye(100), format="csr")
        db["B"] = [1.0]
    return tmp_path / "db"


def largest(path: Path, suffix: str = ".npy") -> Path:
    found = [path / "data" / n for n in data_files(path) if n.endswith(suffix)]
    return max(found, key=lambda p: p.stat().st_size)


@pytest.mark.parametrize("change", ["shorter", "longer", "empty", "gone", "header", "folder"])
def test_damaged_arrays_are_told(made: Path, change: str) -> None:
    file = largest(made)
    data = file.read_bytes()
    if change in ("gone", "folder"):
        file.unlink()
    if change == "folder":
        file.mkdir()
    elif change != "gone":
        file.write_bytes({"shorter": data[:-1], "longer": data + b"x", "empty": b"",
                          "header": b"x" + data[1:]}[change])
    with tr.connect(made) as db:
        with pytest.raises(tr.errors.DatabaseError, match=file.name):
            db["A"].sum().item()
        assert db["B"].item() == 1.0
        with pytest.raises(tr.errors.DatabaseError, match=file.name):
            db.verify()
        if change != "folder":
            db["A"] = tr.tensor(np.eye(100), format="csr")
            assert db["A"].sum().item() == 100


def test_verify_finds_changed_bits(made: Path) -> None:
    for suffix in (".npy", ".json"):
        file = largest(made, suffix)
        data = bytearray(file.read_bytes())
        data[-3] ^= 1
        with tr.connect(made) as db:
            db.verify()
            file.write_bytes(data)
            with pytest.raises(tr.errors.DatabaseError, match=file.name):
                db.verify()
        data[-3] ^= 1
        file.write_bytes(data)


def test_verify_finds_arrays_that_are_no_tensor(tmp_path: Path) -> None:
    good = tr.tensor(np.eye(4), format="csr").stored
    bad = Stored(good.format, good.shape, good.dtype, good.fill,
                 good.arrays | {"idx1": np.asarray([0, 1, 2, 9], np.int32)})
    bad.derived.stats = collect(good)
    session = Session(Folder(str(tmp_path / "db")), 5.0)
    with tr.Database(session) as db:
        db["A"] = [1]
        with session.transaction() as mine:
            mine.state = State(0, {"A": session.store.keep(bad)}, {})
        with pytest.raises(tr.errors.StorageError, match="index 9 is outside"):
            db.verify()


def test_damaged_catalogs_are_told(made: Path) -> None:
    (name,) = catalogs(made)
    good = (made / name).read_bytes()
    state = from_text(good, name)
    assert to_text(state) == good
    rng = np.random.default_rng(0)
    head, _, body = good.partition(b"\n")
    for k in range(200):
        data = bytearray(good)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        if k % 4 == 0:
            data = data[: rng.integers(len(data))]
        (made / name).write_bytes(data)
        with pytest.raises(tr.errors.DatabaseError, match=name):
            tr.connect(made)
    (made / name).write_bytes(head.replace(b'"tensorel": 2', b'"tensorel": 5') + b"\n" + body)
    with pytest.raises(tr.errors.DatabaseError, match=r"version 5.*\n.*update"):
        tr.connect(made)
    (made / name).write_bytes(good)
    with tr.connect(made) as db:
        db.verify()


def test_hostile_catalogs_are_told(made: Path) -> None:
    """Well-formed files with right checksums that say what no catalog of ours says."""
    import hashlib

    (name,) = catalogs(made)
    good = json.loads((made / name).read_bytes().partition(b"\n")[2])
    form = good["tensors"]["A"]["forms"][0]
    array = form["arrays"]["val"]

    def refused(text: bytes) -> None:
        head = {"tensorel": 2, "sha256": hashlib.sha256(text).hexdigest()}
        (made / name).write_bytes(json.dumps(head).encode() + b"\n" + text)
        with pytest.raises(tr.errors.StorageError), tr.connect(made) as db:
            db["A"].sum().item()

    for text in (b"", b"[]", b"{}", b"null", b"[" * 100_000, b'{"tensors": 3}'):
        refused(text)
    changes: list[tuple[Any, Any, Any]] = [
        (array, 0, "../" + array[0][3:]), (array, 0, 7), (array, 1, "|O"), (array, 1, ">f8"),
        (array, 2, -1), (array, 2, 2**60), (array, 2, True), (form, "format", "nonsense"),
        (form, "format", 3), (form, "statistics", "x"), (form, "arrays", []),
        (good["tensors"]["A"], "shape", [2.5]), (good["tensors"]["A"], "shape", [-1, 2]),
        (good["tensors"]["A"], "dtype", "object"), (good["tensors"]["A"], "fill", ["x"]),
        (good["tensors"]["A"], "forms", []), (good, "generation", 77), (good, "declared", 3)]
    for place, key, value in changes:
        before, place[key] = place[key], value
        refused(json.dumps(good).encode())
        place[key] = before


# -- failing writes ----------------------------------------------------------------------------
def test_full_disk(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the disk is full, the old state stays and the next try works."""
    class Full:
        def __init__(self, room: int) -> None:
            self.room = room

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def write(self, file: int, data: Any) -> int:
            self.room -= 1
            if self.room < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return os.write(file, data[:700])

    db = tr.connect(made)
    before = state_of(made)
    for room in range(1000):
        monkeypatch.setattr(disk, "os", Full(room))
        try:
            db.update(C=np.arange(100.0), A=[1, 2, 3])
            break
        except tr.errors.DatabaseError as error:
            assert error.errno == errno.ENOSPC and "disk is full" in str(error)
            assert error.hint and isinstance(error, OSError)
            monkeypatch.undo()
            assert state_of(made) == before and not [
                n for n in (*os.listdir(made), *data_files(made)) if n.startswith(".")]
            with tr.connect(made) as other:
                assert other["A"].sum().item() == 100 and "C" not in other
    monkeypatch.undo()
    assert room > 5 and db["A"].tolist() == [1, 2, 3]
    assert data_files(made) == files_in_use(made)


def test_file_size_limit(made: Path) -> None:
    """A real refusal of the system in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tr.connect(made) as db:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
            with pytest.raises(tr.errors.DatabaseError) as caught:
                db["big"] = np.arange(100_000.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.errno == errno.EFBIG
        assert list(db) == ["A", "B"]
        db["big"] = np.arange(100_000.0)
        db.verify()
