"""Damaged files of every kind, made from a seed, and what reading them must come to.

    python tests/io/damaged.py --count 10000 [--kind mtx] [--seed 0]

A file is a good one of a random tensor that was damaged: bits flipped, cut, bytes inserted,
removed, repeated or exchanged, numbers replaced by huge ones, fields of archives and headers
changed with and without their checksums, members doubled, bombs. Reading gives an error of ours or
a tensor; a tensor that an independent reader (NumPy, SciPy) also reads is the same. Nothing else is
raised, no warning is given, no file takes long, none makes us allocate much more than the limit.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import math
import random
import re
import signal
import struct
import sys
import tempfile
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

import tensorel as tr
from tensorel.errors import MemoryLimitError, StorageError, TensorelError
from tensorel.io.files import read
from tensorel.storage.convert import to_coo, to_dense
from tensorel.storage.stored import Stored

LIMIT = 64 << 20  # the memory limit under which files are read
ROOM = 256 << 20  # what a read may add to the process' addresses: the limit, threads, kernels
SECONDS = 20
NUMBERS = (0, 1, 2, 7, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1,
           2**63, 2**64 - 1)
TEXTS = (b"0", b"-1", b"1e999", b"nan", b"99999999999", b"9223372036854775807", b"1" * 400, b"0x10",
         b"4611686018427387904", b"1_0", b"1.5", b"", b"\xff", b"2147483648", b"1000000000", b"+1",
         b"999999999999999999", b"1 1", b"\n", b"%", b"#", b"complex", b"pattern", b"symmetric",
         b"skew-symmetric", b"hermitian", b"array", b"coordinate", b"integer")
Make = Callable[[random.Random], bytes]


# -- good files --------------------------------------------------------------------------------
def _dense(chance: random.Random, rank: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(chance.randrange(2**32))
    axes = chance.randrange(1, 4) if rank is None else rank
    shape = tuple(int(n) for n in rng.integers(0, 6, axes))
    dtype = chance.choice(["float64", "float32", "int64", "int8", "uint16", "bool", "complex128"])
    return np.asarray(rng.integers(0, 3, shape)).astype(dtype)


def _written(name: str, tensor: Any, **options: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        tr.write(Path(folder) / name, tensor, **options)
        return (Path(folder) / name).read_bytes()


def good_npy(chance: random.Random) -> bytes:
    made = io.BytesIO()
    order = chance.choice("CF")
    np.save(made, np.asarray(_dense(chance), order=order))  # type: ignore[call-overload]
    return made.getvalue()


def good_ours(chance: random.Random) -> bytes:
    dense = _dense(chance, 2 if chance.random() < 0.7 else None)
    names = ["coo", "csf", "dok", "dense", "trie", "hash", "bitmap", ";0;1", "0;1;"]
    if dense.ndim == 2:
        names += ["csr", "csc", "dcsr", "dcsc", "bsr(2,2)", "dia", "band", "csf(1,0)", ";0,1"]
    for name in chance.sample(names, len(names)):
        try:
            return _written("x.npz", tr.tensor(dense, format=name))
        except TensorelError:
            continue
    return _written("x.npz", tr.asarray(dense))


def good_scipy(chance: random.Random) -> bytes:
    dense = _dense(chance, 2).real.astype("float64")
    kind = chance.choice(["csr", "csc", "coo", "bsr", "dia"])
    try:
        matrix = scipy.sparse.csr_matrix(dense).asformat(kind)
        made = io.BytesIO()
        scipy.sparse.save_npz(made, matrix, compressed=chance.random() < 0.5)
        return made.getvalue()
    except ValueError:  # SciPy and empty shapes
        return good_scipy(chance)


def good_mtx(chance: random.Random) -> bytes:
    dense = _dense(chance, 2)
    symmetry = chance.choice([None, None, "symmetric", "skew-symmetric", "hermitian"])
    if symmetry and dense.dtype.kind in "fci" and min(dense.shape):
        n = min(dense.shape)
        square = dense[:n, :n] if symmetry == "hermitian" else dense[:n, :n].real
        square = square.astype("complex128" if symmetry == "hermitian" else "float64")
        mirrored = {"symmetric": square + square.T, "skew-symmetric": square - square.T,
                    "hermitian": square + square.conj().T}[symmetry]
        made = io.BytesIO()
        kept = scipy.sparse.coo_matrix(mirrored) if chance.random() < 0.7 else mirrored
        scipy.io.mmwrite(made, kept, symmetry=symmetry)
        return made.getvalue()
    return _written("x.mtx", tr.tensor(dense, format=chance.choice(["csr", "dense"])))


def good_tns(chance: random.Random) -> bytes:
    dense = _dense(chance)
    text = _written("x.tns", tr.tensor(dense.real.astype(float), format="coo"))
    return text if chance.random() < 0.5 else text.partition(b"\n")[2]


# -- damage to bytes ---------------------------------------------------------------------------
def _flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 5)):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data) + 1):]


def _insert(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.choice([chance.randbytes(chance.randrange(1, 9)), b"\0" * 40, b"9" * 30,
                                 b"\n" * 20, data[:64]])


def _remove(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    del data[at : at + chance.randrange(1, 40)]


def _repeat(data: bytearray, chance: random.Random) -> None:
    at, n = chance.randrange(len(data) + 1), chance.randrange(1, 200)
    data[at:at] = data[at : at + n] * chance.choice([1, 1, 2, 50])


def _exchange(data: bytearray, chance: random.Random) -> None:
    n = chance.choice([1, 2, 4, 8, 16])
    if len(data) > 2 * n:
        a, b = (chance.randrange(len(data) - n) for _ in range(2))
        data[a : a + n], data[b : b + n] = data[b : b + n], data[a : a + n]


def _number(data: bytearray, chance: random.Random) -> None:
    """A binary field of any width becomes another number."""
    code, size = chance.choice([("B", 1), ("H", 2), ("I", 4), ("Q", 8)])
    if len(data) >= size:
        at = chance.randrange(len(data) - size + 1)
        value = chance.choice(NUMBERS) & (2 ** (8 * size) - 1)
        data[at : at + size] = struct.pack("<" + code, value)


def _word(data: bytearray, chance: random.Random) -> None:
    """A number in text, or a word, becomes another."""
    found = list(re.finditer(rb"-?[0-9.]+|[a-zA-Z-]+", bytes(data[:4096])))
    if found:
        at = chance.choice(found)
        data[at.start() : at.end()] = chance.choice(TEXTS)


def _replace(data: bytearray, chance: random.Random) -> None:
    data[:] = chance.choice([b"", b"\0", chance.randbytes(200), data * 2, b"PK\5\6" + bytes(18),
                             b"\x93NUMPY", b"\x1f\x8b\x08", bytes(reversed(data))])


_BYTES = (_flip, _flip, _cut, _insert, _remove, _repeat, _exchange, _number, _number, _word, _word,
          _replace)


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        chance.choice(_BYTES)(made, chance)
    return bytes(made)


def damaged_text(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2])):
        chance.choice([_word, _word, _word, *_BYTES])(made, chance)
    return bytes(made)


# -- damage with sense -------------------------------------------------------------------------
def _array_bytes(array: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def _other_array(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """An array that is well formed and wrong."""
    flat = np.array(array)
    what = chance.randrange(6)
    if what == 0 and flat.dtype.kind in "iu" and flat.size:
        top = np.iinfo(flat.dtype).max
        flat.reshape(-1)[chance.randrange(flat.size)] = chance.choice(
            [0, top, top // 2, top - 1, 10**9 % top, 2**31 % top, np.iinfo(flat.dtype).min])
    elif what == 1 and flat.dtype.kind not in "SU":
        flat = flat.real.astype(chance.choice([
            "int8", "int32", "int64", "uint64", "float64", "bool", "complex64", "S3", ">i4", ">f8",
            "U2", "uint8"]))
    elif what == 2:
        flat = flat.reshape(-1)[: chance.randrange(flat.size + 1)]
    elif what == 3:
        flat = flat.reshape(chance.choice([(-1,), (-1, 1), (1, -1), (1, 1, -1)]))
    elif what == 4:
        flat = np.concatenate([flat.reshape(-1)] * 2)
    else:
        chance.shuffle(view := list(flat.reshape(-1)))
        flat = np.array(view, flat.dtype)
    return flat


def damaged_archive(data: bytes, chance: random.Random) -> bytes:
    """The archive packed anew, whole, with members that were changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(i.filename, archive.read(i)) for i in archive.infolist()]
    at = chance.randrange(len(members))
    name, content = members[at]
    what = chance.randrange(9) if chance.random() < 0.3 else chance.randrange(8)
    if what < 3:
        members[at] = name, _array_bytes(_other_array(np.load(io.BytesIO(content)), chance))
    elif what == 3:
        members[at] = name, damaged_bytes(content, chance)
    elif what == 4:
        del members[at]
    elif what == 5:
        members.append((chance.choice([name, "x", "../x", "", "shape.npy"]), content))
    elif what == 6:
        members[at] = chance.choice(["x.npy", "format.npy", "tensorel.npy", "pos1.npy"]), content
    elif what == 7:
        members[at] = name, _described(content, chance)
    else:
        head = {"descr": "|u1", "fortran_order": False, "shape": (20_000_000,)}
        members.append(("bomb.npy", _header(head) + bytes(20_000_000)))
    made = io.BytesIO()
    packing = chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED,
                             zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]) if what != 8 else 8
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", packing) as archive:
        warnings.simplefilter("ignore")  # two members of one name
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return made.getvalue() if chance.random() < 0.8 else damaged_bytes(made.getvalue(), chance)


def _described(content: bytes, chance: random.Random) -> bytes:
    """A JSON text of ours inside an array, or any array, with another word in it."""
    array = np.load(io.BytesIO(content))
    if array.dtype != np.uint8 or not array.size or array.reshape(-1)[0] != ord("{"):
        return damaged_bytes(content, chance)
    text = json.loads(array.tobytes())
    key = chance.choice(list(text))
    text[key] = chance.choice([
        None, [], {}, "csr", "dense", "dia", "band", "nonsense", "bsr(99999,1)", "tril", "zorder",
        [10**9, 10**9], [2**62], [10**9, 2], [2, 10**9], [1] * 70, [-1], ["0x0p+0"], ["nan"],
        "float64", "int8", 1, 2, 10**30, "dok", "csf(0,0)", "hash", [2**40, 3]])
    return _array_bytes(np.frombuffer(json.dumps(text).encode(), np.uint8))


def _header(items: dict[str, object]) -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, items)  # type: ignore[arg-type]
    return made.getvalue()


def damaged_npy(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.6:
        return damaged_bytes(data, chance)
    array = np.load(io.BytesIO(data))
    head: dict[str, object] = {
        "descr": chance.choice(
            [array.dtype.str, "<f8", "|O", ">i8", "<c16", "|b1", "|S9", "<M8[s]"]),
        "fortran_order": chance.random() < 0.5, "shape": array.shape}
    if chance.random() < 0.7:
        head["shape"] = tuple(chance.choice(NUMBERS) for _ in range(chance.choice([0, 1, 2, 5])))
        if chance.random() < 0.5:  # no cells, however long the other axes are
            head["shape"] = (*(chance.choice(NUMBERS[1:]) for _ in range(3)), 0)
            return _header(head)
    return _header(head) + array.tobytes()


def damaged_gzip(data: bytes, chance: random.Random) -> bytes:
    what = chance.random()
    if what < 0.4:
        return damaged_bytes(gzip.compress(data, 1, mtime=0), chance)
    if what < 0.9:
        packed = gzip.compress(damaged_text(data, chance), 1, mtime=0)
        return packed + chance.choice([b"", b"", b"x"])
    lines = data.split(b"\n")
    at = chance.randrange(len(lines) + 1)
    lines[at:at] = [chance.choice([b"9", b" ", b"%", b"1 ", b"\n", b"1 1 1\n"]) * 1_000_000]
    return gzip.compress(b"\n".join(lines), 1, mtime=0)


def _mixed(*ways: tuple[float, Callable[[bytes, random.Random], bytes]]
           ) -> Callable[[bytes, random.Random], bytes]:
    def damage(data: bytes, chance: random.Random) -> bytes:
        return chance.choices([w for _, w in ways], [p for p, _ in ways])[0](data, chance)

    return damage


# -- what must come of it ----------------------------------------------------------------------
def peer_npy(path: Path) -> np.ndarray:
    return np.load(path, allow_pickle=False)


def peer_scipy(path: Path) -> np.ndarray:
    found = scipy.sparse.load_npz(path)
    if max(found.shape, default=0) > 1000:
        raise ValueError
    if found.format in ("csr", "csc", "bsr"):
        found.check_format(full_check=True)
    return found.toarray()


def peer_mtx(path: Path) -> np.ndarray:
    text = path.read_bytes()
    text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
    if any(int(n) > 1000 for n in re.findall(rb"[0-9]{1,30}", text[:200])):
        raise ValueError
    found = scipy.io.mmread(io.BytesIO(text))
    return found if isinstance(found, np.ndarray) else found.toarray()


def _same(ours: Stored, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(np.array_equal(to_dense(ours), theirs, equal_nan=theirs.dtype.kind in "fc")
                    or np.allclose(to_dense(ours), theirs, equal_nan=True))


class Kind:
    """One reader: its files, how they are damaged, and a reader to compare with."""

    def __init__(self, name: str, good: Make, damage: Callable[[bytes, random.Random], bytes],
                 peer: Callable[[Path], np.ndarray] | None = None) -> None:
        self.name, self.good, self.damage, self.peer = name, good, damage, peer

    def try_one(self, seed: int, folder: Path) -> str:
        """Make, damage and read a file: what came of it."""
        chance = random.Random(f"{self.name} {seed}")
        path = folder / f"x.{self.name.rpartition(':')[2]}"
        path.write_bytes(self.damage(self.good(chance), chance))
        with watched():
            try:
                found = read(path)
            except (StorageError, MemoryLimitError) as error:
                assert path.name in str(error), error
                return "refused"
            used(found)
        return self._compared(found, path)

    def _compared(self, found: Stored, path: Path) -> str:
        cells = math.prod(found.shape)
        if self.peer is None or not 0 < cells <= 10**6:  # SciPy's mmread divides by the rows
            return "read"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = self.peer(path)
        except Exception:
            return "read"
        assert _same(found, theirs), f"{found.shape} {found.format.name}, they: {theirs.shape}"
        return "same"


def used(found: Stored) -> None:
    """A tensor that was read can be used."""
    coo = to_coo(found)
    assert all(c.size == coo.count and (not c.size or (c.min() >= 0 and c.max() < n))
               for c, n in zip(coo.coords, found.shape))


@contextmanager
def watched() -> Iterator[None]:
    """Warnings are errors, time is short, and addresses do not grow."""

    def late(*_: object) -> None:
        raise AssertionError(f"not done after {SECONDS} seconds of the processor")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    start = _memory()
    try:
        with warnings.catch_warnings(), tr.options(memory=LIMIT):
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    peak = _memory()["VmPeak"]
    grown = peak - max(start["VmPeak"], start["VmSize"] + ROOM)
    assert grown <= 0, f"{grown + ROOM:,} bytes were asked for"


def _memory() -> dict[str, int]:
    text = Path("/proc/self/status").read_text()
    return {n: int(v) * 1024 for n, v in re.findall(r"(Vm\w+):\s+(\d+) kB", text)}


# -- databases ---------------------------------------------------------------------------------
class DatabaseKind:
    """The folder of a database, one of whose files is damaged."""

    name = "database"

    def try_one(self, seed: int, folder: Path) -> str:
        chance = random.Random(f"database {seed}")
        path = folder / f"db{seed}"
        dense = _dense(chance, 2)
        with tr.connect(path) as db:
            db["A"] = tr.tensor(dense, format=chance.choice(["csr", "coo", "dense", "dok"]))
        files = [*path.glob("catalog-*"), *path.glob("catalog-*"), *(path / "data").iterdir(),
                 path / "tensorel-database"]
        file = chance.choice(sorted(files, key=lambda f: f.name[-69:]))  # tags are random
        data = file.read_bytes()
        if file.parent == path and file.name != "tensorel-database" and chance.random() < 0.6:
            file.write_bytes(_other_catalog(data, chance))
        elif file.suffix == ".json" and file.parent != path and chance.random() < 0.6:
            _other_statistics(path, file, chance)
        else:
            file.write_bytes(damaged_bytes(data, chance))
        with watched():
            try:
                with tr.connect(path, read_only=True) as db:
                    db.verify()
                    for tensor in db.tensors().values():
                        used(tensor.stored)
                return "read"
            except (StorageError, MemoryLimitError):
                return "refused"


def _other_value(value: Any, chance: random.Random) -> Any:
    """A part of a JSON text exchanged for something else."""
    if isinstance(value, (dict, list)) and value and chance.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = chance.choice(keys)
        value[key] = _other_value(value[key], chance)
        return value
    return chance.choice([None, [], {}, "", "x", -1, 0, 1, 3, 10**9, 2**62, 2**70, 1.5, True, "csr",
                          "dense", "dia", "<f8", "float32", [1], [10**9, 10**9], ["0"], "0" * 64])


def _sealed(body: bytes) -> bytes:
    head = {"tensorel": 2, "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(head).encode() + b"\n" + body


def _other_catalog(data: bytes, chance: random.Random) -> bytes:
    """A catalog with a right checksum that says something else."""
    body = data.partition(b"\n")[2]
    if chance.random() < 0.2:
        return _sealed(damaged_text(body, chance))
    return _sealed(json.dumps(_other_value(json.loads(body), chance)).encode())


def _other_statistics(path: Path, file: Path, chance: random.Random) -> None:
    """Statistics that say something else under the checksum of what they say."""
    found = json.loads(file.read_bytes())
    if chance.random() < 0.2:
        text = zlib.compress(bytes(200_000_000), 9) if chance.random() < 0.2 else b"nothing"
        found["vectors"] = [[3, ["<i8", [1], base64.b64encode(text).decode()], None]]
    text = json.dumps(_other_value(found, chance)).encode()
    digest = hashlib.sha256(text).hexdigest()
    before = file.name[-69:-5]
    file.rename(file.with_name(file.name.replace(before, digest)))
    file.with_name(file.name.replace(before, digest)).write_bytes(text)
    catalog = max(path.glob("catalog-*"))
    catalog.write_bytes(_sealed(catalog.read_bytes().partition(b"\n")[2].replace(
        before.encode(), digest.encode())))


KINDS: dict[str, Kind | DatabaseKind] = {k.name: k for k in (
    Kind("npy", good_npy, damaged_npy, peer_npy),
    Kind("npz", good_ours, _mixed((0.4, damaged_bytes), (0.6, damaged_archive))),
    Kind("scipy:npz", good_scipy, _mixed((0.4, damaged_bytes), (0.6, damaged_archive)), peer_scipy),
    Kind("mtx", good_mtx, damaged_text, peer_mtx),
    Kind("mtx.gz", good_mtx, damaged_gzip, peer_mtx),
    Kind("tns", good_tns, damaged_text),
    Kind("tns.gz", good_tns, damaged_gzip),
    DatabaseKind(),
)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.kind or KINDS:
        outcomes: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(arguments.seed, arguments.seed + arguments.count):
                try:
                    outcomes[KINDS[name].try_one(seed, Path(folder))] += 1
                except Exception as error:
                    outcomes["failed"] += 1
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    at = f"{last.filename}:{last.lineno}"
                    reason = f"{type(error).__name__}: {str(error)[:80]} ({at})"
                    reasons[reason] += 1
                    if reasons[reason] == 1:
                        print(f"  {name} {seed}: {reason}", flush=True)
        print(name, dict(outcomes), flush=True)
        failed += outcomes["failed"]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
