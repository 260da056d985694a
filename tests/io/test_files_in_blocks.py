"""Tensors in many files: what is written is read back to the last bit, by whoever; what others
wrote is read; and what cannot be right is refused in words."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import FileError, KeyError_, ShapeError, StorageError, TypeError_

zarr = pytest.importorskip("zarr")

SHAPES: list[tuple[int, ...]] = [(), (7,), (0,), (1,), (20, 13), (5, 0), (4, 5, 6), (1, 9, 1, 2)]
DTYPES = ["bool", "int8", "int32", "uint64", "float32", "float64", "complex64", "complex128"]


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, fill: Any = 0
          ) -> np.ndarray:
    there = rng.random(shape) < 0.3
    return np.where(there, rng.integers(0, 5, shape), fill).astype(dtype)


def tiled(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    match int(rng.integers(3)):
        case 0:
            return None
        case 1:
            return int(rng.integers(1, 8))
        case _:
            return tuple([None if rng.random() < 0.3 else int(rng.integers(1, 8)) for _ in shape])


@pytest.mark.parametrize("ending", [".zarr", ".parts"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_written_is_read(ending: str, dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([3, len(dtype), len(ending)])
    for number, shape in enumerate(SHAPES):
        fill = int(rng.integers(0, 2))
        a = array(rng, shape, dtype, fill)
        path = tmp_path / f"{number}{ending}"
        for format in (None, "coo" if shape else None):
            T = tr.asarray(a) if format is None else tr.tensor(a, format=format, fill=fill)
            T.write(path, tile=tiled(rng, shape), overwrite=True)
            found = tr.read(path)
            assert (found.shape, found.dtype) == (a.shape, a.dtype)
            assert found.to_numpy().tobytes() == a.tobytes()
            if format is not None:
                assert found.fill == T.fill
            if ending == ".parts" and format is not None and a.size > 20:
                assert found.format == "coo"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_entries_that_look_like_the_fill_are_kept(tmp_path: Path) -> None:
    a = np.zeros((6, 6))
    a[2] = -0.0
    a[4] = np.nan
    for path in ("a.zarr", "a.parts"):
        tr.asarray(a).write(tmp_path / path, tile=(2, 3))
        assert tr.read(tmp_path / path).to_numpy().tobytes() == a.tobytes()


def test_arrays_of_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number, version in enumerate((2, 3)):
        for dtype in ("<f8", ">i4", "f4"):
            path = tmp_path / f"{number}{dtype[-2:]}.zarr"
            there = zarr.create_array(str(path), shape=(9, 8), chunks=(4, 3), dtype=dtype,
                                      fill_value=3, zarr_format=version)
            a = np.full((9, 8), 3, dtype)
            a[:4, 3:6] = there[:4, 3:6] = rng.integers(0, 9, (4, 3))
            found = tr.read(path)
            np.testing.assert_array_equal(found.to_numpy(), a)
            assert found.dtype == np.dtype(dtype).newbyteorder("=")
    sharded = zarr.create_array(str(tmp_path / "s.zarr"), shape=(12, 6), chunks=(2, 3),
                                shards=(4, 6), dtype="f8")
    sharded[...] = a = rng.random((12, 6))
    np.testing.assert_array_equal(tr.read(tmp_path / "s.zarr").to_numpy(), a)


def test_small_chunks_are_read_several_at_a_time(tmp_path: Path) -> None:
    from tensorel.io.blocked import zarrs
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(300, 301), chunks=(3, 2), dtype="f8")
    edges = zarrs.source(str(tmp_path / "a.zarr")).edges
    assert (len(edges[0]) - 1) * (len(edges[1]) - 1) <= zarrs.MAX_BLOCKS
    assert [int(e[-1]) for e in edges] == [300, 301]
    assert all((np.diff(e) > 0).all() and (e[:-1] % c == 0).all() for e, c in zip(edges, (3, 2)))


@pytest.mark.parametrize("kind", ["npy", "npz", "mtx", "scipy", "plain"])
@pytest.mark.parametrize("base", [0, 1])
def test_folders_without_a_manifest(kind: str, base: int, tmp_path: Path) -> None:
    """Named by the place of each part, also where the last axes are not cut."""
    rng = np.random.default_rng([base, len(kind)])
    a = array(rng, (11, 9), "float64")
    rows, columns = [0, 4, 11], [0, 3, 5, 9]
    for strips in (False, True):
        folder = tmp_path / f"{strips}"
        folder.mkdir()
        for i in range(2):
            for j in range(1 if strips else 3):
                part = a[rows[i]:rows[i + 1]]
                part = part if strips else part[:, columns[j]:columns[j + 1]]
                name = f"x{i}_.{i + base}" if strips else f"x-{i + base}_{j + base}"
                if strips:
                    name = f"strip.{i + base}"
                if kind == "plain":
                    np.savez(folder / f"{name}.npz", part)
                else:
                    T = tr.asarray(part) if kind == "npy" else tr.tensor(part, format="csr")
                    tr.write(folder / f"{name}.{'npz' if kind == 'scipy' else kind}", T,
                             scipy=kind == "scipy")
        (folder / "README.txt").write_text("not a part")
        found = tr.read(folder)
        assert found.to_numpy().tobytes() == a.tobytes()
        assert found.format == ("csr" if kind in ("npz", "mtx", "scipy") else "dense")


def test_parts_of_a_kind(tmp_path: Path) -> None:
    a = array(np.random.default_rng(1), (8, 6), "int32")
    tr.asarray(a).write(tmp_path / "a.parts", tile=4, part="mtx")
    assert {p.suffix for p in (tmp_path / "a.parts").iterdir()} == {".mtx", ".json"}
    found = tr.read(tmp_path / "a.parts")
    assert found.dtype == np.int32 and (found.to_numpy() == a).all()
    with pytest.raises(StorageError, match="kind 'csv'"):
        tr.asarray(a).write(tmp_path / "b.parts", part="csv")
    with pytest.raises(ShapeError, match="matrices"):
        tr.asarray(a[0]).write(tmp_path / "b.parts", part="mtx")


def test_nothing_is_replaced_that_is_not_ours(tmp_path: Path) -> None:
    T = tr.asarray(np.eye(4))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    (tmp_path / "file.parts").write_text("dear")
    (tmp_path / "link.parts").symlink_to(tmp_path / "mine")
    for name in ("mine/", "file.parts", "link.parts"):
        with pytest.raises(StorageError):
            T.write(f"{tmp_path}/{name}")
        with pytest.raises(StorageError):
            T.write(f"{tmp_path}/{name}", overwrite=True)
    assert (tmp_path / "mine/letter.txt").read_text() == "dear"
    for name in ("a.zarr", "a.parts"):
        T.write(tmp_path / name)
        with pytest.raises(FileError, match="overwrite=True"):
            (T + 1).write(tmp_path / name)
        (tr.read(tmp_path / name) + 1).write(tmp_path / name, overwrite=True)
        assert tr.read(tmp_path / name).to_numpy().sum() == 20
        (tmp_path / name / "letter.txt").write_text("dear")
        with pytest.raises(FileError, match="not replaced"):
            T.write(tmp_path / name, overwrite=True)
        assert (tmp_path / name / "letter.txt").exists()
    zarr.open_group(str(tmp_path / "g.zarr"), mode="w").create_array("x", shape=(3,), dtype="f8")
    with pytest.raises(StorageError, match="not replaced"):
        T.write(tmp_path / "g.zarr", overwrite=True)
    with pytest.raises(StorageError, match="one array"):
        tr.read(tmp_path / "g.zarr")
    assert tr.read(tmp_path / "g.zarr/x").shape == (3,)


def test_what_was_not_written_whole_is_not_there(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    T = tr.asarray(np.random.default_rng(0).random((9, 9)))
    from tensorel.io.blocked import parts

    def full(path: object, stored: object) -> None:
        raise OSError(28, "No space left on device")

    T.write(tmp_path / "a.parts", tile=3)
    monkeypatch.setattr(parts.files, "write", full)
    with pytest.raises(FileError, match=r"No space|disk is full"):
        T.write(tmp_path / "b.parts", tile=3)
    with pytest.raises(FileError):
        (T + 1).write(tmp_path / "a.parts", tile=3, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.parts"]
    np.testing.assert_array_equal(tr.read(tmp_path / "a.parts").to_numpy(), T.to_numpy())


def damage(folder: Path, how: str) -> None:
    text = json.loads((folder / "tensorel-parts.json").read_text())
    match how:
        case "lacks the part":
            (folder / "part-1-0.npy").unlink()
        case "has shape":
            np.save(folder / "part-1-0.npy", np.ones((2, 9)))
        case "dtype float32":
            np.save(folder / "part-1-0.npy", np.ones((3, 3), np.float32))
        case "version":
            text["version"] = 9
        case "damaged":
            text["edges"][0] = [0, 5, 3, 9]
        case "is damaged":
            text["parts"]["1-0"] = ["../secret.npy", 3]
        case "truncated":
            (folder / "part-1-0.npy").write_bytes(b"\x93NUMPY")
    (folder / "tensorel-parts.json").write_text(json.dumps(text))


@pytest.mark.parametrize("how", ["lacks the part", "has shape", "dtype float32", "version",
                                 "damaged", "is damaged", "truncated"])
def test_damaged_folders(how: str, tmp_path: Path) -> None:
    tr.asarray(np.ones((9, 9))).write(tmp_path / "a.parts", tile=3)
    damage(tmp_path / "a.parts", how)
    with pytest.raises(StorageError, match="does not start" if how == "truncated" else how):
        tr.read(tmp_path / "a.parts").to_numpy()


@pytest.mark.parametrize("files, message", [
    ({"x-0-0": (3, 3), "x-1-1": (3, 3)}, "lacks the part 0-1 of 2 x 2"),
    ({"x-0-0": (3, 3), "x-0-1": (2, 3)}, "x-0-1.npy has 2 entries along axis 0"),
    ({"x-0-0": (3, 3), "y-0-1": (3, 3)}, "several tensors"),
    ({"x-0": (3, 3), "x-0-1": (3, 3)}, "several tensors"),
    ({"x-0-0": (3,), "x-0-1": (3,)}, "2 numbers"),
    ({"x-0": (3, 3), "x_0": (3, 3)}, "same part"),
    ({"x-0": (3, 3), "other": (3, 3)}, "does not end with the place"),
    ({"x-5": (3, 3)}, "number 0 or 1"),
    ({}, "holds no parts"),
])
def test_folders_that_are_no_tensor(files: dict[str, tuple[int, ...]], message: str,
                                    tmp_path: Path) -> None:
    for name, shape in files.items():
        np.save(tmp_path / f"{name}.npy", np.ones(shape))
    with pytest.raises(StorageError, match=message):
        tr.read(tmp_path)


def test_parts_have_one_dtype(tmp_path: Path) -> None:
    np.save(tmp_path / "x-0.npy", np.ones(3))
    np.save(tmp_path / "x-1.npy", np.ones(3, np.float32))
    with pytest.raises(StorageError, match="dtype float32"):
        tr.read(tmp_path)


def test_tensors_of_a_database(tmp_path: Path) -> None:
    a = array(np.random.default_rng(2), (9, 7), "float64")
    with tr.connect(tmp_path / "db") as db:
        db["A"] = tr.tensor(a, format="csr")
        db["rows of A"] = tr.asarray(a[0])
    assert tr.read(tmp_path / "db", name="A").format == "csr"
    np.testing.assert_array_equal(tr.read(tmp_path / "db", name="A").to_numpy(), a)
    with pytest.raises(StorageError, match="say which tensor, it has A"):
        tr.read(tmp_path / "db")
    with pytest.raises(KeyError_, match="no tensor 'B'"):
        tr.read(tmp_path / "db", name="B")
    with pytest.raises(StorageError, match="not replaced"):
        tr.asarray(a).write(f"{tmp_path}/db/", overwrite=True)
    with pytest.raises(StorageError, match="no database"):
        tr.read(tmp_path, name="A")


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    T = tr.asarray(np.eye(4))
    with pytest.raises(TypeError_, match="tile= is for"):
        T.write(tmp_path / "a.npy", tile=2)
    with pytest.raises(ShapeError, match="3 tile sizes for 2 axes"):
        T.write(tmp_path / "a.zarr", tile=(1, 2, 3))
    with pytest.raises(ShapeError, match="no sizes"):
        T.write(tmp_path / "a.parts", tile=0)
    with pytest.raises(TypeError_, match="chunks"):
        T.write(tmp_path / "a.zarr", part="npy")
    with pytest.raises(TypeError_, match="scipy"):
        T.write(tmp_path / "a.zarr", scipy=True)
    with pytest.raises(FileNotFoundError):
        tr.read(tmp_path / "nothing.zarr")
    with pytest.raises(FileNotFoundError):
        tr.read(f"{tmp_path}/nothing/")
    assert not os.listdir(tmp_path)
    shutil.rmtree(tmp_path)
