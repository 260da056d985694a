"""What a catalog says, and its text.

A catalog file is two lines: ``{"tensorel": 2, "sha256": ...}`` with the checksum of what follows,
and a JSON object. Files are named by the tag of their database and the SHA-256 of their content,
so an entry says all that is needed to find a file and to check it; a name of a tensor never
becomes a name of a file. Version 1 had no tags; its files stay as they are. Version 3 has labels of
axes, version 4 tensors in parts; a catalog has the lowest version that can say what is in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from tensorel.algebra.ops import DTYPES
from tensorel.base.records import dataclass
from tensorel.errors import DatabaseError

#: The folder of the data files.
DATA = "data"
VERSION, _WITH_LABELS, _PLAIN = 4, 3, 2
_READ = (1, 2, 3, 4)
_STEM = re.compile(r"([0-9a-f]{32}-)?[0-9a-f]{64}")
_OURS = re.compile(r"([0-9a-f]{32})-[0-9a-f]{64}\.(npy|json)")
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
    """What is known of a tensor without its entries."""

    shape: tuple[int, ...]
    dtype: str
    formats: tuple[str, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """One physical array: ``<stem>.npy``."""

    stem: str
    dtype: str
    length: int

    @property
    def file(self) -> str:
        return f"{self.stem}.npy"


@dataclass(frozen=True, slots=True)
class Form:
    """One storage of a tensor: the text of its format, its arrays by name, and the stem of its
    statistics, ``<stem>.json``."""

    format: str
    arrays: tuple[tuple[str, ArrayFile], ...]
    statistics: str | None = None


@dataclass(frozen=True, slots=True)
class AxisEntry:
    """An axis: its name, and what its labels are: "" (there are none), "text" or a dtype of NumPy
    (see ``catalog.axis_files``)."""

    name: str | None
    kind: str
    zone: str
    arrays: tuple[ArrayFile, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """A tensor in blocks. ``edges``: where they begin along each axis, and its extent; ``forms``:
    of each block, by its place. Blocks that are not named are all fill."""

    edges: tuple[tuple[int, ...], ...]
    forms: tuple[tuple[tuple[int, ...], Form], ...]

    def shape(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Of a block."""
        return tuple([e[k + 1] - e[k] for e, k in zip(self.edges, at)])


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor; it is stored in each of its forms, or once, in parts. ``fill`` is exact (see
    ``io.npz``)."""

    shape: tuple[int, ...]
    dtype: str
    fill: tuple[str, ...]
    forms: tuple[Form, ...]
    axes: tuple[AxisEntry, ...] = ()
    parts: Parts | None = None

    @property
    def all_forms(self) -> tuple[Form, ...]:
        """Those of parts, too."""
        return self.forms if self.parts is None else tuple([f for _, f in self.parts.forms])

    @property
    def about(self) -> About:
        forms = self.all_forms
        sizes = [a.length * np.dtype(a.dtype).itemsize for f in forms for _, a in f.arrays]
        return About(self.shape, self.dtype, tuple(dict.fromkeys([f.format for f in forms])),
                     sum(sizes))

    def files(self) -> Iterator[str]:
        for form in self.all_forms:
            for _, array in form.arrays:
                yield array.file
            if form.statistics is not None:
                yield statistics_file(form.statistics)
        for axis in self.axes:
            for array in axis.arrays:
                yield array.file


def stem(tag: str, sha256: str) -> str:
    """The name, without its ending, of a file with that content in the database of that tag."""
    return f"{tag}-{sha256}"


def checksum_of(name: str) -> str:
    """The SHA-256 in a stem or in the name of a file."""
    return name.partition(".")[0][-64:]


def is_of(tag: str, name: str) -> bool:
    """Whether a file in the data folder was written to the database with that tag."""
    found = _OURS.fullmatch(name)
    return found is not None and found[1] == tag


def statistics_file(stem: str) -> str:
    return f"{stem}.json"


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
    entries = state.tensors.values()
    version = VERSION if any(e.parts is not None for e in entries) else (
        _WITH_LABELS if any(e.axes for e in entries) else _PLAIN)
    head = {"tensorel": version, "sha256": hashlib.sha256(text).hexdigest()}
    return json.dumps(head).encode() + b"\n" + text


def _entry(entry: Entry) -> dict[str, object]:
    made: dict[str, object] = {"shape": entry.shape, "dtype": entry.dtype, "fill": entry.fill,
                               "forms": [_form(f) for f in entry.forms]}
    if entry.axes:
        made["axes"] = [[a.name, a.kind, a.zone, [[f.stem, f.dtype, f.length] for f in a.arrays]]
                        for a in entry.axes]
    if entry.parts is not None:
        made["edges"] = entry.parts.edges
        made["parts"] = [[at, _form(f)] for at, f in entry.parts.forms]
    return made


def _form(form: Form) -> dict[str, object]:
    return {"format": form.format, "statistics": form.statistics,
            "arrays": {n: [a.stem, a.dtype, a.length] for n, a in form.arrays}}


def from_text(text: bytes, where: str) -> State[Entry]:
    """The state in a catalog file; ``where`` names the file in errors."""
    first, _, body = text.partition(b"\n")
    try:
        head = json.loads(first)
        version, digest = head["tensorel"], head["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(where) from error
    if version not in _READ:
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
    shape = tuple([_whole(n) for n in found["shape"]])
    parts = _to_parts(found["edges"], found["parts"], shape) if "parts" in found else None
    if bool(forms) == (parts is not None) or found["dtype"] not in _KINDS:
        raise ValueError
    return Entry(shape, found["dtype"], tuple([_text(t) for t in found["fill"]]), forms,
                 tuple([_to_axis(*a) for a in found.get("axes", ())]), parts)


def _to_parts(edges: Sequence[Sequence[object]], parts: Sequence[Sequence[Any]],
              shape: tuple[int, ...]) -> Parts:
    cut = tuple([tuple([_whole(n) for n in e]) for e in edges])
    for e, extent in zip(cut, shape, strict=True):
        if len(e) < 2 or e[0] or e[-1] != extent or any(a > b for a, b in pairwise(e)):
            raise ValueError(edges)
    forms = {tuple([_whole(k) for k in at]): _to_form(f) for at, f in parts}
    if len(forms) != len(parts) or not all(
            len(at) == len(cut) and all(k < len(e) - 1 for k, e in zip(at, cut)) for at in forms):
        raise ValueError(parts)
    return Parts(cut, tuple(forms.items()))


def _to_axis(name: object, kind: object, zone: object, arrays: Sequence[Sequence[object]]
             ) -> AxisEntry:
    made = tuple([_to_array(*a) for a in arrays])
    if len(made) != {"": 0, "text": 2}.get(_text(kind), 1):
        raise ValueError(kind)
    if len(made) == 1:
        dtype = np.dtype(_text(kind))
        if dtype.kind not in "biufmM" or dtype.itemsize != np.dtype(made[0].dtype).itemsize:
            raise ValueError(kind)
    return AxisEntry(None if name is None else _text(name), _text(kind), _text(zone), made)


def _to_form(found: Mapping[str, Any]) -> Form:
    arrays = tuple([(_text(n), _to_array(*a)) for n, a in found["arrays"].items()])
    digest = found["statistics"]
    return Form(_text(found["format"]), arrays, None if digest is None else _to_stem(digest))


def _to_array(stem: object, dtype: object, length: object) -> ArrayFile:
    if dtype not in _DTYPES or not np.dtype(_text(dtype)).isnative:
        raise ValueError(dtype)
    return ArrayFile(_to_stem(stem), _text(dtype), _whole(length))


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(value)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _to_stem(value: object) -> str:
    if not _STEM.fullmatch(_text(value)):
        raise ValueError(value)
    return _text(value)
