"""Peers that need not be installed, with their time limits; what a case adds to the suite's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from optimizer import native
from suite.case import Job, Peer, Problem

#: The label of the hand-written loop: a target of its own, not one of the peers.
LOOP = "c loop"
WHOLE = "tensorel all nodes"  # our own program for all of the answer, beside one for a part of it
#: A query that runs longer is interrupted and counts as not run.
QUERY_SECONDS = 5.0
#: Products of more multiplications are not given to a naive peer: a result may have as many
#: entries of 12 bytes. Its time is estimated from smaller data.
MOST_WORK = 4e8


class Stopped(Exception):
    """A peer that ran into its limit of so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"stopped after {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Contest(Problem):
    """planned: the lazy program to plan when ours is a loop around it. read: from our result to
    the form that the peers' results are compared in. trail: one line for each round of such a
    loop, what is stored how. share: the parts of the whole program's multiplications, and of the
    numbers that it reads at entries, that the asked part of the answer needs."""

    planned: Job | None = None
    read: Callable[[Any], Any] | None = None
    trail: Callable[[], list[str]] | None = None
    share: tuple[float, float] | None = None


@dataclass(frozen=True)
class Heavy(Peer):
    """A peer whose time goes with ``work`` multiplications."""

    work: float = 0.0


def c_loop(make: Callable[[], Job], read: Callable[[Any], Any] | None = None) -> Peer:
    """The hand-written loop; ``make`` binds its arguments."""
    why = native.missing()
    return Peer("c", "loop", None if why else make(), skip=why, read=read)


def torch_peer(form: str, make: Callable[[Any], Job], skip: str = "",
               read: Callable[[Any], Any] | None = None) -> Peer:
    """``make`` gets the torch module and returns the job; ``read`` gets its result as SciPy's."""
    if skip or find_spec("torch") is None:
        return Peer("torch", form, skip=skip or "not installed")
    torch = import_module("torch")
    torch.sparse.check_sparse_tensor_invariants.disable()
    return Peer("torch", form, make(torch), read=_from_torch if read is None
                else lambda result: read(_from_torch(result)))


def _from_torch(result: Any) -> Any:
    if str(result.layout) == "torch.sparse_csr":
        parts = (result.values(), result.col_indices(), result.crow_indices())
        return sp.csr_array(tuple(p.numpy() for p in parts), shape=tuple(result.shape))
    return result.to_dense().numpy()


def torch_csr(torch: Any, a: Any) -> Any:
    parts = (torch.from_numpy(x) for x in (a.indptr, a.indices, a.data))
    return torch.sparse_csr_tensor(*parts, size=a.shape)


def duck_peer(form: str, sql: str, tables: Mapping[str, Mapping[str, Any]],
              read: Callable[[Any], Any] | None = None) -> Peer:
    """``sql`` over tables of columns. The result comes as NumPy columns; ``read`` compares it."""
    if find_spec("duckdb") is None:
        return Peer("duckdb", form, skip="not installed")
    db: Any = import_module("duckdb").connect()
    for name, columns in tables.items():
        db.register("given", {k: np.asarray(v) for k, v in columns.items()})
        db.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        db.unregister("given")

    def job() -> Any:
        timer = threading.Timer(QUERY_SECONDS, db.interrupt)
        start = time.perf_counter()
        timer.start()
        try:
            return db.execute(sql).fetchnumpy()
        except Exception as error:
            if time.perf_counter() - start < QUERY_SECONDS:
                raise
            raise Stopped(QUERY_SECONDS) from error
        finally:
            timer.cancel()

    return Peer("duckdb", form, job, read=read or first_number)


def first_number(columns: Mapping[str, Any]) -> Any:
    return np.float64(next(iter(columns.values()))[0])


def coo(a: Any) -> dict[str, Any]:
    """A CSR matrix as a relation (i, j, v)."""
    rows = np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr))
    return {"i": rows, "j": a.indices, "v": a.data}


def vector(x: Any) -> dict[str, Any]:
    return {"i": np.arange(x.size, dtype=np.int32), "v": x}


def matrix_of(shape: tuple[int, int]) -> Callable[[Any], Any]:
    return lambda c: sp.csr_array((c["v"], (c["i"], c["j"])), shape=shape)


def vector_of(size: int) -> Callable[[Any], Any]:
    def read(c: Any) -> Any:
        out = np.zeros(size)
        out[c["i"]] = c["v"]
        return out

    return read


def gram_work(a: Any) -> float:
    """Multiplications of A.T @ A."""
    return float((np.diff(a.indptr).astype(np.float64) ** 2).sum())


def too_much(work: float) -> str:
    return f"{work:.1e} multiplications" if work > MOST_WORK else ""


def guarded(library: str, form: str, job: Job, work: float,
            read: Callable[[Any], Any] | None = None) -> Peer:
    """A peer that is left out where its form has too much work."""
    why = too_much(work)
    return Heavy(library, form, None if why else job, skip=why, read=read, work=work)
