"""A tensor of a database in parts: each block has files of its own, written and read by whoever has
or needs the block. Files are as all others of the database: whole, never changed, named by tag and
content, so that nothing has to be agreed on before the commit, which names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorel.algebra.ops import check_dtype
from tensorel.base.directory import Directory
from tensorel.base.records import dataclass
from tensorel.catalog import arrays, disk, marker
from tensorel.catalog.formats import text_of
from tensorel.catalog.records import DATA, Entry, Form, Parts
from tensorel.errors import DatabaseError
from tensorel.io.blocked.source import About, BlockSource, Edges, Key, Put, not_there
from tensorel.io.npz import fill_texts, fill_value
from tensorel.storage import convert
from tensorel.storage.identity import compact
from tensorel.storage.stored import Stored

#: Given where blocks have to be cut and what writes one, what each call of that gave.
Writing = Callable[[Callable[[Sequence[Edges]], tuple[Sequence[Edges], Put]]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes blocks into the database at ``path`` that has this tag, wherever it is sent to. A
    block that is all fill has no part, unless it is the only one."""

    path: str
    tag: str
    about: About
    alone: bool

    def __call__(self, key: Key, block: Stored | None) -> tuple[Key, Form] | None:
        if block is None:
            if not self.alone:
                return None
            block = convert.empty_result(self.about.shape, self.about.dtype, self.about.fill, "coo")
        try:
            root = Directory.at(self.path)
        except FileNotFoundError as error:
            raise not_there(self.path, error) from error
        with root, disk.telling(f"{self.path} cannot be written"):
            if marker.read(root) != self.tag:
                raise DatabaseError(
                    f"{self.path} is not the database here that it is where the program runs",
                    hint="all sites of an engine have to see the folder: use a file system that "
                         "they share")
            with root.folder(DATA) as data:
                files = [(n, arrays.keep(data, a, (), self.tag, durable=True))
                         for n, a in compact(block).items()]
        return key, Form(text_of(block), tuple(files))


def written(path: str, tag: str, about: About, write: Writing) -> Entry:
    """The entry of a tensor whose blocks ``write`` has written."""
    cut: list[tuple[int, ...]] = []

    def put(edges: Sequence[Edges]) -> tuple[Sequence[Edges], Put]:
        cut[:] = [tuple(e.tolist()) for e in edges]
        return edges, PartWriter(path, tag, about, all(len(e) == 2 for e in cut))

    forms = tuple([found for found in write(put) if found is not None])
    fill = tuple(fill_texts(about.fill))
    if all(len(e) == 2 for e in cut):
        return Entry(about.shape, about.dtype.name, fill, (forms[0][1],))
    return Entry(about.shape, about.dtype.name, fill, (), (), Parts(tuple(cut), forms))


def source_of(entry: Entry, read: Callable[[Key], Stored], path: str) -> BlockSource:
    """The blocks of a tensor in parts. ``read``: gives one of them."""
    assert entry.parts is not None
    edges = tuple([np.array(e, np.int64) for e in entry.parts.edges])
    dtype = check_dtype(entry.dtype)
    stored = np.zeros([len(e) - 1 for e in edges])
    for at, form in entry.parts.forms:
        stored[at] = count_of(form)
    return BlockSource(read, edges, dtype, fill_value(list(entry.fill), dtype, path), stored)


def count_of(form: Form) -> float:
    """How many entries a form stores, at most."""
    return float(max([a.length for n, a in form.arrays if n == "val"], default=0))


def form_at(entry: Entry, key: Key) -> Form | None:
    """Of a block; None if it is all fill."""
    assert entry.parts is not None
    return dict(entry.parts.forms).get(key)
