"""Files that are damaged, that lie about their sizes, or that the system refuses."""

from __future__ import annotations

import errno
import gzip
import os
import random
import resource
import struct
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from damaged import KINDS, LIMIT, watched

import tensorel as tr
from tensorel.errors import (
    FileError,
    FileNotFoundError_,
    MemoryLimitError,
    PermissionError_,
    StorageError,
    TensorelError,
)
from tensorel.io.files import SUFFIXES, read, write
from tensorel.storage.convert import from_coo, from_dense, to_dense, to_format

COUNTS = {"database": 60, "npz": 150, "scipy:npz": 150, "mtx.gz": 100, "tns.gz": 100}


@pytest.mark.parametrize("name", list(KINDS))
def test_damaged_files(tmp_path: Path, name: str) -> None:
    """The first of the 10,000 that ``tests/io/damaged.py`` tries."""
    found: Counter[str] = Counter()
    for seed in range(COUNTS.get(name, 250)):
        found[KINDS[name].try_one(seed, tmp_path)] += 1
    assert found["refused"] > 20, found
    assert found["refused"] < found.total() or name == "database", "some damage is none"


# -- what a file claims ------------------------------------------------------------------------
def scipy_file(path: Path, kind: str, shape: tuple[int, int], **arrays: Any) -> Path:
    np.savez(path, format=np.array(kind.encode()), shape=np.asarray(shape), **arrays)
    return path


def test_a_few_bytes_of_diagonals(tmp_path: Path) -> None:
    """1,300 bytes asked for 16 GiB: bounds for each of a billion rows."""
    for shape in ((2**30, 3), (3, 2**30)):
        path = scipy_file(tmp_path / "x.npz", "dia", shape, data=np.ones((1, 3)),
                          offsets=np.zeros(1, np.int32))
        assert path.stat().st_size < 1500
        with tr.options(memory="64GB"), pytest.raises(StorageError, match=r"x\.npz.*\n.*'coo'"):
            read(path)
        with watched():
            assert read(path, "coo").count == 3
    small = scipy_file(tmp_path / "x.npz", "dia", (4, 4), data=np.ones((1, 4)),
                       offsets=np.zeros(1, np.int32))
    assert read(small).format.name == "dia"


@pytest.mark.measured
def test_rows_out_of_all_proportion(tmp_path: Path) -> None:
    """A matrix of 10^15 rows and two entries is read without a number for each row."""
    (tmp_path / "x.mtx").write_text(
        f"%%MatrixMarket matrix coordinate real general\n{10**15} 3 2\n1 1 5\n{10**15} 3 7\n")
    with watched():
        found = read(tmp_path / "x.mtx")
    assert found.format.name == "dcsr" and found.count == 2
    with tr.options(memory=LIMIT), pytest.raises(MemoryLimitError):
        read(tmp_path / "x.mtx", "csr")
    write(tmp_path / "y.mtx", to_format(from_dense(np.eye(3)), "csr"))
    assert read(tmp_path / "y.mtx").format.name == "csr"


def sizeable(path: Path) -> None:
    """A file whose tensor takes some 20 MB."""
    suffix = path.name.partition(".")[2]
    rng = np.random.default_rng(0)
    cells = np.sort(rng.choice(2000 * 2000, 600_000, replace=False))
    matrix = from_coo(list(np.divmod(cells, 2000)), rng.random(cells.size), (2000, 2000),
                      format="csr")
    if suffix == "npy":
        np.save(path, rng.random((1600, 1600)))
    elif suffix == "sym.mtx":
        pairs = zip(*np.divmod(cells[::2], 2000))
        text = "".join(f"{i + 1} {j + 1} 1\n" for i, j in pairs if i >= j)
        head = "%%MatrixMarket matrix coordinate integer symmetric\n"
        path.write_text(f"{head}2000 2000 {text.count(chr(10))}\n{text}")
    elif suffix == "array.mtx":
        values = "1\n" * (1600 * 1601 // 2)
        path.write_text(f"%%MatrixMarket matrix array real symmetric\n1600 1600\n{values}")
    elif suffix == "dia.npz":
        scipy_file(path, "dia", (400_000, 400_000), data=np.ones((3, 400_000)),
                   offsets=np.arange(3))
    else:
        write(path, matrix, scipy=suffix == "scipy.npz")


def peak_of(path: Path, limit: int) -> int:
    """How much memory the read took at its peak, whether it came to an end or was refused."""
    def resident(name: str) -> int:
        text = Path("/proc/self/status").read_text()
        return int(text.partition(f"{name}:")[2].split()[0]) * 1024

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    try:
        with tr.options(memory=limit):
            read(path)
    except MemoryLimitError:
        return -1
    return resident("VmHWM") - before


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.scipy.npz", "x.dia.npz", "x.mtx", "x.tns",
                                  "x.sym.mtx", "x.array.mtx", "x.mtx.gz", "x.tns.gz"])
def test_reading_keeps_the_limit(tmp_path: Path, name: str) -> None:
    """A read takes about the limit, or is refused; blocks of text and threads come on top."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the system does not measure peaks")
    sizeable(tmp_path / name)
    read(tmp_path / name)
    peaks = [peak_of(tmp_path / name, limit << 20) for limit in (2, 8, 16, 24, 48, 256)]
    assert peaks[0] == -1 and peaks[-1] >= 0, peaks
    for limit, peak in zip((2, 8, 16, 24, 48), peaks):
        assert peak <= (limit + 40) << 20, (limit, peak >> 20)


@pytest.mark.parametrize("kind", ["real", "complex", "integer", "pattern"])
def test_lines_that_lack_fields(tmp_path: Path, kind: str) -> None:
    """Short lines must not make more entries than there is room for."""
    values = {"real": 1, "complex": 2, "integer": 1, "pattern": 0}[kind]
    for fields in range(2 + values):
        body = " ".join(["1"] * fields)
        text = f"%%MatrixMarket matrix coordinate {kind} general\n9 9 50000\n" + f"{body}\n" * 50000
        (tmp_path / "x.mtx").write_text(text + "%" * 500_000 + "\n")
        (tmp_path / "x.mtx.gz").write_bytes(gzip.compress((tmp_path / "x.mtx").read_bytes()))
        for name in ("x.mtx", "x.mtx.gz"):
            with pytest.raises(StorageError, match=r"line 3: .*missing|ends after 0 of"):
                read(tmp_path / name)


def test_short_lines_of_a_tensor(tmp_path: Path) -> None:
    (tmp_path / "x.tns").write_text("1 1 1 1 2.5\n" + "1 1 1 1\n" * 300_000)
    with pytest.raises(StorageError, match="line 2: the value is missing"):
        read(tmp_path / "x.tns")


def test_archives_that_lie(tmp_path: Path) -> None:
    """Sizes that no archive of so few bytes can have."""
    path = tmp_path / "x.npz"
    np.savez(path, np.zeros(3))
    good = path.read_bytes()
    at = good.rindex(b"PK\1\2")
    claim = 2**31 - 2
    for size in (20, 24):  # packed and unpacked, in the central directory
        bad = bytearray(good)
        bad[at + size : at + size + 4] = struct.pack("<I", claim)
        path.write_bytes(bad)
        with watched(), tr.options(memory="64GB"), pytest.raises(StorageError, match=r"x\.npz"):
            read(path)
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(path, "w", packing) as archive:
            archive.writestr("a.npy", bytes(10_000_000))
        with watched(), pytest.raises(StorageError, match="declares more data"):
            read(path)


def test_members_that_share_their_bytes(tmp_path: Path) -> None:
    """A thousand names for the same packed zeros."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(1_000_000))
        first = archive.infolist()[0]
        for k in range(500):
            other = zipfile.ZipInfo(f"b{k}.npy")
            for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                setattr(other, name, getattr(first, name))
            archive.filelist.append(other)
    with watched(), pytest.raises(StorageError, match="declares more data"):
        read(path)


def test_headers_of_other_writers(tmp_path: Path) -> None:
    """The header of an array may be written in other ways than NumPy's."""
    data = np.arange(6.0).reshape(2, 3)
    for text in ("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
                 '{"shape": (2,3), "fortran_order": False, "descr": "<f8"}',
                 "{'descr':'f8','fortran_order':False,'shape':(2L, 3L)}",
                 "{ 'descr' : '=f8' , 'shape' : ( 2 , 3 ) , 'fortran_order' : False , } \n",
                 "{'descr': 'float64', 'fortran_order': False, 'shape': (2, 3,)}"):
        raw = text.encode()
        (tmp_path / "x.npy").write_bytes(
            b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + data.tobytes())
        np.testing.assert_array_equal(to_dense(read(tmp_path / "x.npy")), data)


# -- refusals of the system --------------------------------------------------------------------
def test_what_the_system_refuses_to_read(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        with pytest.raises(FileNotFoundError_, match="No such file") as caught:
            read(tmp_path / f"none{suffix}")
        assert isinstance(caught.value, (TensorelError, FileNotFoundError))
        assert caught.value.errno == errno.ENOENT and caught.value.filename
        (tmp_path / f"folder{suffix}").mkdir()
        with pytest.raises(FileError, match="Is a directory"):
            read(tmp_path / f"folder{suffix}")
        with pytest.raises(TensorelError):
            write(tmp_path / "none" / f"x{suffix}", from_dense(np.eye(2)))
    error: Any = FileError.of(PermissionError(errno.EACCES, "Permission denied", "x"), "no")
    assert isinstance(error, PermissionError_) and isinstance(error, PermissionError)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_full_disks(tmp_path: Path, suffix: str) -> None:
    """The old file stays, nothing else is left, and the error says what is wrong."""
    rng = np.random.default_rng(0)
    path = tmp_path / f"x{suffix}"
    write(path, from_dense(np.eye(2)))
    before = path.read_bytes()
    large = from_coo(rng.permutation(40_000)[None, :].repeat(2, 0), rng.random(40_000),
                     (40_000, 40_000), format="coo") if suffix != ".npy" else from_dense(
                         rng.random((200, 200)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(FileError) as caught:
            write(path, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG and caught.value.hint
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]
    full = tmp_path / f"full{suffix}"
    full.symlink_to("/dev/full")
    with pytest.raises(FileError, match=r"full(.|\n)*the disk is full") as caught:
        write(full, large)
    assert caught.value.errno == errno.ENOSPC


def test_memory_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tensorel.io.npy.np.empty", no_memory)
    with pytest.raises(MemoryLimitError, match="exhausted"):
        read(tmp_path / "x.npy")


def test_errors_of_the_caller_stay_their_own(tmp_path: Path) -> None:
    """What a user's function for progress raises is not damage of the file."""
    write(tmp_path / "x.mtx", to_format(from_dense(np.eye(3)), "csr"))

    def stop(done: int, size: int) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough") as caught:
        read(tmp_path / "x.mtx", progress=stop)
    assert not isinstance(caught.value, TensorelError)


def test_the_same_files_from_the_same_seed(tmp_path: Path) -> None:
    kind: Any = KINDS["scipy:npz"]
    made = [kind.damage(kind.good(chance), chance)
            for chance in (random.Random("5"), random.Random("5"))]
    assert made[0] == made[1]
