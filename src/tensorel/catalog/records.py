"""What a catalog says, and its text.

A catalog file is two lines: ``{"tensorel": 1, "sha256": ...}`` with the checksum of what follows,
and a JSON object. Files are named by the SHA-256 of their content, so an entry says all that is
needed to find a file and to check it; a name of a tensor never becomes a name of a file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

import numpy as np

from tensorel.algebra.ops import DTYPES
from tensorel.errors import DatabaseError
from tensorel.records import dataclass
from tensorel.storage.stored import Stored

VERSION = 1
_NAME = re.compile(r"[0-9a-f]{64}")
_DTYPES = {d.str for d in DTYPES}
_KINDS = {d.name for d in DTYPES}

E = TypeVar("E")


@dataclass(frozen=True)
class State(Generic[E]):
    """What a database holds at one commit. ``declared``: the text of each CREATE statement, by the
    name that it declares, in the order in which they were given."""

    generation: int
    tensors: Mapping[str, E]
    declared: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class About:
    """What can be said of a tensor without looking at its entries."""

    shape: tuple[int, ...]
    dtype: str
    formats: tuple[str, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """One physical array: ``<sha256>.npy``."""

    sha256: str
    dtype: str
    length: int

    @property
    def file(self) -> str:
        return f"{self.sha256}.npy"


@dataclass(frozen=True, slots=True)
class Form:
    """One storage of a tensor: the text of its format, its arrays by name, and the checksum of its
    statistics in ``<sha256>.json``."""

    format: str
    arrays: tuple[tuple[str, ArrayFile], ...]
    statistics: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor; it is stored in each of its forms. ``fill`` is exact (see ``io.npz``)."""

    shape: tuple[int, ...]
    dtype: str
    fill: tuple[str, ...]
    forms: tuple[Form, ...]

    @property
    def about(self) -> About:
        sizes = [a.length * np.dtype(a.dtype).itemsize for f in self.forms for _, a in f.arrays]
        return About(self.shape, self.dtype, tuple([f.format for f in self.forms]), sum(sizes))

    def files(self) -> Iterator[str]:
        for form in self.forms:
            for _, array in form.arrays:
                yield array.file
            if form.statistics is not None:
                yield statistics_file(form.statistics)


def alternatives(stored: Stored) -> tuple[Stored, ...]:
    """The same tensor in other storages."""
    return cast("tuple[Stored, ...]", stored.facts.get("alternatives", ()))


def statistics_file(sha256: str) -> str:
    return f"{sha256}.json"


def files_of(state: State[Entry]) -> set[str]:
    """All files that a state needs."""
    return {f for entry in state.tensors.values() for f in entry.files()}


# -- to text and back --------------------------------------------------------------------------
def to_text(state: State[Entry]) -> bytes:
    body = {
        "generation": state.generation,
        "tensors": {name: _entry(e) for name, e in state.tensors.items()},
        "declared": dict(state.declared),
    }
    text = json.dumps(body, separators=(",", ":")).encode() + b"\n"
    head = {"tensorel": VERSION, "sha256": hashlib.sha256(text).hexdigest()}
    return json.dumps(head).encode() + b"\n" + text


def _entry(entry: Entry) -> dict[str, object]:
    forms = [{"format": f.format, "statistics": f.statistics,
              "arrays": {n: [a.sha256, a.dtype, a.length] for n, a in f.arrays}}
             for f in entry.forms]
    return {"shape": entry.shape, "dtype": entry.dtype, "fill": entry.fill, "forms": forms}


def from_text(text: bytes, where: str) -> State[Entry]:
    """The state in a catalog file; ``where`` names the file in errors."""
    first, _, body = text.partition(b"\n")
    try:
        head = json.loads(first)
        version, digest = head["tensorel"], head["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(where) from error
    if version != VERSION:
        raise DatabaseError(
            f"{where} has version {version!r} of the catalog; this tensorel reads {VERSION}",
            hint="update tensorel")
    if digest != hashlib.sha256(body).hexdigest():
        raise damaged(where)
    try:
        found = json.loads(body)
        tensors = {_text(n): _to_entry(e) for n, e in found["tensors"].items()}
        declared = {_text(n): _text(t) for n, t in found["declared"].items()}
        return State(_whole(found["generation"]), tensors, declared)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(where) from error


def damaged(where: str) -> DatabaseError:
    return DatabaseError(f"{where} is damaged",
                         hint="restore the folder from a copy; tensorel never writes such a file")


def _to_entry(found: Mapping[str, Any]) -> Entry:
    forms = tuple([_to_form(f) for f in found["forms"]])
    if not forms or found["dtype"] not in _KINDS:
        raise ValueError
    return Entry(tuple([_whole(n) for n in found["shape"]]), found["dtype"],
                 tuple([_text(t) for t in found["fill"]]), forms)


def _to_form(found: Mapping[str, Any]) -> Form:
    arrays = tuple([(_text(n), _to_array(*a)) for n, a in found["arrays"].items()])
    digest = found["statistics"]
    return Form(_text(found["format"]), arrays, None if digest is None else _digest(digest))


def _to_array(sha256: object, dtype: object, length: object) -> ArrayFile:
    if dtype not in _DTYPES or not np.dtype(_text(dtype)).isnative:
        raise ValueError(dtype)
    return ArrayFile(_digest(sha256), _text(dtype), _whole(length))


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(value)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _digest(value: object) -> str:
    if not _NAME.fullmatch(_text(value)):
        raise ValueError(value)
    return _text(value)
