"""One tensor of a database folder for processes that read parts of it by themselves."""

from __future__ import annotations

import os

import numpy as np

from tensorel.algebra.ops import check_dtype
from tensorel.base.records import dataclass
from tensorel.catalog import marker, parts
from tensorel.catalog.folder import Folder
from tensorel.catalog.records import Entry
from tensorel.errors import KeyError_, StorageError
from tensorel.io.blocked.source import BlockSource
from tensorel.io.npz import fill_value
from tensorel.storage.stored import Stored


@dataclass(frozen=True, slots=True)
class Mapped:
    """Gives a tensor over mapped files. ``entry``: which files; they are never changed, so all
    who read see the same commit."""

    path: str
    entry: Entry

    def __call__(self, key: tuple[int, ...]) -> Stored:
        folder = Folder(self.path, read_only=True)
        try:
            return folder.load(self.entry)
        finally:
            folder.close()


@dataclass(frozen=True, slots=True)
class MappedPart:
    """Gives a block of a tensor in parts, over mapped files."""

    path: str
    entry: Entry

    def __call__(self, key: tuple[int, ...]) -> Stored:
        folder = Folder(self.path, read_only=True)
        try:
            return folder.part(self.entry, key)
        finally:
            folder.close()


def is_database(path: str) -> bool:
    """Whether a folder is a database."""
    return os.path.isfile(os.path.join(path, marker.NAME))


def tensor_source(path: str, name: str) -> BlockSource:
    """The tensor of that name: nothing of it is read before somebody needs a part."""
    if not is_database(path):
        raise StorageError(f"{path} is no database, which name={name!r} is looked up in",
                           hint="without name=, a Zarr array or a folder of parts is read")
    folder = Folder(path, read_only=True)
    try:
        tensors = folder.current().tensors
        if name not in tensors:
            raise KeyError_(f"{path} has no tensor {name!r}; it has {shown(list(tensors))}")
        entry = tensors[name]
    finally:
        folder.close()
    if entry.parts is not None:
        return parts.source_of(entry, MappedPart(os.path.abspath(path), entry), path)
    dtype = check_dtype(entry.dtype)
    edges = tuple([np.array([0, n]) for n in entry.shape])
    count = parts.count_of(entry.forms[0])
    stored = np.full([1] * len(edges), count) if count else None
    return BlockSource(Mapped(os.path.abspath(path), entry), edges, dtype,
                       fill_value(list(entry.fill), dtype, path), stored, True)


def names_in(path: str) -> list[str]:
    """The tensors of a database."""
    folder = Folder(path, read_only=True)
    try:
        return sorted(folder.current().tensors)
    finally:
        folder.close()


def shown(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") or "none"
