"""Reading Matrix Market files: ours to coo and csr, SciPy's fast reader to the same."""

from __future__ import annotations

import gzip
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

import tensorel as tr
from suite import data
from suite.case import Peer, Problem, add

_NNZ = 5_000_000


def _arranged(order: str, scale: float) -> Any:
    """A matrix of 200,000 rows at full size, its entries listed in an order."""
    a = data.uniform(int(_NNZ * scale), per_row=25).tocoo()
    if order == "rows":
        return a
    mixed = np.random.default_rng(1).permutation(a.nnz)
    picked = np.lexsort((a.row, a.col)) if order == "columns" else mixed
    return sp.coo_array((a.data[picked], (a.row[picked], a.col[picked])), shape=a.shape)


def _file(name: str, order: str, field: str, symmetric: bool, scale: float) -> Path:
    """The file, made once per run of the suite."""
    folder = Path(os.environ.get(data.FOLDER) or tempfile.mkdtemp(prefix="tensorel-data-"))
    path = folder / f"{order}-{field}-{symmetric}-{scale}{name}"
    if path.exists():
        return path
    a = _arranged(order, scale)
    if symmetric:
        lower = a.row >= a.col
        a = sp.coo_array((a.data[lower], (a.row[lower], a.col[lower])), shape=a.shape)
    if field == "integer":
        a = sp.coo_array(((a.data * 1000).astype(np.int64), (a.row, a.col)), shape=a.shape)
    plain = path.with_name(f"{path.name}.plain.mtx")
    scipy.io.mmwrite(plain, a, field=field, symmetry="general")
    body = plain.read_bytes()
    plain.unlink()
    if symmetric:
        body = body.replace(b" general", b" symmetric", 1)
    path.write_bytes(gzip.compress(body, 4) if name.endswith(".gz") else body)
    return path


def _reading(
    format: str, name: str, order: str, field: str, symmetric: bool, scale: float
) -> Problem:
    path = _file(name, order, field, symmetric, scale)

    def scipys() -> Any:
        made = scipy.io.mmread(path, spmatrix=False)
        return made if format == "coo" else made.tocsr()

    # SciPy's coo stays as the file has it: ours is sorted.
    read = (lambda made: made.tocsr()) if format == "coo" else None
    return Problem(
        lambda: tr.read(path, format=format), (Peer("scipy", "mmread", scipys, read=read),),
        (np.empty(path.stat().st_size, np.uint8),), eager=True,
    )


_FILES = (
    ("rows", ".mtx", "rows", "real", False), ("random", ".mtx", "random", "real", False),
    ("columns", ".mtx", "columns", "real", False), ("integer", ".mtx", "rows", "integer", False),
    ("pattern", ".mtx", "rows", "pattern", False),
    ("symmetric", ".mtx", "columns", "real", True), ("gzip", ".mtx.gz", "rows", "real", False),
)
for _name, *_rest in _FILES:
    for _format in ("coo", "csr"):
        add(f"read {_format} {_name}", f'tr.read(path, format="{_format}")',
            partial(_reading, _format, *_rest))
