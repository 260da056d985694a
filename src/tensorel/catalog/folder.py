"""A database in a folder.

    lock                     locked by the process that writes
    catalog-000000000012.json    what the database holds since commit 12; the last one counts
    data/<sha256>.npy        physical arrays
    data/<sha256>.json       statistics

Files are never changed. A commit writes new data files, synchronizes them and their folder, and
then makes the next catalog appear by one rename: a reader, or who comes after a crash, finds the
old catalog or the new one, and all files that it names. A file that is in the folder and in no
catalog may be half synchronized, so it is never relied on. Who reads holds a shared lock on the
catalog it uses. Catalogs that nobody uses, and data files that only they name, are removed by the
next commit.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import numpy as np

from tensorel.catalog import arrays, disk, locks, statistics
from tensorel.catalog.formats import format_of, text_of
from tensorel.catalog.records import (
    About,
    Entry,
    Form,
    State,
    alternatives,
    damaged,
    files_of,
    from_text,
    statistics_file,
    to_text,
)
from tensorel.errors import DatabaseError
from tensorel.io.npz import compact, fill_texts, fill_value
from tensorel.io.validate import checked
from tensorel.stats.facts import TensorStats
from tensorel.storage.stored import Stored

_CATALOG = re.compile(r"catalog-([0-9]{12})\.json")
_DATA, _LOCK = "data", "lock"
#: A reader tries so often to get hold of a catalog while others are being committed.
_ATTEMPTS = 1000
#: So many tensors stay mapped.
_KEPT = 128


class Folder:
    """The store of a database on disk. One thread at a time may be between ``begin`` and ``end``;
    the caller sees to that."""

    _writer: int | None = None
    _held: int | None = None

    def __init__(self, path: str, read_only: bool = False, wait: float = 5.0) -> None:
        self.path = os.path.abspath(path)
        self.data = os.path.join(self.path, _DATA)
        self.read_only = read_only
        self._swept = False
        self._there: set[str] = set()
        self._guard = threading.RLock()
        self._loaded: OrderedDict[Entry, Stored] = OrderedDict()
        self._learned: dict[Entry, list[TensorStats | None]] = {}
        self.state: State[Entry] = State(0, {}, {})
        self._seen: dict[int, State[Entry]] = {}
        with disk.telling(f"{self.path} cannot be opened"):
            if not read_only:
                os.makedirs(self.path, exist_ok=True)
            if not self._generations():
                self._create(wait)
            self._hold()

    # -- reading ------------------------------------------------------------------------------
    def _generations(self) -> list[int]:
        found = (_CATALOG.fullmatch(name) for name in os.listdir(self.path))
        return sorted([int(m[1]) for m in found if m])

    def _catalog(self, generation: int) -> str:
        return os.path.join(self.path, f"catalog-{generation:012d}.json")

    def _hold(self) -> None:
        """Lock and read the last catalog."""
        for _ in range(_ATTEMPTS):
            newest = max(self._generations(), default=0)
            if newest and newest == self.state.generation:
                return
            file = locks.share(self._catalog(newest)) if newest else None
            if file is None:
                continue
            try:
                state = self._read(newest, file)
            except BaseException:
                os.close(file)
                raise
            self._seen = {s.generation: s for s in (self.state, state)}
            before, self._held, self.state = self._held, file, state
            if before is not None:
                os.close(before)
            return
        raise DatabaseError(f"{self.path} has no catalog that can be read",
                            hint="restore the folder from a copy")

    def _read(self, generation: int, file: int) -> State[Entry]:
        if generation in self._seen:
            return self._seen[generation]
        where = self._catalog(generation)
        with open(file, "rb", closefd=False) as stream:
            state = from_text(stream.read(), where)
        if state.generation != generation:
            raise damaged(where)
        return state

    def current(self) -> State[Entry]:
        """The last committed state."""
        with self._guard, disk.telling(f"{self.path} cannot be read"):
            self._hold()
            return self.state

    def load(self, entry: Entry) -> Stored:
        """The tensor over mapped files; the same object as long as it is in use."""
        with self._guard:
            found = self._loaded.get(entry)
            if found is None:
                found = self._loaded[entry] = self._load(entry)
                self._forget()
            self._loaded.move_to_end(entry)
            return found

    def about(self, entry: Entry) -> About:
        return entry.about

    def _load(self, entry: Entry) -> Stored:
        forms = [self._form(entry, form) for form in entry.forms]
        if forms[1:]:
            forms[0].facts["alternatives"] = tuple(forms[1:])
        self._learned[entry] = [_stats(form) for form in forms]
        return forms[0]

    def _form(self, entry: Entry, form: Form) -> Stored:
        dtype = np.dtype(entry.dtype)
        format_ = format_of(form.format, self.path, entry.shape, dtype)
        fill = fill_value(list(entry.fill), dtype, self.path)
        found = {n: arrays.mapped(self.data, a) for n, a in form.arrays}
        made = Stored(format_, entry.shape, dtype, fill, found)
        if form.statistics is not None:
            statistics.give(made, self._statistics(form.statistics, entry.shape))
        return made

    def _statistics(self, sha256: str, shape: tuple[int, ...]) -> TensorStats:
        path = os.path.join(self.data, statistics_file(sha256))
        with disk.telling(f"{path} cannot be read"), open(path, "rb") as file:
            text = file.read()
        if hashlib.sha256(text).hexdigest() != sha256:
            raise damaged(path)
        try:
            return statistics.from_text(text, shape)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged(path) from error

    def _forget(self) -> None:
        while len(self._loaded) > _KEPT:
            entry, _ = self._loaded.popitem(last=False)
            del self._learned[entry]

    def verify(self) -> None:
        """Read all files of the last state and compare their checksums; check that the arrays form
        tensors."""
        for name, entry in self.current().tensors.items():
            for file in entry.files():
                arrays.verify(os.path.join(self.data, file), file.partition(".")[0])
            loaded = self._load(entry)
            for form in (loaded, *alternatives(loaded)):
                checked(form, f"{self.path}[{name!r}]")

    # -- writing ------------------------------------------------------------------------------
    def begin(self, wait: float) -> State[Entry]:
        """Lock out other writers; the state to start from."""
        if self.read_only:
            raise DatabaseError(f"{self.path} is open for reading only",
                                hint="connect without read_only=True to write")
        with disk.telling(f"{self.path} cannot be written"):
            self._writer = locks.lock_writer(os.path.join(self.path, _LOCK), wait)
            try:
                found = self.current()
                self._there = files_of(found)
                return found
            except BaseException:
                self.end()
                raise

    def end(self) -> None:
        """Let other writers in."""
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None

    def keep(self, stored: Stored) -> Entry:
        """Write the tensor's files; they count once a state with the entry is committed."""
        self._swept = False  # should this transaction fail, its files are nobody's
        forms = tuple([self._keep(form) for form in (stored, *alternatives(stored))])
        return Entry(stored.shape, stored.dtype.name, tuple(fill_texts(stored.fill)), forms)

    def _keep(self, stored: Stored) -> Form:
        text = text_of(stored)
        found = [(n, arrays.keep(self.data, a, self._there)) for n, a in compact(stored).items()]
        self._there.update([a.file for _, a in found])
        return Form(text, tuple(found), self._keep_text(statistics.gathered(stored)))

    def _keep_text(self, text: bytes | None) -> str | None:
        if text is None:
            return None
        sha256 = hashlib.sha256(text).hexdigest()
        name = statistics_file(sha256)
        path = os.path.join(self.data, name)
        with disk.telling(f"{path} cannot be written"):
            if name not in self._there:
                disk.write_new(self.data, name, (text,))
        self._there.add(name)
        return sha256

    def commit(self, state: State[Entry]) -> None:
        """Make ``state`` the last one: the old state or this one survives whatever happens."""
        assert self._writer is not None, "commit without begin"
        new = replace(state, generation=self.state.generation + 1)
        where = self._catalog(new.generation)
        with disk.telling(f"{where} cannot be written"):
            files = files_of(new) - files_of(self.state)
            disk.sync_all([*(os.path.join(self.data, f) for f in files), self.data])
            disk.write_new(self.path, os.path.basename(where), (to_text(new),), durable=True)
            disk.sync(self.path)
        self._seen[new.generation] = new
        with self._guard, disk.telling(f"{self.path} cannot be read"):
            self._hold()
            self._collect()

    def _collect(self) -> None:
        """Remove the catalogs that nobody uses, and files that no other catalog names."""
        used, dropped = files_of(self.state), set[str]()
        for generation in self._generations():
            if generation == self.state.generation:
                continue
            try:
                files = files_of(self._peek(generation))
            except (DatabaseError, OSError):
                return  # what it names is not known: nothing is removed
            if locks.remove_unshared(self._catalog(generation)):
                dropped |= files
            else:
                used |= files
        if not self._swept:
            dropped |= set(os.listdir(self.data))
            self._remove_temporary(os.listdir(self.path))
            self._swept = True
        for name in dropped - used:
            disk.remove(os.path.join(self.data, name))

    def _peek(self, generation: int) -> State[Entry]:
        with open(self._catalog(generation), "rb") as stream:
            return self._read(generation, stream.fileno())

    def _remove_temporary(self, names: Iterable[str]) -> None:
        for name in names:
            if name.startswith(disk.TEMPORARY):
                disk.remove(os.path.join(self.path, name))

    def _create(self, wait: float) -> None:
        if self.read_only:
            raise DatabaseError(f"{self.path} holds no database",
                                hint="connect without read_only=True to make one")
        strange = [n for n in os.listdir(self.path)
                   if n not in (_DATA, _LOCK) and not n.startswith(disk.TEMPORARY)]
        if strange and not self._generations():
            raise DatabaseError(
                f"{self.path} is not a database, and not empty: it holds {strange[0]!r}",
                hint="give the path of a new folder")
        self._writer = locks.lock_writer(os.path.join(self.path, _LOCK), wait)
        try:
            if not self._generations():
                os.makedirs(self.data, exist_ok=True)
                disk.sync(os.path.dirname(self.path))
                self.commit(self.state)
        finally:
            self.end()

    # -- the end ------------------------------------------------------------------------------
    def relearn(self, state: State[Entry]) -> State[Entry]:
        """The state with what has been learned of its tensors since they were written."""
        tensors = dict(state.tensors)
        for name, entry in tensors.items():
            if entry in self._loaded:
                stored = self._loaded[entry]
                forms = [
                    form if text is None else replace(form, statistics=self._keep_text(text))
                    for form, text in zip(entry.forms, self._news(entry, stored))]
                tensors[name] = replace(entry, forms=tuple(forms))
        return replace(state, tensors=tensors)

    def has_learned(self) -> bool:
        """Whether ``relearn`` has anything to say."""
        return any(t is not None for e, s in self._loaded.items() for t in self._news(e, s))

    def _news(self, entry: Entry, stored: Stored) -> list[bytes | None]:
        forms = (stored, *alternatives(stored))
        return [statistics.learned(s, b) for s, b in zip(forms, self._learned[entry])]

    def close(self) -> None:
        """Let go of the catalog; mapped tensors stay readable."""
        with self._guard:
            self._loaded.clear()
            self._learned.clear()
            self.end()
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def __del__(self) -> None:
        for file in (self._held, self._writer):
            if file is not None:
                os.close(file)

    def forked(self) -> None:
        """In the child of a fork: the parent alone writes. Closing lets go of no lock, as the
        parent has the same file open."""
        self._guard = threading.RLock()
        self.end()


def _stats(stored: Stored) -> TensorStats | None:
    return cast("TensorStats | None", stored.facts.get("stats"))
