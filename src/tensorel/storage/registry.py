"""Formats by name: those that are ``named`` in a file of ``formats``, those registered here, and
those of installed packages (entry points of the group ``tensorel.formats``, read when a name is not
known)."""

from __future__ import annotations

import re
from importlib import import_module
from math import prod

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError
from tensorel.storage.format import BUILDERS, Builder, Format, FormatLike
from tensorel.storage.formats.coo import mixed

_builders: dict[str, Builder] = BUILDERS
_PARAMETERIZED = re.compile(r"([a-z_][a-z0-9_]*)(?:\(([-0-9, ]*)\))?", re.IGNORECASE)
_MIXED = re.compile(r"[0-9, ]*;[0-9, ]*(;[0-9, ]*)?")
#: The text of a format that a user's storage mapping is begins so.
MAPPING = "storage "
_outside_read = False


def register(name: str, builder: Builder) -> None:
    """Make ``builder`` the format ``name``: ``builder(shape, dtype, *parameters) -> Format``."""
    if not _PARAMETERIZED.fullmatch(name) or "(" in name:
        raise StorageError(f"{name!r} is not a format name", hint="use letters, digits and _")
    BUILDERS[name.lower()] = builder


def names() -> tuple[str, ...]:
    """The names of all formats, built-in ones first."""
    _read_entry_points()
    return tuple(BUILDERS)


def resolve(format: FormatLike, shape: tuple[int, ...], dtype: DType) -> Format:
    """The format for tensors of ``shape`` and ``dtype``: by name, itself, or as a storage mapping
    makes it.

    >>> import numpy as np
    >>> resolve("csf(2,0,1)", (3, 4, 5), np.dtype("float64")).order
    (2, 0, 1)
    """
    if isinstance(format, Format):
        if format.rank != len(shape):
            raise StorageError(
                f"format {format.name!r} has {format.rank} axes; the tensor has {len(shape)}"
            )
        return format
    if not isinstance(format, str):
        if callable(format):
            return format(shape, dtype)
        raise StorageError(
            f"{format!r} is not a format", hint=f"formats are {', '.join(names())}"
        )
    text = format.strip()
    if _MIXED.fullmatch(text):
        return _mixed(text, shape)
    if text.startswith(MAPPING):
        mappings = import_module("tensorel.storage.mapped.mapping")  # these modules import this one
        return mappings.restored(text)(shape, dtype)  # type: ignore[no-any-return]
    match = _PARAMETERIZED.fullmatch(text)
    builder = _find(match[1].lower()) if match else None
    if match is None or builder is None:
        raise _unknown(text)
    parameters = tuple(int(p) for p in match[2].split(",") if p.strip()) if match[2] else ()
    try:
        return builder(shape, dtype, *parameters)
    except TypeError as error:
        if not parameters:
            raise
        raise StorageError(f"format {match[1]!r} takes no such parameters: {text!r}") from error


def _find(name: str) -> Builder | None:
    if name not in BUILDERS:
        _read_entry_points()
    return BUILDERS.get(name)


def _read_entry_points() -> None:
    global _outside_read
    if _outside_read:
        return
    _outside_read = True
    from importlib.metadata import entry_points  # takes longer to import than all formats

    for point in entry_points(group="tensorel.formats"):
        BUILDERS.setdefault(point.name.lower(), point.load())


def _mixed(text: str, shape: tuple[int, ...]) -> Format:
    groups = (tuple(int(p) for p in part.split(",") if p.strip()) for part in text.split(";"))
    made = mixed(*groups)
    if made.rank != len(shape):
        raise StorageError(
            f"format {text!r} names {made.rank} axes; the tensor has {len(shape)}, shape {shape}",
            hint="name each axis once: dense axes; sparse axes; dense axes below them, if any",
        )
    return made


def _unknown(text: str) -> StorageError:
    import difflib  # for this error alone

    known = names()
    near = difflib.get_close_matches(text.split("(")[0].lower(), known, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return StorageError(
        f"there is no format {text!r}",
        hint=f"{guess}formats are {', '.join(known)}, 'csf(2,0,1)', 'bsr(4,4)', '0;1,2' and ';0;1'",
    )


def dense_bytes(shape: tuple[int, ...], dtype: DType) -> int:
    """Bytes of the tensor with every entry stored."""
    return prod(shape) * dtype.itemsize
