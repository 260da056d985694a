"""Databases: named tensors in a folder or in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tensorel import config as settings
from tensorel.catalog.folder import Folder
from tensorel.catalog.formats import shown
from tensorel.catalog.memory import Memory
from tensorel.catalog.records import State
from tensorel.catalog.transactions import Session
from tensorel.engines.registry import engine_for
from tensorel.errors import KeyError_, StorageError, TypeError_
from tensorel.front.array.base import from_stored
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.labels.alignment import axes_of_tensor
from tensorel.front.languages.sql import sql
from tensorel.io.blocked.source import About
from tensorel.ir.nodes import const
from tensorel.storage.limits import show_bytes

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor
    from tensorel.front.queries.query import Query

Path = str | os.PathLike[str]
SHOWN_TENSORS = 20


def connect(path: Path | None = None, *, read_only: bool = False, wait: float = 5.0) -> Database:
    """The database in a folder, which is made if needed; without a path, one in memory.

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
        self._made: dict[str, tuple[object, Tensor | None]] = {}

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
        if found is not None:
            return from_stored(found)
        followed = self._derived(name)
        if followed is None:
            raise self._missing(name)
        return followed

    def __setitem__(self, name: str, x: object) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError_(f"{name!r} is not the name of a tensor", hint="names are texts")
        t = asarray(x)
        if self._by_sites(name, t):
            return
        stored_of(t)  # computed before the lock is taken, so that no other writer waits for it
        with self.transaction():
            declared = self._session.state.declared
            if name not in declared:
                self._session.put(name, stored_of(t))
            elif _language().is_tensor(declared[name]):
                for part, value in _language().packed(name, declared, t).items():
                    self._session.put(part, stored_of(value))
            else:
                self._fill_as(name, declared[name], t)

    def _by_sites(self, name: str, t: Tensor) -> bool:
        """Whether the sites of an engine made the tensor, each of which wrote what it has."""
        store, config = self._session.store, settings.current()
        if t.given is not None or not isinstance(store, Folder) \
                or name in self._session.state.declared:
            return False
        engine = engine_for(config.engine, [t.node])
        if not engine.has_sites:
            return False
        write = partial(engine.write, t.node, settings.with_overrides(config, engine=engine),
                        fill=const(t.fill, t.dtype))
        about = About(t.shape, t.dtype, t.fill)
        self._session.put_by(name, lambda: store.keep_parts(about, axes_of_tensor(t), write))
        return True

    def __delitem__(self, name: str) -> None:
        with self.transaction():
            if name not in self and name not in self._session.state.declared:
                raise self._missing(name)
            self._session.remove(name)

    def __contains__(self, name: object) -> bool:
        state = self._session.state
        return name in state.tensors or name in self._followed(state)

    def __iter__(self) -> Iterator[str]:
        state = self._session.state
        return iter([*state.tensors, *self._followed(state)])

    def __len__(self) -> int:
        state = self._session.state
        return len(state.tensors) + len(self._followed(state))

    def _followed(self, state: State[Any]) -> list[str]:
        """The declared tensors whose values are all there."""
        declared = state.declared
        return [n for n, text in declared.items() if _language().is_tensor(text)
                and state.tensors.keys() >= set(_language().script_of(n, declared)[1])]

    def _derived(self, name: str) -> Tensor | None:
        """The tensor that a CREATE TENSOR declares; the same object while its values are the
        same."""
        declared = self._session.state.declared
        if name not in declared or not _language().is_tensor(declared[name]):
            return None
        script, values = _language().script_of(name, declared)
        held = self._session.load_some(values)
        key = script, tuple([held.get(n) for n in values])
        before = self._made.get(name)
        if before is None or before[0] != key:
            tensors = {n: from_stored(s) for n, s in held.items()}
            before = self._made[name] = key, _language().derived(name, declared, tensors.get)
        return before[1]

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
        found = {name: from_stored(s) for name, s in self._session.load_all().items()}
        return found | {name: self[name] for name in self._followed(self._session.state)}

    def _missing(self, name: object) -> KeyError_:
        import difflib  # for this error alone

        text = self._session.state.declared.get(str(name))
        if text is not None:
            return KeyError_(f"{name!r} is declared and has no value yet: {text}",
                             hint=f"give it one: db[{name!r}] = ...")
        names = list(self)
        near = difflib.get_close_matches(str(name), names, n=1)
        shown = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
        return KeyError_(
            f"{self._session.where} holds no tensor {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"it holds {shown or 'none yet'}")

    # -- the language -------------------------------------------------------------------------
    def execute(self, script: str) -> Tensor | None:
        """Keep the CREATE statements of an SDQLite script; the value of the expression at its
        end, lazy, if there is one.

        >>> import tensorel as tr
        >>> db = tr.connect()
        >>> db.execute('''CREATE int SCALAR N; CREATE real ARRAY V(N*N);
        ...     CREATE TENSOR C AS sum(<i,_> in 0:N, <j,_> in 0:N) { (i,j) -> V(i*N+j) }''')
        >>> db["N"], db["V"] = 2, [1, 2, 3, 4]
        >>> db.query("sum(<(i,j), v> in C) { i -> v }").tolist()
        [3.0, 7.0]
        """
        parsed = _language().parse_script(_program(script))
        with self.transaction():
            for name, text in _language().declarations(parsed).items():
                self._declare(name, text)
        if parsed.result is None:
            return None
        return self.query(_language().show(parsed.result))

    def _declare(self, name: str, text: str) -> None:
        state = self._session.state
        before = state.declared.get(name)
        if before == text:
            return
        if before is not None or (name in state.tensors and _language().is_tensor(text)):
            raise StorageError(
                f"{name!r} is there already: {before or 'a tensor'}",
                hint=f"remove it first: del db[{name!r}]")
        if name in state.tensors:
            self._fill_as(name, text, self[name])
        self._session.declare({name: text})

    def _fill_as(self, name: str, text: str, x: object) -> None:
        """Keep a value as its statement declares it."""
        self._session.put(name, stored_of(_language().fitted(name, text, x, self.get)))

    def query(self, text: str, **tensors: object) -> Tensor:
        """The lazy value of an SDQLite expression over the database's tensors and those given.

        >>> import tensorel as tr
        >>> db = tr.connect()
        >>> db["A"] = [[1.0, 2.0], [0.0, 3.0]]
        >>> db.query("sum(<(i, j), a> in A, <j, x> in X) { i -> a * x }", X=[10, 1]).tolist()
        [12.0, 3.0]
        """
        names = _language().wanted(_program(text))
        given: dict[str, object] = {n: x for n, x in tensors.items() if n in names}
        held = self._session.load_some(names - given.keys())
        given |= {n: from_stored(s) for n, s in held.items()}
        declared = self._session.state.declared
        given |= {n: self[n] for n in sorted(names - given.keys()) if n in declared}
        return _language().sdql(text, **given)  # type: ignore[no-any-return]

    def sql(self, text: str, /, **relations: object) -> Query:
        """The rows of an SQL query over the database's tensors and relations given, lazily.

        >>> import tensorel as tr
        >>> db = tr.connect()
        >>> db["A"] = [[1.0, 2.0], [0.0, 3.0]]
        >>> db.sql("SELECT i0, SUM(val) FROM A GROUP BY i0 ORDER BY 1").rows()
        [(0, 3.0), (1, 3.0)]
        """
        names = _sql().relations_in(_program(text)) - {n.lower() for n in relations}
        held = {n: self[n] for n in self if n.lower() in names}
        return sql(text, **{**held, **relations})

    # -- transactions -------------------------------------------------------------------------
    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """A block whose changes become visible and durable together when it ends, or not at all if
        it raises. It sees the state at its start and its own changes; other writers wait.

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
        """Close the folder. Tensors that came from it stay usable. What was learned of them while
        planning is kept for later processes."""
        self._session.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the folder itself.
        store = self._session.store
        if store.path is None:
            raise TypeError_("a database in memory cannot be sent to another process",
                             hint="use a folder: tr.connect(path)")
        return _reconnect, (store.path, store.read_only, self._session.wait)

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
            called = name if name.isprintable() else repr(name)
            formats = ", ".join(map(shown, about.formats))
            rows.append((called, str(about.shape), about.dtype, formats, show_bytes(about.nbytes)))
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            lines.append("  " + "  ".join(map(str.ljust, row, widths)).rstrip())
        lines += ["  ..."] if count > SHOWN_TENSORS else []
        return "\n".join([*lines, *(f"  {text}" for text in state.declared.values())])


def _reconnect(path: str, read_only: bool, wait: float) -> Database:
    return connect(path, read_only=read_only, wait=wait)


def _program(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError_(f"a program is a text, not {type(text).__name__}")
    return text


def _sql() -> Any:
    """``sql.parsing``, loaded with the first query."""
    return import_module("tensorel.sql.parsing")


def _language() -> Any:
    """``front.database.statements``, loaded when a database first needs the language."""
    return import_module("tensorel.front.database.statements")
