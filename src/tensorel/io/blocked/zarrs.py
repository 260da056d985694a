"""Zarr arrays, by the package ``zarr`` (the extra ``tensorel[zarr]``). Chunks are blocks.

Arrays are dense, also where chunks are not there. Written arrays are of version 3; their attribute
``tensorel`` says who made them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from tensorel.algebra.ops import DTYPES
from tensorel.base.records import dataclass
from tensorel.errors import FileError, ShapeError, StorageError, UnsupportedError
from tensorel.io.blocked.replacing import check_free, new_folder
from tensorel.io.blocked.source import (
    About,
    BlockSource,
    Edges,
    Key,
    Put,
    Tile,
    box_of,
    not_there,
    sizes_of,
    steps,
)
from tensorel.storage import convert
from tensorel.storage.entries import make_fill
from tensorel.storage.limits import show_bytes
from tensorel.storage.stored import Stored

MAX_BLOCKS = 4096  # of one array; smaller chunks are read several at a time
MAX_CHUNK_BYTES = 1 << 26  # that are written as one
VERSION = 1


def _zarr(path: str) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise UnsupportedError(f"{path}: Zarr arrays need the package zarr",
                               hint="pip install 'tensorel[zarr]'") from error
    return zarr


def is_zarr(path: str) -> bool:
    """Whether the path is, or is to be, a Zarr array."""
    return path.rstrip(os.sep).lower().endswith(".zarr") or any(
        os.path.isfile(os.path.join(path, name)) for name in ("zarr.json", ".zarray"))


def _at_site(path: str, mode: str) -> Any:
    try:
        return _opened(path, mode)
    except FileNotFoundError as error:
        raise not_there(path, error) from error


def _opened(path: str, mode: str) -> Any:
    zarr = _zarr(path)
    try:
        return zarr.open_array(path, mode=mode)
    except ValueError as error:  # a group; metadata that make no sense
        raise StorageError(f"{path} is no Zarr array: {error}",
                           hint="of a group, read one array: path/name") from error


# -- reading --------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, slots=True)
class Reader:
    """Reads blocks at a site. ``about``: what the array was when it was opened first."""

    path: str
    edges: tuple[Edges, ...]
    about: About

    def __call__(self, key: Key) -> Stored:
        array = _at_site(self.path, "r")
        if array.shape != self.about.shape or array.dtype != self.about.dtype:
            raise StorageError(f"{self.path} was changed: it had shape {self.about.shape} and "
                               f"dtype {self.about.dtype}, now {array.shape} and {array.dtype}")
        try:
            found = np.asarray(array[box_of(self.edges, key)])
        except (ValueError, RuntimeError, TypeError) as error:
            raise StorageError(f"{self.path}: block {key} cannot be read: {error}",
                               hint="the array is damaged, or a codec is missing") from error
        native = found.astype(found.dtype.newbyteorder("="), copy=False)
        return convert.from_dense(native, self.about.fill)


def source(path: str) -> BlockSource:
    """The blocks of an array; nothing but its metadata is read."""
    array = _opened(path, "r")
    dtype = np.dtype(array.dtype).newbyteorder("=")
    if dtype not in DTYPES:
        raise StorageError(f"{path} holds dtype {array.dtype}, which is not read",
                           hint="arrays of numbers and booleans are")
    fill = make_fill(array.fill_value if array.fill_value is not None else 0, dtype)
    sizes = list(array.shards or array.chunks)
    edges = _merged([steps(n, max(int(c), 1)) for n, c in zip(array.shape, sizes)])
    return BlockSource(Reader(path, edges, About(tuple(array.shape), array.dtype, fill)), edges,
                       dtype, fill)


def _merged(edges: list[Edges]) -> tuple[Edges, ...]:
    """Every other edge less, along the axis with the most, until there are few enough."""
    while prod([len(e) - 1 for e in edges]) > MAX_BLOCKS:
        k = max(range(len(edges)), key=lambda k: len(edges[k]))
        e = edges[k]
        edges[k] = e[::2] if len(e) % 2 else np.append(e[::2], e[-1])
    return tuple(edges)


# -- writing --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """Writes a chunk at the site that has it."""

    path: str
    edges: tuple[Edges, ...]

    def __call__(self, key: Key, block: Stored | None) -> None:
        if block is None:
            return
        where = box_of(self.edges, key)
        array = _at_site(self.path, "r+")
        array[where if where else ...] = convert.to_dense(block)


@dataclass(frozen=True, slots=True)
class ZarrWriter:
    """One array, at the path where it is written first."""

    path: str
    about: About
    sizes: list[int] | None

    def cut(self, edges: Sequence[Edges]) -> tuple[tuple[Edges, ...], Put]:
        sizes = self.sizes or chunks_of(edges, self.about.dtype.itemsize)
        bytes_ = prod(sizes) * self.about.dtype.itemsize
        if bytes_ >= 1 << 31:
            raise ShapeError(f"{self.path}: chunks of {show_bytes(bytes_)} are more than Zarr's "
                             "codecs take", hint="give smaller ones: tile=...")
        _zarr(self.path).create_array(
            self.path, shape=self.about.shape, chunks=tuple(sizes), dtype=self.about.dtype,
            fill_value=self.about.fill, attributes={"tensorel": {"version": VERSION}},
            overwrite=True)
        cuts = tuple([steps(n, s) for n, s in zip(self.about.shape, sizes)])
        return cuts, ChunkWriter(self.path, cuts)

    def finish(self, told: Sequence[Any]) -> None:
        pass


def chunks_of(edges: Sequence[Edges], itemsize: int) -> list[int]:
    """Chunks for blocks that are cut so. Chunks of an array are all alike: where blocks are, they
    are the blocks or equal parts of them, so that each lies at one site."""
    sizes = []
    for e in edges:
        widths = np.diff(e)
        alike = len(widths) > 0 and (widths[:-1] == widths[0]).all() and widths[-1] <= widths[0]
        sizes.append(max(int(widths[0]) if alike else -(-int(e[-1]) // len(widths)), 1))
    while (much := prod(sizes) * itemsize) > MAX_CHUNK_BYTES and max(sizes) > 1:
        k = sizes.index(max(sizes))
        least = min(-(-much // MAX_CHUNK_BYTES), sizes[k])
        parts = next((d for d in range(least, 2 * least) if sizes[k] % d == 0), least)
        sizes[k] = -(-sizes[k] // parts)
    return sizes


def _is_array(path: str) -> bool:
    """Whether a folder is a Zarr array and nothing else."""
    names = set(os.listdir(path))
    if ".zarray" in names:
        return True
    return "zarr.json" in names and not names - {"zarr.json", "c"} \
        and "chunk_grid" in _metadata(os.path.join(path, "zarr.json"))


def _metadata(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read(1 << 20)


@contextmanager
def writing(path: str, about: About, tile: Tile, overwrite: bool) -> Iterator[ZarrWriter]:
    """A new array; it appears whole or not at all."""
    _zarr(path)
    if os.path.isdir(path) and os.path.isfile(os.path.join(path, ".zgroup")):
        raise FileError(f"{path} is a Zarr group", hint="write an array below it: path/name.zarr")
    check_free(path, overwrite, _is_array, "a Zarr array")
    sizes = sizes_of(tile, about.shape, path)
    with new_folder(path) as folder:
        yield ZarrWriter(folder, about, sizes)
