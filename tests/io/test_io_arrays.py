"""npy and npz: round trips, SciPy's files, and files that must be refused."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tensorel import config
from tensorel.algebra.ops import DTYPES
from tensorel.errors import MemoryLimitError, StorageError, TypeError_
from tensorel.io.files import SUFFIXES, read, write
from tensorel.storage.convert import from_coo, from_dense, to_dense, to_format
from tensorel.storage.registry import names
from tensorel.storage.stored import Stored

SHAPES = ((), (5,), (0,), (4, 4), (8, 6), (0, 3), (3, 2, 4), (2, 1, 3, 2))


def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    dense = np.where(rng.random(shape) < 0.4, rng.integers(1, 9, shape), 0).astype(dtype)
    if dtype.kind == "c":
        dense = dense * (1 + 2j)
    return np.asarray(dense, dtype)


def fit(dense: np.ndarray, name: str) -> np.ndarray:
    """A tensor that the format can hold."""
    if dense.ndim == 2 and name in ("tril", "triu"):
        return getattr(np, name)(dense)
    if name == "symmetric" and dense.ndim == 2 and dense.shape[0] == dense.shape[1]:
        return np.maximum(dense, dense.T)
    return dense


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_npy_round_trip(tmp_path: Path, dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    for k, shape in enumerate(SHAPES):
        dense = sample(rng, shape, dtype)
        for order in "CF":
            path = tmp_path / f"{k}{order}.npy"
            write(path, from_dense(np.asarray(dense, order=order)))
            assert same_bits(np.load(path), dense)
            assert same_bits(to_dense(read(path)), dense)


def test_npy_written_by_numpy(tmp_path: Path) -> None:
    dense = np.arange(12.0).reshape(3, 4)
    for k, array in enumerate((dense, np.asfortranarray(dense), dense.astype(">f8"), dense[0, 0])):
        np.save(tmp_path / f"{k}.npy", array)
        assert np.array_equal(to_dense(read(tmp_path / f"{k}.npy")), array)


@pytest.mark.parametrize("name", names())
def test_npz_keeps_every_format(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(1)
    kept = 0
    for dtype in DTYPES:
        for shape in SHAPES:
            dense = fit(sample(rng, shape, dtype), name)
            try:
                stored = to_format(from_dense(dense), name)
            except (StorageError, TypeError_):
                continue
            path = tmp_path / "x.npz"
            write(path, stored)
            back = read(path)
            assert back.format == stored.format
            assert back.dtype == dtype and back.shape == shape
            assert back.arrays.keys() == stored.arrays.keys()
            for key, array in stored.arrays.items():
                assert np.array_equal(array, back.arrays[key])
            assert same_bits(to_dense(back), dense)
            kept += 1
    assert kept


@pytest.mark.parametrize(
    "fill", [0.0, -0.0, 1.5, np.inf, np.nan, 5e-324, 3, True, 2**63, 1 + 2j, complex(0.0, -0.0)]
)
def test_npz_keeps_the_fill_exactly(tmp_path: Path, fill: object) -> None:
    dtype = np.asarray(fill).dtype
    stored = from_coo([[1]], np.ones(1, dtype), (3,), fill=np.asarray(fill)[()], format="coo")
    write(tmp_path / "x.npz", stored)
    back = read(tmp_path / "x.npz").fill
    assert back.dtype == dtype and back.tobytes() == np.asarray(fill).tobytes()


def test_npz_of_huge_shape(tmp_path: Path) -> None:
    shape = (10**6,) * 7
    stored = from_coo([[5, 999_999]] * 7, [1.0, 2.0], shape, format="csf")
    write(tmp_path / "x.npz", stored)
    assert read(tmp_path / "x.npz").shape == shape


def test_npz_of_a_window_holds_the_window_only(tmp_path: Path) -> None:
    whole = to_format(from_dense(np.eye(50)), "csr")
    window = dict(whole.arrays, pos1=whole.arrays["pos1"][20:31])
    view = Stored(whole.format, (10, 50), whole.dtype, whole.fill, window)
    write(tmp_path / "x.npz", view)
    back = read(tmp_path / "x.npz")
    assert back.arrays["val"].size == 10
    assert np.array_equal(to_dense(back), np.eye(50)[20:30])


def test_plain_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", np.arange(3))
    assert to_dense(read(tmp_path / "one.npz")).tolist() == [0, 1, 2]
    np.savez(tmp_path / "two.npz", a=np.arange(3), b=np.arange(2))
    with pytest.raises(StorageError, match="2 arrays"):
        read(tmp_path / "two.npz")


# -- SciPy's files -----------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_scipy_npz_both_ways(tmp_path: Path, kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(2)
    for dtype in ("float64", "float32", "int64", "complex128", "bool"):
        for shape in ((8, 6), (5, 5), (1, 7), (3, 0)):
            dense = sample(rng, shape, np.dtype(dtype))
            for cls in (sparse.csr_array, sparse.csr_matrix):
                sparse.save_npz(tmp_path / "s.npz", cls(dense).asformat(kind))
                stored = read(tmp_path / "s.npz")
                assert stored.format.name == kind and stored.dtype == dense.dtype
                assert np.array_equal(to_dense(stored), dense)
            write(tmp_path / "t.npz", stored, scipy=True)
            back = sparse.load_npz(tmp_path / "t.npz")
            assert back.format == kind and back.dtype == dense.dtype
            assert np.array_equal(back.toarray(), dense)


def test_scipy_blocks_and_dirty_input(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.kron(np.eye(3), np.arange(1.0, 7).reshape(2, 3))
    sparse.save_npz(tmp_path / "b.npz", sparse.bsr_array(dense, blocksize=(2, 3)))
    assert read(tmp_path / "b.npz").format.text == "bsr(2,3)"
    write(tmp_path / "c.npz", read(tmp_path / "b.npz"), scipy=True)
    assert sparse.load_npz(tmp_path / "c.npz").blocksize == (2, 3)
    messy = sparse.csr_array(
        (np.array([1.0, 2, 3, 0]), np.array([3, 0, 3, 1]), np.array([0, 3, 4])), shape=(2, 4)
    )
    sparse.save_npz(tmp_path / "m.npz", messy)
    assert np.array_equal(to_dense(read(tmp_path / "m.npz")), messy.toarray())
    cube = sparse.coo_array(np.arange(24.0).reshape(2, 3, 4) % 5)
    sparse.save_npz(tmp_path / "n.npz", cube)
    assert np.array_equal(to_dense(read(tmp_path / "n.npz")), cube.toarray())


def test_what_scipy_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="fill"):
        write(tmp_path / "x.npz", from_coo([[0], [0]], [1.0], (2, 2), fill=1.0), scipy=True)
    with pytest.raises(StorageError, match="csf"):
        write(tmp_path / "x.npz", to_format(from_dense(np.eye(2)), "csf"), scipy=True)
    assert not list(tmp_path.iterdir())


# -- hostile files -----------------------------------------------------------------------------
def npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def ours(path: Path, header: dict[str, object], **arrays: np.ndarray) -> Path:
    head = {"version": 1, "format": "csr", "shape": [3, 4], "dtype": "float64",
            "fill": ["0x0.0p+0"]} | header
    text = np.frombuffer(json.dumps(head).encode(), np.uint8)
    return npz(path, tensorel=text, **arrays)


GOOD = {"pos1": np.array([0, 1, 2, 3]), "idx1": np.array([0, 1, 3]), "val": np.ones(3)}
BAD = {
    "descends": {"pos1": np.array([0, 2, 1, 3])},
    "too short": {"pos1": np.array([0, 3])},
    "past the end": {"pos1": np.array([0, 1, 2, 30])},
    "negative bound": {"pos1": np.array([-1, 1, 2, 3])},
    "floats": {"pos1": np.array([0.0, 1, 2, 3])},
    "out of range": {"idx1": np.array([0, 1, 4])},
    "negative index": {"idx1": np.array([0, 1, -1])},
    "matrix of indices": {"idx1": np.array([[0, 1, 3]])},
    "few values": {"val": np.ones(2)},
    "wrong dtype": {"val": np.ones(3, np.float32)},
    "twice": {"pos1": np.array([0, 2, 2, 3]), "idx1": np.array([1, 1, 3])},
    "text": {"val": np.array(["a", "b", "c"])},
}


def test_our_good_file_is_read(tmp_path: Path) -> None:
    assert read(ours(tmp_path / "x.npz", {}, **GOOD)).count == 3


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_of_ours(tmp_path: Path, case: str) -> None:
    path = ours(tmp_path / "x.npz", {}, **(GOOD | BAD[case]))
    with pytest.raises(StorageError, match=r"x\.npz"):
        read(path)


@pytest.mark.parametrize("missing", GOOD)
def test_missing_arrays_of_ours(tmp_path: Path, missing: str) -> None:
    rest = {k: v for k, v in GOOD.items() if k != missing}
    with pytest.raises(StorageError, match=missing):
        read(ours(tmp_path / "x.npz", {}, **rest))


@pytest.mark.parametrize(
    "header",
    [
        {"version": 99}, {"format": "nonsense"}, {"format": 3}, {"shape": [-3, 4]},
        {"shape": "3"}, {"shape": [3]}, {"shape": [2**70, 1]}, {"dtype": "object"},
        {"dtype": None}, {"fill": []}, {"fill": ["x"]}, {"fill": 0}, {"shape": [True, 4]},
        {"format": "csf(9)"}, {"format": "bsr(0,0)"},
    ],
    ids=str,
)
def test_bad_headers_of_ours(tmp_path: Path, header: dict[str, object]) -> None:
    with pytest.raises(StorageError, match=r"x\.npz"):
        read(ours(tmp_path / "x.npz", header, **GOOD))


@pytest.mark.parametrize("name", names())
def test_damaged_arrays_of_each_format(tmp_path: Path, name: str) -> None:
    """Random integers in place of the index arrays: refused, or a valid tensor, never a crash."""
    rng = np.random.default_rng(3)
    dense = fit(np.where(rng.random((6, 6)) < 0.4, 1.0, 0.0), name)
    if name == "bitmap":
        dense = dense.astype(bool)
    write(tmp_path / "x.npz", to_format(from_dense(dense), name))
    with np.load(tmp_path / "x.npz") as file:
        arrays = dict(file)
    for round_ in range(12):
        damaged = dict(arrays)
        key = sorted(arrays.keys() - {"tensorel"})[round_ % (len(arrays) - 1)]
        size = max(arrays[key].size + int(rng.integers(-1, 2)), 0)
        damaged[key] = rng.integers(-3, 40, size).astype(arrays[key].dtype)
        with contextlib.suppress(StorageError, MemoryLimitError):
            to_dense(read(npz(tmp_path / "y.npz", **damaged)))


@pytest.mark.parametrize(
    "change",
    [
        {"indptr": np.array([0, 2, 1, 3])}, {"indptr": np.array([0, 1, 2, 9])},
        {"indices": np.array([0, 1, 9])}, {"indices": np.array([0.5, 1, 2])},
        {"data": np.ones(2)}, {"shape": np.array([-3, 4])}, {"shape": np.array([3.0, 4])},
        {"format": np.array(b"xyz")}, {"data": np.array(["a"] * 3)}, {"shape": np.array([3, 4, 5])},
    ],
    ids=lambda c: "-".join(c),
)
def test_bad_scipy_files(tmp_path: Path, change: dict[str, np.ndarray]) -> None:
    good = {"format": np.array(b"csr"), "shape": np.array([3, 4]), "data": np.ones(3),
            "indices": np.array([0, 1, 3]), "indptr": np.array([0, 1, 2, 3])}
    assert read(npz(tmp_path / "g.npz", **good)).count == 3
    with pytest.raises(StorageError, match=r"x\.npz"):
        read(npz(tmp_path / "x.npz", **(good | change)))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (pytest.fail, ("unpickled",))

    np.save(tmp_path / "x.npy", np.array([Bomb()], object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", np.array([Bomb()], object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(StorageError, match="object"):
            read(tmp_path / name)


def header(text: str) -> bytes:
    raw = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x93NUMPY", b"not an array", header("{}"), header("[1]"), header("(" * 5000),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-2,)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999999,)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976, 16)}"),
        header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (0,)}"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (0,)}"),
        header("{'descr': 'zz', 'fortran_order': False, 'shape': ()}"),
        header("{'descr': '<f2', 'fortran_order': False, 'shape': (1,)}") + b"ab",
    ],
)
def test_damaged_npy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(StorageError, match=r"x\.npy"):
        read(tmp_path / "x.npy")


def test_booleans_other_than_0_and_1(tmp_path: Path) -> None:
    head = header("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}")
    (tmp_path / "x.npy").write_bytes(head + b"\x00\x07\x01")
    assert to_dense(read(tmp_path / "x.npy")).view(np.uint8).tolist() == [0, 1, 1]


def test_zip_bomb_is_refused_before_unpacking(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        head = header("{'descr': '|u1', 'fortran_order': False, 'shape': (50000000,)}")
        archive.writestr("a.npy", head + bytes(50_000_000))
    assert path.stat().st_size < 100_000
    with config.options(memory="1MB"), pytest.raises(MemoryLimitError, match=r"x\.npz"):
        read(path)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "s.npz"])
def test_random_damage(tmp_path: Path, name: str) -> None:
    """Flipped bytes and cut ends: an error of ours, or a tensor; nothing else."""
    stored = to_format(from_dense(np.eye(12)), "csr")
    write(tmp_path / name, stored, scipy=name == "s.npz")
    good = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(4)
    for _ in range(400):
        bad = bytearray(good[: int(rng.integers(1, len(good) + 1))])
        for at in rng.integers(0, len(bad), int(rng.integers(0, 4))):
            bad[at] = int(rng.integers(256))
        (tmp_path / name).write_bytes(bad)
        try:
            read(tmp_path / name)
        except (StorageError, MemoryLimitError) as error:
            assert name in str(error)


# -- dispatch ----------------------------------------------------------------------------------
def test_unknown_ending_lists_the_known(tmp_path: Path) -> None:
    for call in (lambda: read(tmp_path / "a.csv"),
                 lambda: write(tmp_path / "a.csv", from_dense(np.ones(2)))):
        with pytest.raises(StorageError) as caught:
            call()
        assert all(s in str(caught.value) for s in SUFFIXES)


def test_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        with pytest.raises(FileNotFoundError):
            read(tmp_path / f"none{suffix}")


def test_format_on_reading(tmp_path: Path) -> None:
    write(tmp_path / "a.NPY", from_dense(np.eye(3)))
    assert read(tmp_path / "a.NPY", "csc").format.name == "csc"
    with pytest.raises(StorageError, match="nonsense"):
        read(tmp_path / "a.NPY", "nonsense")
    with pytest.raises(TypeError_):
        read(tmp_path / "a.NPY", shape=(3, 3))


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write(tmp_path / "a.mtx", from_dense(np.eye(2)))
    before = (tmp_path / "a.mtx").read_bytes()
    with pytest.raises(StorageError):
        write(tmp_path / "a.mtx", from_dense(np.ones((2, 2, 2))))
    assert (tmp_path / "a.mtx").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.mtx"]


def test_npy_of_a_large_sparse_tensor_is_refused(tmp_path: Path) -> None:
    stored = from_coo([[0], [0]], [1.0], (10**6, 10**6), format="coo")
    with pytest.raises(MemoryLimitError, match="dense"):
        write(tmp_path / "a.npy", stored)


def test_npy_stream_is_numpys_own() -> None:
    from tensorel.io.npy import read_array

    stream = io.BytesIO()
    np.save(stream, np.arange(6).reshape(2, 3))
    stream.seek(0)
    assert read_array(stream, len(stream.getvalue()), "x").tolist() == [[0, 1, 2], [3, 4, 5]]
