"""Databases: named tensors in a folder or in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tensorel.catalog.folder import Folder
from tensorel.catalog.memory import Memory
from tensorel.catalog.session import Session
from tensorel.errors import KeyError_, TypeError_
from tensorel.front.base import from_stored
from tensorel.front.convert import asarray, stored_of
from tensorel.storage.limits import show_bytes

if TYPE_CHECKING:
    from tensorel.front.array import Tensor

Path = str | os.PathLike[str]
SHOWN_TENSORS = 20


def connect(path: Path | None = None, *, read_only: bool = False, wait: float = 5.0) -> Database:
    """The database in a folder, which is made if it is not there; without a path, one in memory.

    A folder may be open in many processes. One of them writes at a time; another that wants to
    write waits up to ``wait`` seconds for it. Readers never wait.

    >>> import tensorel as tr
    >>> with tr.connect() as db:
    ...     db["A"] = [[0.0, 2.0], [3.0, 0.0]]
    ...     (db["A"] @ db["A"]).sum().item()
    12.0
    """
    if path is None:
        return Database(Session(Memory(), wait))
    try:
        place = os.fspath(path)
    except TypeError:
        raise TypeError_(f"connect: {path!r} is not a path") from None
    if not isinstance(place, str) or not place or "\0" in place:
        raise TypeError_(f"connect: {path!r} is not a path", hint="write e.g. tr.connect('folder')")
    return Database(Session(Folder(place, read_only, wait), wait))


class Database(MutableMapping[str, "Tensor"]):
    """Named tensors. ``db["A"] = x`` keeps whatever ``tr.asarray`` takes, in its format; a lazy
    tensor is computed. ``db["A"]`` is the tensor, over memory-mapped files where there are any.

    Each assignment is durable when it returns; ``with db.transaction():`` unites several.
    """

    def __init__(self, session: Session[Any]) -> None:
        self._session = session

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def path(self) -> str | None:
        """The folder; None in memory."""
        return self._session.store.path

    # -- tensors by name ----------------------------------------------------------------------
    def __getitem__(self, name: str) -> Tensor:
        found = self._session.load(name)
        if found is None:
            raise self._missing(name)
        return from_stored(found)

    def __setitem__(self, name: str, x: object) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError_(f"{name!r} is not the name of a tensor", hint="names are texts")
        self._session.put(name, stored_of(asarray(x)))

    def __delitem__(self, name: str) -> None:
        with self.transaction():
            if name not in self:
                raise self._missing(name)
            self._session.remove(name)

    def __contains__(self, name: object) -> bool:
        return name in self._session.state.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._session.state.tensors))

    def __len__(self) -> int:
        return len(self._session.state.tensors)

    def update(self, *others: Any, **named: object) -> None:
        """Keep several tensors in one transaction, from a mapping, pairs or keywords."""
        with self.transaction():
            super().update(*others, **named)

    def clear(self) -> None:
        """Remove all tensors in one transaction."""
        with self.transaction():
            super().clear()

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of one state by name; nothing is read until it is used."""
        return {name: from_stored(s) for name, s in self._session.load_all().items()}

    def _missing(self, name: object) -> KeyError_:
        import difflib  # for this error alone

        names = list(self._session.state.tensors)
        near = difflib.get_close_matches(str(name), names, n=1)
        shown = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
        return KeyError_(
            f"{self._session.where} holds no tensor {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"it holds {shown or 'none yet'}")

    # -- transactions -------------------------------------------------------------------------
    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """A block whose changes become visible and durable together when it ends, or not at all if
        it raises. It sees the state at its begin and its own changes; other writers wait.

        >>> import tensorel as tr
        >>> db = tr.connect()
        >>> with db.transaction():
        ...     db["x"] = [1, 2]
        ...     db["y"] = db["x"] * 2
        >>> db["y"].tolist()
        [2, 4]
        """
        with self._session.transaction():
            yield self

    def verify(self) -> None:
        """Read every file and compare it with its checksum; an error names the first that is
        damaged."""
        self._session.state  # noqa: B018  a closed database says so
        self._session.store.verify()

    def close(self) -> None:
        """Let go of the folder. Tensors that came from it stay usable. What was learned of them
        while planning is kept for later processes."""
        self._session.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    # -- printing -----------------------------------------------------------------------------
    def __repr__(self) -> str:
        place = "in memory" if self.path is None else repr(self.path)
        if self._session.closed:
            return f"Database({place}, closed)"
        state, store = self._session.state, self._session.store
        count = len(state.tensors)
        lines = [f"Database({place}, {count} tensor{'' if count == 1 else 's'})"]
        rows = []
        for name, entry in list(state.tensors.items())[:SHOWN_TENSORS]:
            about = store.about(entry)
            shown = name if name.isprintable() else repr(name)
            rows.append((shown, str(about.shape), about.dtype, ", ".join(about.formats),
                         show_bytes(about.nbytes)))
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            lines.append("  " + "  ".join(map(str.ljust, row, widths)).rstrip())
        return "\n".join([*lines, "  ..."] if count > SHOWN_TENSORS else lines)
