"""Folders of parts without a manifest: what the names and the heads of their files say."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.io.blocked.source import Edges, Key
from tensorel.io.files import SUFFIXES
from tensorel.io.guard import unpacking
from tensorel.io.npy import head_of_npy
from tensorel.io.npz import head_of_npz
from tensorel.io.text.mtx import head_of_mtx

_NAME = re.compile(r"(?P<stem>.*?)(?P<key>(?:(?:^|[-_.])\d{1,9})+)")
_READ = tuple([s for s in SUFFIXES if not s.startswith(".tns")])


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says before its entries. ``stored``: how many they are."""

    shape: tuple[int, ...]
    dtype: DType
    fill: np.generic
    stored: float


@dataclass(frozen=True, eq=False, slots=True)
class Named:
    """Parts by their names: the file of each block, and entries that it stores."""

    shape: tuple[int, ...]
    dtype: DType
    fill: np.generic
    edges: tuple[Edges, ...]
    names: npt.NDArray[np.object_]
    stored: npt.NDArray[np.float64]


def by_names(folder: str, names: Sequence[str]) -> Named:
    """The tensor that the parts in a folder make up."""
    keys = _keys(folder, names)
    heads = {key: head_of(os.path.join(folder, name)) for key, name in keys.items()}
    first, one = next(iter(heads.items()))
    for key, head in heads.items():
        for what in ("dtype", "fill"):
            if str(getattr(head, what)) != str(getattr(one, what)):
                raise StorageError(
                    f"{folder}: {keys[key]} has {what} {getattr(head, what)}, {keys[first]} has "
                    f"{what} {getattr(one, what)}", hint=f"parts of a tensor have one {what}")
        if len(head.shape) != len(one.shape) or len(key) > len(head.shape):
            raise StorageError(
                f"{folder}: {keys[key]} has {len(head.shape)} axes, and the name has "
                f"{len(key)} numbers; {keys[first]} has {len(one.shape)} axes",
                hint="a name has a number for each axis, or for the first ones")
    rank = len(one.shape)
    grid = tuple(np.max(list(heads), axis=0).tolist()) + (0,) * (rank - len(first))
    grid = tuple([n + 1 for n in grid])
    shapes = np.zeros((*grid, rank), np.int64)
    files, stored = np.full(grid, None, object), np.zeros(grid)
    for key, head in heads.items():
        at = (*key, *(0,) * (rank - len(key)))
        shapes[at], files[at], stored[at] = head.shape, keys[key], head.stored
    edges = tuple([_edges(folder, shapes[..., k], k, files) for k in range(rank)])
    return Named(tuple([int(e[-1]) for e in edges]), one.dtype, one.fill, edges, files, stored)


def _keys(folder: str, names: Sequence[str]) -> dict[Key, str]:
    """The files by the numbers at the ends of their names, counted from 0."""
    found: dict[Key, str] = {}
    stems: dict[str, str] = {}
    for name in sorted(names):
        suffix = next((s for s in reversed(_READ) if name.lower().endswith(s)), None)
        if suffix is None or name.startswith("."):
            continue
        match = _NAME.fullmatch(name[:-len(suffix)])
        if match is None:
            raise StorageError(f"{folder}: the name {name} does not end with the place of a part",
                               hint="as x-0-0.npy, x-0-1.npy, ... or rows.0.npz, rows.1.npz, ...")
        key = tuple([int(w) for w in re.findall(r"\d+", match["key"])])
        stems[match["stem"]] = name
        if key in found:
            raise StorageError(f"{folder}: {found[key]} and {name} are the same part",
                               hint="a folder holds the parts of one tensor")
        found[key] = name
    if not found:
        raise StorageError(f"{folder} holds no parts of a tensor",
                           hint=f"parts are files {', '.join(_READ)}; of a database, say name=...")
    if len(stems) > 1 or len({len(k) for k in found}) > 1:
        raise StorageError(f"{folder} holds parts of several tensors: "
                           f"{', '.join(list(stems.values())[:3])}",
                           hint="a folder holds the parts of one tensor")
    least = np.min(list(found), axis=0)
    if (least > 1).any():
        raise StorageError(f"{folder} has no part with the number 0 or 1")
    found = {tuple((np.array(k) - least).tolist()): n for k, n in found.items()}
    _check_whole(folder, found, least)
    return found


def _check_whole(folder: str, found: dict[Key, str], least: npt.NDArray[np.int64]) -> None:
    grid = tuple((np.max(list(found), axis=0) + 1).tolist())
    if len(found) == int(np.prod(grid)):
        return
    lacking = next(k for k in np.ndindex(*grid) if k not in found)
    text = "-".join(map(str, (np.array(lacking) + least).tolist()))
    raise StorageError(f"{folder} lacks the part {text} of {' x '.join(map(str, grid))} parts",
                       hint="the folder was not copied whole, or files were removed")


def _edges(folder: str, extents: npt.NDArray[np.int64], axis: int,
           names: npt.NDArray[np.object_]) -> Edges:
    """Where an axis is cut; parts beside each other fit together."""
    lines = np.moveaxis(extents, axis, 0).reshape(extents.shape[axis], -1)
    wrong = np.argwhere(lines != lines[:, :1])
    if len(wrong):
        files = np.moveaxis(names, axis, 0).reshape(lines.shape)
        at, other = wrong[0]
        raise StorageError(
            f"{folder}: {files[at, other]} has {lines[at, other]} entries along axis {axis}, "
            f"{files[at, 0]} beside it has {lines[at, 0]}", hint="parts have to fit together")
    return np.concatenate(([0], np.cumsum(lines[:, 0]))).astype(np.int64)


def head_of(path: str) -> Head:
    """What a file says before its entries."""
    name = path.lower()
    if name.endswith(".npy"):
        shape, dtype = head_of_npy(path)
        return Head(shape, dtype, dtype.type(0), float(np.prod(shape, dtype=np.float64)))
    if name.endswith(".npz"):
        with unpacking(path), zipfile.ZipFile(path) as archive:
            return Head(*head_of_npz(archive, path))
    shape, dtype, count = head_of_mtx(path)
    return Head(shape, dtype, dtype.type(0), float(count))
