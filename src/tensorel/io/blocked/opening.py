"""Which kind of blocks a path has, or is to have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tensorel.errors import TypeError_
from tensorel.io.blocked import parts, zarrs
from tensorel.io.blocked.source import About, BlockSource, Tile, Writer
from tensorel.io.files import SUFFIXES
from tensorel.io.guard import telling


def has_blocks(path: str) -> bool:
    """Whether the path is, or is to be, one of many files: a Zarr array or a folder of parts."""
    return zarrs.is_zarr(path) or parts.is_parts(path)


def open_blocks(path: str) -> BlockSource:
    """The blocks at a path."""
    where = os.path.abspath(path)
    with telling(path, "read"):
        return zarrs.source(where) if zarrs.is_zarr(where) else parts.source(where)


@contextmanager
def writing_blocks(path: str, about: About, tile: Tile, overwrite: bool, kind: str | None
                   ) -> Iterator[Writer]:
    """What writes the blocks of a tensor to a path."""
    where = os.path.abspath(path)
    with telling(path, "written"):
        if zarrs.is_zarr(where):
            if kind is not None:
                raise TypeError_(f"{path}: a Zarr array has chunks, not parts of kind {kind!r}")
            with zarrs.writing(where, about, tile, overwrite) as zarr_writer:
                yield zarr_writer
        else:
            with parts.writing(where, about, tile, overwrite, kind) as folder_writer:
                yield folder_writer


def refuse_options(path: str, **given: object) -> None:
    """Options of blocks that were given for a file that has none."""
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise TypeError_(
            f"{path}: {wrong[0]}= is for Zarr arrays and folders of parts",
            hint=f"a name that ends with .zarr, .parts or / is one; {', '.join(SUFFIXES)} are "
            "single files")
