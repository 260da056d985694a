"""Tensors in files: .npy, .npz, Matrix Market, FROSTT; and in many files: Zarr arrays, folders of
parts, tensors of a database folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorel import config as settings
from tensorel.catalog import mapped_tensor
from tensorel.engines.protocol import Engine
from tensorel.engines.registry import engine_for, engine_of
from tensorel.errors import StorageError, TypeError_
from tensorel.front.array.base import from_stored, wrap
from tensorel.front.array.convert import asarray, run, stored_of
from tensorel.io import files
from tensorel.io.blocked import opening
from tensorel.io.blocked.gathering import gathered, scattered
from tensorel.io.blocked.source import About, BlockSource, Tile
from tensorel.ir.nodes import const
from tensorel.storage.convert import to_format
from tensorel.storage.format import FormatLike

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Path = str | os.PathLike[str]


def read(path: Path, format: FormatLike | None = None, *,
         shape: Sequence[int] | None = None, name: str | None = None, engine: object = None
         ) -> Tensor:
    """The tensor in a .npy, .npz, .mtx(.gz) or .tns(.gz) file, in a format if one is given; or in
    many files: a Zarr array, a folder of parts, or the tensor ``name`` of a database folder.

    With an engine that has sites, many files are read by the sites, each block by the one that
    needs it.

    >>> import tensorel as tr
    >>> tr.read("a.mtx", format="csc").format  # doctest: +SKIP
    'csc'
    """
    where = os.fspath(path)
    found = engine_of(engine if engine is not None else settings.current().engine)
    source = _source(where, name)
    if source is None:
        return from_stored(files.read(path, format, shape=shape))
    if shape is not None:
        raise TypeError_(f"{where}: a shape is given only for .tns files")
    if not found.has_sites:
        stored = gathered(source, where)
        return from_stored(stored if format is None else to_format(stored, format))
    if format is not None:
        raise TypeError_(f"{where}: format= is for tensors that are read here",
                         hint="blocks that sites read stay as they are stored")
    return wrap(found.from_blocks(source.make, source.edges, source.dtype,
                                  const(source.fill, source.dtype), source.stored,
                                  source.whole).source)


def _source(where: str, name: str | None) -> BlockSource | None:
    """The blocks at a path; None if it is a single file."""
    if name is not None:
        return mapped_tensor.tensor_source(where, name)
    if os.path.isdir(where) and mapped_tensor.is_database(where):
        known = mapped_tensor.shown(mapped_tensor.names_in(where))
        raise StorageError(f"{where} is a database: say which tensor, it has {known}",
                           hint="tr.read(path, name=...)")
    return opening.open_blocks(where) if opening.has_blocks(where) else None


def write(path: Path, x: object, *, scipy: bool = False, tile: Tile = None,
          overwrite: bool = False, part: str | None = None, engine: object = None) -> None:
    """Write a tensor; what is written appears whole or not at all.

    A path that ends with .zarr becomes a Zarr array, one that ends with .parts or / a folder of
    parts, in blocks of ``tile`` entries (a size, or one for each axis), or as they lie. They
    replace others of their kind only with ``overwrite=True``. ``part``: the kind of parts, npy,
    npz or mtx. With an engine that has sites, each block is written by the site that has it.

    ``scipy`` writes an .npz that ``scipy.sparse.load_npz`` reads.

    >>> import tensorel as tr
    >>> tr.write("a.npz", tr.eye(3))  # doctest: +SKIP
    """
    where, tensor = os.fspath(path), asarray(x)
    config = settings.current()
    found = engine_for(engine if engine is not None else config.engine,
                       [] if tensor.given is not None else [tensor.node])
    if not opening.has_blocks(where):
        opening.refuse_options(where, tile=tile, overwrite=overwrite, part=part)
        here = run([tensor], settings.with_overrides(config, engine=found), [None])[0] \
            if found.has_sites else stored_of(tensor)
        files.write(path, here, scipy=scipy)
        return
    if scipy:
        raise TypeError_(f"{where}: scipy=True is for .npz files")
    _write_blocks(where, tensor, found, tile, overwrite, part)


def _write_blocks(where: str, tensor: Tensor, engine: Engine, tile: Tile, overwrite: bool,
                  part: str | None) -> None:
    if mapped_tensor.is_database(where):
        raise StorageError(f"{where} is a database, which is not replaced",
                           hint="tr.connect(path)[name] = tensor")
    about = About(tensor.shape, tensor.dtype, tensor.fill)
    with opening.writing_blocks(where, about, tile, overwrite, part) as writer:
        if engine.has_sites:
            config = settings.with_overrides(settings.current(), engine=engine)
            fill = const(tensor.fill, tensor.dtype)
            writer.finish(engine.write(tensor.node, config, writer.cut, fill))
        else:
            writer.finish(scattered(stored_of(tensor), writer.cut))
