"""A database in a folder.

    tensorel-database            says that the folder is a database, with its tag (see ``marker``)
    lock                         locked by the process that writes
    writer.json                  who that is
    catalog-000000000012.json    what the database holds since commit 12; the last one counts
    data/<tag>-<sha256>.npy      physical arrays
    data/<tag>-<sha256>.json     statistics

Files are never changed. A commit writes new data files, synchronizes them and their folder, and
then makes the next catalog appear by one rename: readers, also after a crash, find the old catalog
or the new one, and all files that it names. A file that is in the folder and in no catalog may be
half synchronized, so it is never relied on. A reader holds a shared lock on the catalog that it
uses. The next commit removes catalogs without readers, data files that only these name, and files
with the database's tag that no catalog names, and nothing else.

Both folders are open as long as the database is, and files are opened in them (``directory``): no
link is followed, and renaming a folder does not lead us elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict
from dataclasses import replace
from functools import partial

import numpy as np

from tensorel.base.directory import Directory, read_whole
from tensorel.catalog import arrays, axis_files, disk, locks, marker, parts, statistics
from tensorel.catalog.formats import format_of, text_of
from tensorel.catalog.records import (
    DATA,
    About,
    ArrayFile,
    Entry,
    Form,
    State,
    checksum_of,
    damaged,
    files_of,
    from_text,
    is_of,
    statistics_file,
    stem,
    to_text,
)
from tensorel.errors import DatabaseError
from tensorel.io.blocked.gathering import gathered
from tensorel.io.blocked.source import About as Written
from tensorel.io.guard import DAMAGE
from tensorel.io.npz import fill_texts, fill_value
from tensorel.io.validate import checked, outside
from tensorel.stats.collected.facts import TensorStats
from tensorel.storage.convert import empty_result
from tensorel.storage.identity import AnyArray, compact
from tensorel.storage.stored import Stored
from tensorel.tables.labels import Axes

_CATALOG = re.compile(r"catalog-([0-9]{12})\.json")
#: No catalog and no statistics of ours have more bytes.
_MAX_FILE_BYTES = 1 << 30
#: How often a reader tries to lock the last catalog while others are committed.
_MAX_ATTEMPTS = 1000
#: Tensors that stay mapped.
_MAX_MAPPED_TENSORS = 128


class Folder:
    """The store of a database on disk. One thread at a time may be between ``begin`` and ``end``,
    which callers ensure."""

    _writer: int | None = None
    _held: int | None = None
    _data: Directory

    def __init__(self, path: str, read_only: bool = False, wait: float = 5.0) -> None:
        self.path = os.path.abspath(path)
        self.read_only = read_only
        self._swept = False
        self._there: set[str] = set()
        self._guard = threading.RLock()
        self._loaded: OrderedDict[Entry, Stored] = OrderedDict()
        self._learned: dict[Entry, list[TensorStats | None]] = {}
        self.state: State[Entry] = State(0, {}, {})
        self._seen: dict[int, State[Entry]] = {}
        with disk.telling(f"{self.path} cannot be opened"):
            made = not read_only and disk.make_folder(self.path)
            self._root = Directory.at(self.path)
            #: None in a database of an earlier version, until it is written to.
            self._tag = marker.read(self._root)
            if not self._generations():
                self._create(wait, made)
            self._hold()
            self._data = self._root.folder(DATA)
            disk.warn_if_open_to_all(self._root, self._data)

    # -- reading ------------------------------------------------------------------------------
    def _generations(self) -> list[int]:
        found = (_CATALOG.fullmatch(name) for name in self._root.names())
        return sorted([int(m[1]) for m in found if m])

    def _catalog(self, generation: int) -> str:
        return f"catalog-{generation:012d}.json"

    def _hold(self) -> None:
        """Lock and read the last catalog."""
        for _ in range(_MAX_ATTEMPTS):
            newest = max(self._generations(), default=0)
            if newest and newest == self.state.generation:
                return
            file = locks.share(self._root, self._catalog(newest)) if newest else None
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
        where = self._root.place(self._catalog(generation))
        with open(file, "rb", closefd=False) as stream:
            state = from_text(read_whole(stream, _MAX_FILE_BYTES), where)
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
        forms = [self._form(entry, form, entry.shape) for form in entry.forms]
        if entry.parts is not None:
            forms = [gathered(parts.source_of(entry, partial(self.part, entry), self.path),
                              self.path)]
        if forms[1:]:
            forms[0].alternatives = tuple(forms[1:])
        forms[0].axes = axis_files.loaded(
            entry.axes, entry.shape, lambda a: arrays.mapped(self._data, a), self.path)
        self._learned[entry] = [form.derived.stats for form in forms[:len(entry.forms)]]
        return forms[0]

    def part(self, entry: Entry, key: tuple[int, ...]) -> Stored:
        """A block of a tensor in parts, over mapped files."""
        assert entry.parts is not None
        form, shape = parts.form_at(entry, key), entry.parts.shape(key)
        if form is not None:
            return self._form(entry, form, shape)
        dtype = np.dtype(entry.dtype)
        return empty_result(shape, dtype, fill_value(list(entry.fill), dtype, self.path), "coo")

    def _form(self, entry: Entry, form: Form, shape: tuple[int, ...]) -> Stored:
        dtype = np.dtype(entry.dtype)
        format_ = format_of(form.format, self.path, shape, dtype)
        fill = fill_value(list(entry.fill), dtype, self.path)
        found = {n: arrays.mapped(self._data, a) for n, a in form.arrays}
        made = outside(format_, shape, dtype, fill, found, self.path)
        if form.statistics is not None:
            statistics.give(made, self._statistics(form.statistics, shape))
        return made

    def _statistics(self, stem: str, shape: tuple[int, ...]) -> TensorStats:
        name = statistics_file(stem)
        path = self._data.place(name)
        with disk.telling(f"{path} cannot be read"):
            text = self._data.read(name, _MAX_FILE_BYTES)
        if hashlib.sha256(text).hexdigest() != checksum_of(stem):
            raise damaged(path)
        try:
            return statistics.from_text(text, shape)
        except DAMAGE as error:
            raise damaged(path) from error

    def _forget(self) -> None:
        while len(self._loaded) > _MAX_MAPPED_TENSORS:
            entry, _ = self._loaded.popitem(last=False)
            del self._learned[entry]

    def verify(self) -> None:
        """Read all files of the last state and compare their checksums; check that the arrays form
        tensors."""
        for name, entry in self.current().tensors.items():
            for file in entry.files():
                arrays.verify(self._data, file)
            if entry.parts is None:
                loaded = self._load(entry)
                forms = (loaded, *loaded.alternatives)
            else:
                forms = tuple([self.part(entry, at) for at, _ in entry.parts.forms])
            for form in forms:
                checked(form.format, form.shape, form.dtype, form.fill, form.arrays,
                        f"{self.path}[{name!r}]")

    # -- writing ------------------------------------------------------------------------------
    def begin(self, wait: float) -> State[Entry]:
        """Lock out other writers; the state to start from."""
        if self.read_only:
            raise DatabaseError(f"{self.path} is open for reading only",
                                hint="connect without read_only=True to write")
        with disk.telling(f"{self.path} cannot be written"):
            self._writer = locks.lock_writer(self._root, wait)
            try:
                found = self.current()
                self._tag = marker.read(self._root) or marker.mark(self._root)
                locks.sign(self._root, self._tag)
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
        self._swept = False  # if this transaction fails, its files belong to no catalog
        forms = tuple([self._keep(form) for form in (stored, *stored.alternatives)])
        axes = axis_files.kept(stored.axes, self._keep_array)
        return Entry(stored.shape, stored.dtype.name, tuple(fill_texts(stored.fill)), forms, axes)

    def keep_parts(self, about: Written, axes: Axes | None, write: parts.Writing) -> Entry:
        """Have a tensor's files written by those who have its blocks; they count once a state with
        the entry is committed."""
        assert self._tag is not None, "keep without begin"
        self._swept = False
        found = parts.written(self.path, self._tag, about, write)
        self._there.update(found.files())
        return replace(found, axes=axis_files.kept(axes, self._keep_array))

    def _keep_array(self, array: AnyArray) -> ArrayFile:
        assert self._tag is not None, "keep without begin"
        found = arrays.keep(self._data, array, self._there, self._tag)
        self._there.add(found.file)
        return found

    def _keep(self, stored: Stored) -> Form:
        text = text_of(stored)
        found = [(n, self._keep_array(a)) for n, a in compact(stored).items()]
        return Form(text, tuple(found), self._keep_text(statistics.gathered(stored)))

    def _keep_text(self, text: bytes | None) -> str | None:
        if text is None:
            return None
        assert self._tag is not None, "keep without begin"
        made = stem(self._tag, hashlib.sha256(text).hexdigest())
        name = statistics_file(made)
        with disk.telling(f"{self._data.place(name)} cannot be written"):
            if name not in self._there:
                disk.write_new(self._data, name, (text,), self._tag)
        self._there.add(name)
        return made

    def commit(self, state: State[Entry]) -> None:
        """Make ``state`` the last one: whatever happens, the old state or this one survives."""
        assert self._writer is not None and self._tag is not None, "commit without begin"
        new = replace(state, generation=self.state.generation + 1)
        name = self._catalog(new.generation)
        with disk.telling(f"{self._root.place(name)} cannot be written"):
            disk.sync_all(self._data, files_of(new) - files_of(self.state))
            disk.write_new(self._root, name, (to_text(new),), self._tag, durable=True)
            self._root.sync()
        self._seen[new.generation] = new
        with self._guard, disk.telling(f"{self.path} cannot be read"):
            self._hold()
            self._collect()

    def _collect(self) -> None:
        """Remove catalogs without readers, files that only these name, and files of ours that no
        catalog names."""
        used, dropped = files_of(self.state), set[str]()
        for generation in self._generations():
            if generation == self.state.generation:
                continue
            try:
                files = files_of(self._peek(generation))
            except (DatabaseError, OSError):
                return  # what it names is not known: nothing is removed
            if locks.remove_unshared(self._root, self._catalog(generation)):
                dropped |= files
            else:
                used |= files
        if not self._swept:
            dropped.update(self._nobodys(self._data))
            for name in self._nobodys(self._root):
                self._root.remove(name)
            self._swept = True
        for name in dropped - used:
            self._data.remove(name)

    def _nobodys(self, folder: Directory) -> list[str]:
        """Files that were written to this database, and may be in no catalog."""
        assert self._tag is not None
        return [n for n in folder.names()
                if disk.tag_of(n) == self._tag or (folder is self._data and is_of(self._tag, n))]

    def _peek(self, generation: int) -> State[Entry]:
        with open(self._root.open(self._catalog(generation)), "rb") as stream:
            return self._read(generation, stream.fileno())

    def _create(self, wait: float, made: bool) -> None:
        """Make an empty folder a database, or finish what another process began. ``made``: the
        folder itself is new."""
        if self.read_only:
            raise DatabaseError(f"{self.path} holds no database",
                                hint="connect without read_only=True to make one")
        if self._tag is None:
            self._tag = marker.claim(self._root)
        self._writer = locks.lock_writer(self._root, wait)
        try:
            if not self._generations():
                self._root.make_folder(DATA, 0o775)
                self._data = self._root.folder(DATA)
                if self._data.names():
                    raise DatabaseError(f"{self.path} has lost its catalog; its data are there",
                                        hint="restore the folder from a copy")
                if made:
                    disk.sync_parent(self.path)
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
        """Whether ``relearn`` would change the state."""
        return any(t is not None for e, s in self._loaded.items() for t in self._news(e, s))

    def _news(self, entry: Entry, stored: Stored) -> list[bytes | None]:
        forms = (stored, *stored.alternatives)
        return [statistics.learned(s, b) for s, b in zip(forms, self._learned[entry])]

    def close(self) -> None:
        """Unlock the catalog; mapped tensors stay readable."""
        with self._guard:
            self._loaded.clear()
            self._learned.clear()
            self.end()
            if self._held is not None:
                os.close(self._held)
                self._held = None
            self._root.close()
            self._data.close()

    def __del__(self) -> None:
        for file in (self._held, self._writer):
            if file is not None:
                os.close(file)

    def forked(self) -> None:
        """In the child of a fork: only the parent goes on writing. Closing the file here releases
        no lock, because the parent has it open too."""
        self._guard = threading.RLock()
        self.end()
