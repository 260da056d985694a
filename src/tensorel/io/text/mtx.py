"""Matrix Market: ``.mtx`` and ``.mtx.gz``, coordinate and array.

Dtypes are SciPy's: real and double give float64, integer int64, unsigned-integer uint64, complex
complex128, and pattern float64 ones. Symmetric, skew-symmetric and hermitian files give the whole
matrix; entries that a coordinate file names twice are added up. Lines starting with ``%`` and
blank lines may stand anywhere; indices count from 1; line ends may be LF or CRLF.

Writing keeps every bit: floats are written with the fewest digits that read back the same.
"""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from tensorel import config
from tensorel.base import memory_regions
from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.io.guard import check_array, check_memory, is_justified
from tensorel.io.npy import AnyArray
from tensorel.io.text.pipelines import in_order
from tensorel.io.text.reader import Entries, Progress, Text, index_width, open_text, read_entries
from tensorel.io.text.writer import kind_of, write_entries
from tensorel.ir.nodes import DType
from tensorel.kernels.native.line_reader import Line
from tensorel.storage.convert import from_dense, pack, to_coo, to_dense, to_format
from tensorel.storage.entries import IndexArray, make_fill
from tensorel.storage.format import FormatLike
from tensorel.storage.ingest import Given, arrays_of, settle
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

_FIELDS = {
    "real": "real", "double": "real", "integer": "integer", "unsigned-integer": "unsigned",
    "complex": "complex", "pattern": "pattern",
}
_DTYPES: dict[str, DType] = {
    "real": np.dtype("float64"), "integer": np.dtype("int64"), "unsigned": np.dtype("uint64"),
    "complex": np.dtype("complex128"), "pattern": np.dtype("float64"),
}
MIN_THREADED_ENTRIES = 1 << 18  # entries that are worth a thread
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a file and its sizes; ``entries`` is None for arrays."""

    layout: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    entries: int | None

    @property
    def kind(self) -> str:
        return _FIELDS[self.field]

    @property
    def values(self) -> int:
        """Numbers that an array file holds."""
        m, n = self.shape
        if self.symmetry == "general":
            return m * n
        return n * (n - 1) // 2 if self.symmetry == "skew-symmetric" else n * (n + 1) // 2


def read_header(text: Text) -> Header:
    """The header, checked; the text is then at the first entry."""
    words = text.line().decode("latin1").lower().split()
    if not words or words[0] not in ("%%matrixmarket", "%matrixmarket"):
        raise text.fail("the file does not start with '%%MatrixMarket'", 1)
    if len(words) != 5 or words[1] != "matrix":
        raise text.fail(
            "the first line must be '%%MatrixMarket matrix <layout> <field> <symmetry>'", 1
        )
    layout, field, symmetry = words[2:]
    for name, word, known in (
        ("layout", layout, ("coordinate", "array")), ("field", field, tuple(_FIELDS)),
        ("symmetry", symmetry, _SYMMETRIES),
    ):
        if word not in known:
            raise text.fail(f"{name} {word!r} is unknown", 1, f"known are {', '.join(known)}")
    line = text.line()
    while line and (not line.strip() or line.lstrip().startswith(b"%")):
        line = text.line()
    sizes = _sizes(text, line, 3 if layout == "coordinate" else 2)
    header = Header(
        layout, field, symmetry, (sizes[0], sizes[1]),
        sizes[2] if layout == "coordinate" else None,
    )
    _check_header(text, header)
    return header


def _sizes(text: Text, line: bytes, count: int) -> list[int]:
    words = line.split()
    if not line:
        raise text.fail("the file ends before the line with the sizes", text.lines)
    if len(words) != count or not all(w.isdigit() and len(w) < 19 for w in words):
        names = "rows, columns and entries" if count == 3 else "rows and columns"
        raise text.fail(f"expected the numbers of {names}", text.lines)
    return [int(w) for w in words]


def _check_header(text: Text, header: Header) -> None:
    m, n = header.shape
    if header.symmetry != "general" and m != n:
        raise text.fail(f"a {header.symmetry} matrix must be square, not {m} x {n}", text.lines)
    if header.symmetry == "hermitian" and header.kind != "complex":
        raise text.fail("a hermitian matrix must be complex", 1)
    if header.kind == "pattern" and header.layout == "array":
        raise text.fail("an array cannot be a pattern", 1)
    if header.kind in ("pattern", "unsigned") and header.symmetry == "skew-symmetric":
        raise text.fail(f"a {header.field} matrix cannot be skew-symmetric", 1)


def read_mtx(
    path: str | os.PathLike[str], format: FormatLike | None = None,
    *, progress: Progress | None = None,
) -> Stored:
    """The matrix in a Matrix Market file: csr from a coordinate file, dense from an array.

    >>> read_mtx("a.mtx").format.name  # doctest: +SKIP
    'csr'
    """
    with open_text(path) as text:
        header = read_header(text)
        if header.layout == "array":
            return to_format(from_dense(_read_array(text, header, progress)), format or "dense")
        rank_two = Line(2, index_width(header.shape), header.kind)
        found = read_entries(
            text, rank_two, header.shape, comment=b"%", expected=header.entries,
            progress=progress,
        )
        rows, columns = found.columns
        values = _values(found, header)
        if header.symmetry != "general":
            rows, columns, values = _mirror(text, header, rows, columns, values)
    return _stored(rows, columns, values, header.shape, format or _natural(header, rows.size))


def head_of_mtx(path: str | os.PathLike[str]) -> tuple[tuple[int, int], DType, int]:
    """Shape, dtype and the number of entries of the matrix in a file."""
    with open_text(path) as text:
        header = read_header(text)
    count = header.values if header.entries is None else header.entries
    return header.shape, _DTYPES[header.kind], count


def _natural(header: Header, entries: int) -> str:
    """csr has a number for each row: where the rows are out of all proportion to what the file
    holds, dcsr, which has none for empty rows."""
    return "csr" if is_justified(8 * header.shape[0], 16 * entries) else "dcsr"


def _stored(
    rows: IndexArray, columns: IndexArray, values: AnyArray, shape: tuple[int, int],
    format: FormatLike,
) -> Stored:
    """The matrix; the indices are in range."""
    made = resolve(format, shape, values.dtype)
    given = Given((rows, columns), values, shape, make_fill(0, values.dtype), "sum")
    arrays = arrays_of(given, made)
    if arrays is None:
        return pack(settle(given), made)
    return Stored(made, shape, values.dtype, given.fill, arrays)


def _values(found: Entries, header: Header) -> AnyArray:
    if header.kind == "pattern":
        return np.ones(found.count)
    return found.words.view(_DTYPES[header.kind])


def _reflected(header: Header, values: AnyArray) -> AnyArray:
    """The values on the other side of the diagonal."""
    if header.symmetry == "skew-symmetric":
        return np.negative(values)
    return np.conjugate(values) if header.symmetry == "hermitian" else values


def _mirror(
    text: Text, header: Header, rows: IndexArray, columns: IndexArray, values: AnyArray
) -> tuple[IndexArray, IndexArray, AnyArray]:
    """The entries and, behind them, those on the other side of the diagonal."""
    given = rows.size
    off = rows != columns
    if header.symmetry == "skew-symmetric" and bool(np.any(values[~off] != 0)):
        at = int(rows[~off][np.flatnonzero(values[~off] != 0)[0]]) + 1
        raise StorageError(
            f"{text.where}: the matrix is declared skew-symmetric, but its diagonal entry "
            f"({at}, {at}) is not zero"
        )
    places = np.flatnonzero(off)
    each = values.dtype.itemsize + rows.dtype.itemsize + columns.dtype.itemsize
    check_memory((2 * given + places.size) * each, text.where, "the whole matrix")

    def doubled(pair: tuple[AnyArray, AnyArray]) -> Any:
        made = memory_regions.empty(given + places.size, pair[0].dtype)
        made[:given] = pair[0]
        np.take(pair[1], places, out=made[given:], mode="clip")
        return made

    pairs = ((values, values), (rows, columns), (columns, rows))
    workers = min(config.current().workers, 3) if given >= MIN_THREADED_ENTRIES else 0
    whole, down, across = (
        in_order(doubled, pairs, workers, lambda: None) if workers > 1 else map(doubled, pairs))
    if header.symmetry != "symmetric":
        whole[given:] = _reflected(header, whole[given:])
    return down, across, whole


def _read_array(text: Text, header: Header, progress: Progress | None) -> AnyArray:
    dtype = _DTYPES[header.kind]
    m, n = header.shape
    mirrored = header.symmetry != "general"  # then there are two masks and the values beside it
    check_array((m, n), dtype.itemsize * (1 + mirrored) + 2 * mirrored, text.where)
    line = Line(0, np.dtype(np.int32), header.kind)
    found = read_entries(
        text, line, (), comment=b"%", expected=header.values, progress=progress
    )
    values = _values(found, header)
    if header.symmetry == "general":
        return values.reshape(n, m).T
    # The file lists the lower triangle by columns: in the transpose, the upper one by rows.
    upper = np.triu(np.ones((n, n), bool), 1 if header.symmetry == "skew-symmetric" else 0)
    whole = np.zeros((n, n), dtype)
    whole[upper] = _reflected(header, values)
    whole.T[upper] = values
    return whole


# -- writing -----------------------------------------------------------------------------------
def write_mtx(stream: IO[bytes], stored: Stored, where: str) -> None:
    """Write a matrix: coordinate for sparse formats, array for dense ones.

    Matrix Market knows no booleans and no float32: they are written as integers and as the
    float64 of equal value.
    """
    if len(stored.shape) != 2:
        raise StorageError(
            f"{where}: Matrix Market holds matrices; this tensor has {len(stored.shape)} axes, "
            f"shape {stored.shape}",
            hint="write .tns or .npz",
        )
    kind = kind_of(stored.dtype)
    field = "unsigned-integer" if kind == "unsigned" else kind
    m, n = stored.shape
    if stored.format.is_dense:
        head = f"%%MatrixMarket matrix array {field} general\n{m} {n}\n"
        stream.write(head.encode())
        write_entries(stream, (), to_dense(stored).reshape(-1, order="F"))
        return
    check_zero_fill(stored, where, "Matrix Market")
    coo = to_coo(stored)
    head = f"%%MatrixMarket matrix coordinate {field} general\n{m} {n} {coo.count}\n"
    stream.write(head.encode())
    write_entries(stream, coo.coords, coo.values)


def check_zero_fill(stored: Stored, where: str, name: str) -> None:
    """Text files of coordinates have no place for another fill."""
    if stored.fill != 0:
        raise StorageError(
            f"{where}: {name} has no fill value; this tensor's is {stored.fill}",
            hint="write .npz, which keeps it",
        )
