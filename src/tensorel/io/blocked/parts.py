"""Folders of parts: each block is a file ``.npy``, ``.npz`` or ``.mtx``.

A folder that Tensorel writes has a manifest, ``tensorel-parts.json``:

    {"version": 1, "shape": [20, 5], "dtype": "float64", "fill": ["0x0.0p+0"],
     "edges": [[0, 10, 20], [0, 5]], "parts": {"0-0": ["part-0-0.npy", 50]}}

``parts`` names the file of each block and says how many entries it stores; blocks that are not
named are all fill. Other folders are read by the names of their files, which end with the place of
the block along each axis: ``x-0-0.npy``, ``x-0-1.npy``, ... or, of matrices cut into strips of
rows, ``rows.0.npz``, ``rows.1.npz``, .... They count from 0 or from 1, and none may be missing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from tensorel.algebra.ops import DTYPES, check_dtype
from tensorel.base.records import dataclass
from tensorel.errors import ShapeError, StorageError
from tensorel.io import files
from tensorel.io.blocked.named_parts import by_names
from tensorel.io.blocked.replacing import check_free, new_folder
from tensorel.io.blocked.source import (
    About,
    BlockSource,
    Edges,
    Key,
    Put,
    Tile,
    not_there,
    sizes_of,
    steps,
)
from tensorel.io.guard import telling
from tensorel.io.npy import is_shape
from tensorel.io.npz import fill_texts, fill_value
from tensorel.storage import convert
from tensorel.storage.stored import Stored

MANIFEST = "tensorel-parts.json"
KINDS = ("npy", "npz", "mtx")
VERSION = 1
_MAX_MANIFEST_BYTES = 1 << 30


def is_parts(path: str) -> bool:
    """Whether the path is, or is to be, a folder of parts."""
    return path.endswith(os.sep) or path.lower().endswith(".parts") or os.path.isdir(path)


# -- reading --------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, slots=True)
class PartReader:
    """Reads parts at a site. ``names``: the file of each block; None: it is all fill. ``cast``:
    the manifest says the dtype."""

    folder: str
    names: np.ndarray[Any, np.dtype[np.object_]]
    edges: tuple[Edges, ...]
    about: About
    cast: bool

    def __call__(self, key: Key) -> Stored:
        shape = tuple([int(e[k + 1] - e[k]) for e, k in zip(self.edges, key)])
        name = self.names[key]
        if name is None:
            return convert.empty_result(shape, self.about.dtype, self.about.fill, "coo")
        path = os.path.join(self.folder, name)
        try:
            found = files.read(path)
        except FileNotFoundError as error:
            raise not_there(path, error) from error
        if name.endswith(".mtx") and self.cast and found.dtype != self.about.dtype:
            coo = convert.to_coo(found)  # the text says no widths of numbers
            found = convert.from_coo(coo.coords, coo.values.astype(self.about.dtype), shape,
                                     format=found.format)
        if found.shape != shape or found.dtype != self.about.dtype:
            raise StorageError(
                f"{path} has shape {found.shape} and dtype {found.dtype.name}; the part {key} of "
                f"this folder has shape {shape} and dtype {self.about.dtype.name}",
                hint="the folder holds parts of several tensors, or was changed")
        return found


def source(path: str) -> BlockSource:
    """The blocks of a folder. The manifest is read, or the heads of all files."""
    with telling(path, "read"):
        names = os.listdir(path)
        if MANIFEST in names:
            where = os.path.join(path, MANIFEST)
            about, edges, files_, counts = _from_manifest(_manifest(where), where)
            _check_there(path, [n for n in files_.ravel().tolist() if n is not None], set(names))
        else:
            found = by_names(path, names)
            about, edges, files_, counts = (
                About(found.shape, found.dtype, found.fill), found.edges, found.names, found.stored)
    return BlockSource(PartReader(path, files_, edges, about, MANIFEST in names), edges,
                       about.dtype, about.fill, counts)


def _check_there(path: str, wanted: Sequence[str], there: set[str]) -> None:
    missing = [n for n in wanted if n not in there]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise StorageError(f"{path} lacks the parts {', '.join(missing[:3])}{more}",
                           hint="the folder was not copied whole, or files were removed")


def _manifest(where: str) -> dict[str, Any]:
    if os.path.getsize(where) > _MAX_MANIFEST_BYTES:
        raise _damaged(where)
    with open(where, "rb") as stream:
        try:
            found = json.load(stream)
        except (ValueError, RecursionError) as error:
            raise _damaged(where) from error
    if not isinstance(found, dict):
        raise _damaged(where)
    if found.get("version") != VERSION:
        raise StorageError(f"{where} has version {found.get('version')!r}; this tensorel reads "
                           f"{VERSION}", hint="update tensorel")
    return found


def _damaged(where: str) -> StorageError:
    return StorageError(f"{where} is damaged", hint="restore the folder from a copy")


def _from_manifest(found: dict[str, Any], where: str) -> tuple[About, tuple[Edges, ...], Any, Any]:
    shape, cut, parts = (found.get(k) for k in ("shape", "edges", "parts"))
    if not isinstance(shape, list) or not is_shape(shape) or not isinstance(cut, list) \
            or not isinstance(parts, dict) or len(cut) != len(shape) \
            or found.get("dtype") not in [d.name for d in DTYPES]:
        raise _damaged(where)
    edges = tuple([_edges(e, n, where) for e, n in zip(cut, shape)])
    grid = tuple([len(e) - 1 for e in edges])
    if prod(grid) > max(len(parts), 1) << 20:
        raise _damaged(where)
    names = np.full(grid, None, object)
    counts = np.zeros(grid)
    for text, about in parts.items():
        key = _key(text)
        if key is None or len(key) != len(grid) or any(k >= n for k, n in zip(key, grid)) \
                or not isinstance(about, list) or len(about) != 2 \
                or not isinstance(about[0], str) or os.path.basename(about[0]) != about[0] \
                or type(about[1]) is not int:
            raise _damaged(where)
        names[key], counts[key] = about
    dtype = check_dtype(found["dtype"])
    return About(tuple(shape), dtype, fill_value(found.get("fill"), dtype, where)), edges, \
        names, counts


def _edges(given: object, extent: int, where: str) -> Edges:
    if not isinstance(given, list) or len(given) < 2 or not is_shape(given):
        raise _damaged(where)
    found = np.array(given, np.int64)
    if found[0] or found[-1] != extent or ((np.diff(found) < 1).any() and len(found) > 2):
        raise _damaged(where)
    return found


def _key(text: str) -> Key | None:
    words = text.split("-") if text else []
    return tuple(map(int, words)) if all(w.isdigit() and len(w) < 19 for w in words) else None


# -- writing --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes a part at the site that has it. Gives its key, file and entries; None if it is all
    fill. ``kind``: the ending of files; None: .npy of dense blocks, .npz of sparse ones."""

    folder: str
    kind: str | None

    def __call__(self, key: Key, block: Stored | None) -> tuple[str, str, int] | None:
        if block is None:
            return None
        kind = self.kind or ("npy" if block.format.is_dense else "npz")
        text = "-".join(map(str, key))
        name = f"part-{text}.{kind}" if text else f"part.{kind}"
        if not os.path.isdir(self.folder):
            raise not_there(self.folder, FileNotFoundError(2, "No such file or directory"))
        files.write(os.path.join(self.folder, name), block)
        return text, name, int(block.count)


@dataclass(frozen=True, eq=False, slots=True)
class FolderWriter:
    """The parts of one tensor, and their manifest."""

    path: str
    about: About
    sizes: list[int] | None
    kind: str | None
    edges: list[Any]

    def cut(self, edges: Sequence[Edges]) -> tuple[tuple[Edges, ...], Put]:
        found = tuple(edges) if self.sizes is None else tuple(
            [steps(n, s) for n, s in zip(self.about.shape, self.sizes)])
        self.edges[:] = [e.tolist() for e in found]
        return found, PartWriter(self.path, self.kind)

    def finish(self, told: Sequence[Any]) -> None:
        parts = {key: [name, count] for key, name, count in [t for t in told if t is not None]}
        text = json.dumps({
            "version": VERSION, "shape": list(self.about.shape), "dtype": self.about.dtype.name,
            "fill": fill_texts(self.about.fill), "edges": self.edges, "parts": parts})
        with open(os.path.join(self.path, MANIFEST), "x", encoding="utf-8") as stream:
            stream.write(text)


def _is_ours(path: str) -> bool:
    """Whether a folder has a manifest, and nothing that it does not name."""
    names = set(os.listdir(path))
    if MANIFEST not in names:
        return False
    parts = _manifest(os.path.join(path, MANIFEST)).get("parts")
    known = {p[0] for p in parts.values() if isinstance(p, list) and p} \
        if isinstance(parts, dict) else set()
    return names <= known | {MANIFEST}


@contextmanager
def writing(path: str, about: About, tile: Tile, overwrite: bool, kind: str | None
            ) -> Iterator[FolderWriter]:
    """A new folder of parts; it appears whole or not at all."""
    if kind is not None and kind not in KINDS:
        raise StorageError(f"{path}: parts of kind {kind!r} are not known",
                           hint=f"known are {', '.join(KINDS)}")
    if kind == "mtx" and (len(about.shape) != 2 or about.fill != 0):
        raise ShapeError(f"{path}: .mtx holds matrices with fill 0, not shape {about.shape}",
                         hint="write parts of kind npz")
    target = path.rstrip(os.sep) or path
    check_free(target, overwrite, _is_ours, "a folder of parts that Tensorel wrote")
    sizes = sizes_of(tile, about.shape, path)
    with new_folder(target) as folder:
        yield FolderWriter(folder, about, sizes, kind, [])
