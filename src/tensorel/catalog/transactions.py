"""Transactions of threads over one store.

A thread in a transaction sees its own changes; all others see the last committed state and never
wait. A second thread that wants to write waits for the first, as another process does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from tensorel.catalog.records import About, State
from tensorel.errors import DatabaseError
from tensorel.storage.stored import Stored

E = TypeVar("E")


class Store(Protocol[E]):
    """What a session is over: a folder or memory."""

    @property
    def path(self) -> str | None: ...
    @property
    def read_only(self) -> bool: ...
    def current(self) -> State[E]: ...
    def load(self, entry: E) -> Stored: ...
    def about(self, entry: E) -> About: ...
    def verify(self) -> None: ...
    def begin(self, wait: float) -> State[E]: ...
    def end(self) -> None: ...
    def keep(self, stored: Stored) -> E: ...
    def commit(self, state: State[E]) -> None: ...
    def has_learned(self) -> bool: ...
    def relearn(self, state: State[E]) -> State[E]: ...
    def close(self) -> None: ...
    def forked(self) -> None: ...


class _Open(Generic[E]):
    """A transaction that has begun."""

    def __init__(self, state: State[E]) -> None:
        self.thread = threading.get_ident()
        self.before = self.state = state


class Session(Generic[E]):
    """The tensors by name, and transactions on them."""

    def __init__(self, store: Store[E], wait: float) -> None:
        self.store = store
        self.wait = wait
        self._turn = threading.Lock()
        self._open: _Open[E] | None = None
        self.closed = False
        _sessions.add(self)

    @property
    def where(self) -> str:
        return "the database in memory" if self.store.path is None else self.store.path

    def _mine(self) -> _Open[E] | None:
        found = self._open
        return found if found is not None and found.thread == threading.get_ident() else None

    @property
    def state(self) -> State[E]:
        """What this thread sees."""
        if self.closed:
            raise DatabaseError(f"{self.where} is closed", hint="connect again with tr.connect")
        mine = self._mine()
        return self.store.current() if mine is None else mine.state

    def load(self, name: str) -> Stored | None:
        """The tensor of that name."""
        return self.load_some((name,)).get(name)

    def load_some(self, names: Iterable[str]) -> dict[str, Stored]:
        """The tensors of one state that have one of these names."""
        return self._steadily(lambda state: state.tensors.keys() & set(names))

    def load_all(self) -> dict[str, Stored]:
        """All tensors of one state."""
        return self._steadily(lambda state: state.tensors)

    def _steadily(self, choose: Callable[[State[E]], Iterable[str]]) -> dict[str, Stored]:
        """Tensors of one state. If another thread goes on to a later state meanwhile, files of this
        one may be gone: then the later one is read."""
        while True:
            state = self.state
            try:
                return {n: self.store.load(state.tensors[n]) for n in choose(state)}
            except DatabaseError:
                if self.state is state:
                    raise

    # -- writing ------------------------------------------------------------------------------
    def put(self, name: str, stored: Stored) -> None:
        self.put_by(name, lambda: self.store.keep(stored))

    def put_by(self, name: str, keep: Callable[[], E]) -> None:
        """Keep what ``keep`` has written, within the transaction."""
        with self.transaction() as mine:
            entry = keep()
            mine.state = replace(mine.state, tensors={**mine.state.tensors, name: entry})

    def remove(self, name: str) -> None:
        """Remove the tensor and the statement that declares it."""
        with self.transaction() as mine:
            state = mine.state
            mine.state = replace(
                state, tensors={n: e for n, e in state.tensors.items() if n != name},
                declared={n: t for n, t in state.declared.items() if n != name})

    def declare(self, texts: Mapping[str, str]) -> None:
        """Keep the statements that declare these names."""
        with self.transaction() as mine:
            mine.state = replace(mine.state, declared={**mine.state.declared, **texts})

    @contextmanager
    def transaction(self) -> Iterator[_Open[E]]:
        """All changes of the block become visible together, or none of them. A block within a
        block is part of it; if it fails, its own changes are undone."""
        assert self.state is not None
        mine = self._mine()
        if mine is not None:
            saved = mine.state
            try:
                yield mine
            except BaseException:
                mine.state = saved
                raise
            return
        with self._taking_turns():
            mine = self._open = _Open(self.store.begin(self.wait))
            try:
                yield mine
                if mine is self._open and mine.state is not mine.before:
                    self.store.commit(mine.state)
            finally:
                if mine is self._open:  # not so in the child of a fork
                    self._open = None
                    self.store.end()

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        turn = self._turn
        if not turn.acquire(timeout=self.wait):
            raise DatabaseError(f"{self.where} is being written by another thread",
                                hint="wait for it to end, or connect with a longer wait=")
        try:
            yield
        finally:
            turn.release()

    # -- the end ------------------------------------------------------------------------------
    def close(self) -> None:
        """Keep what was learned of the tensors, unless another process writes; close the store."""
        if self.closed:
            return
        if self._mine() is not None:
            raise DatabaseError(f"{self.where} is in a transaction", hint="end the block first")
        if not self.store.read_only and self.store.has_learned():
            wait, self.wait = self.wait, 0.0
            with suppress(DatabaseError), self.transaction() as mine:
                mine.state = self.store.relearn(mine.state)
            self.wait = wait
        self.closed = True
        self.store.close()

    def forked(self) -> None:
        """In the child of a fork: a transaction is the parent's."""
        self._turn, self._open = threading.Lock(), None
        self.store.forked()


_sessions: WeakSet[Session[Any]] = WeakSet()


def _after_fork() -> None:
    for session in list(_sessions):
        session.forked()


os.register_at_fork(after_in_child=_after_fork)
