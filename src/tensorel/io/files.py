"""Reading and writing of files, by the ending of the name."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from tensorel.errors import StorageError, TypeError_
from tensorel.io.guard import telling
from tensorel.io.npy import read_npy, write_npy
from tensorel.io.npz import read_npz, write_npz
from tensorel.io.text.mtx import read_mtx, write_mtx
from tensorel.io.text.reader import Progress
from tensorel.io.text.tns import read_tns, write_tns
from tensorel.storage.convert import to_format
from tensorel.storage.format import FormatLike
from tensorel.storage.stored import Stored

#: The endings that are read and written.
SUFFIXES = (".npy", ".npz", ".mtx", ".mtx.gz", ".tns", ".tns.gz")


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The ending that decides, in lower case."""
    name = os.path.basename(os.fspath(path)).lower()
    found = [s for s in SUFFIXES if name.endswith(s)]
    if not found:
        raise StorageError(
            f"{os.fspath(path)}: the ending of the name says no known kind of file",
            hint=f"known endings are {', '.join(SUFFIXES)}",
        )
    return found[-1]


def read(
    path: str | os.PathLike[str], format: FormatLike | None = None,
    *, shape: Sequence[int] | None = None, progress: Progress | None = None,
) -> Stored:
    """The tensor in a file, in the given format or the one natural for the file.

    .npy gives dense; .npz the format it was written in; .mtx csr, or dcsr where nearly all rows are
    empty (dense for array files); .tns coo. ``shape`` is for .tns, which does not say its own.

    >>> read("a.mtx", format="csc").format.name  # doctest: +SKIP
    'csc'
    """
    suffix = suffix_of(path)
    if shape is not None and not suffix.startswith(".tns"):
        raise TypeError_(f"{os.fspath(path)}: a shape is given only for .tns files")
    with telling(os.fspath(path), "read"):
        if suffix.startswith(".mtx"):
            return read_mtx(path, format, progress=progress)
        if suffix.startswith(".tns"):
            return read_tns(path, format, shape=shape, progress=progress)
        if suffix == ".npz":
            return read_npz(path, format)
        found = read_npy(path)
        return found if format is None else to_format(found, format)


def write(path: str | os.PathLike[str], stored: Stored, *, scipy: bool = False) -> None:
    """Write a tensor; the file appears whole or not at all.

    ``scipy`` writes an .npz as ``scipy.sparse.load_npz`` reads it (csr, csc, coo, bsr, dia).

    >>> write("a.npz", stored)  # doctest: +SKIP
    """
    suffix, where = suffix_of(path), os.fspath(path)
    if scipy and suffix != ".npz":
        raise TypeError_(f"{where}: scipy=True is for .npz files")
    with telling(where, "written"), _replacing(Path(path)) as raw:
        if suffix.endswith(".gz"):
            with gzip.GzipFile("", "wb", 4, raw, mtime=0) as packed:
                _write(suffix, cast(IO[bytes], packed), stored, where, scipy)
        else:
            _write(suffix, raw, stored, where, scipy)


def _write(suffix: str, stream: IO[bytes], stored: Stored, where: str, scipy: bool) -> None:
    if suffix == ".npy":
        write_npy(stream, stored, where)
    elif suffix == ".npz":
        write_npz(stream, stored, where, scipy=scipy)
    elif suffix.startswith(".mtx"):
        write_mtx(stream, stored, where)
    else:
        write_tns(stream, stored, where)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file beside ``path`` that takes its place when all went well."""
    if path.exists() and not path.is_file():  # a pipe or a device
        with path.open("wb") as stream:
            yield stream
        return
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with part.open("xb") as stream:
            yield stream
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
