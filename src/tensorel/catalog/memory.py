"""A database in memory."""

from __future__ import annotations

from tensorel.catalog.records import About, State
from tensorel.storage.stored import Stored


class Memory:
    """The store of a database that ends with the process. Arrays are not copied."""

    path = None
    read_only = False

    def __init__(self) -> None:
        self.state: State[Stored] = State(0, {}, {})

    def current(self) -> State[Stored]:
        return self.state

    def load(self, entry: Stored) -> Stored:
        return entry

    def about(self, entry: Stored) -> About:
        forms = (entry, *entry.alternatives)
        return About(entry.shape, entry.dtype.name, tuple([f.format.text for f in forms]),
                     sum([f.nbytes for f in forms]))

    def verify(self) -> None:
        return None

    def begin(self, wait: float) -> State[Stored]:
        return self.state

    def end(self) -> None:
        return None

    def keep(self, stored: Stored) -> Stored:
        return stored

    def commit(self, state: State[Stored]) -> None:
        self.state = State(self.state.generation + 1, state.tensors, state.declared)

    def has_learned(self) -> bool:
        return False

    def relearn(self, state: State[Stored]) -> State[Stored]:
        return state

    def close(self) -> None:
        self.state = State(0, {}, {})

    def forked(self) -> None:
        return None
