"""The table of costs at huge extents: each program on each storage, in a process of its own
choosing that is watched: time and memory of a call whose kernels are compiled, the bytes of its
result, and the entries of the result beside those of the same program at a small extent.

    python tests/engine/huge_extents.py              all cells, the summary and what fails
    python tests/engine/huge_extents.py --table      the table as text
    python tests/engine/huge_extents.py --only dok --case "a @"
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from huge_cases import CASES, CREATION, IN_PROPORTION, STORAGES, Case, Storage, given, made
from huge_programs import random_program

import tensorel as tr
from tensorel.errors import TensorelError

EXTENTS = (2**27, 2**40)
SMALL = 16
MILLISECONDS, BYTES = 50.0, 10 * 10**6
ROOM = 3 * 2**30  # of address space, beyond what the process has when it starts
PATIENCE = 120.0  # seconds for a cell, compilation included, on a machine that does much else

Cell = tuple[str, str, int]  # storage, case, extent


@dataclass
class Outcome:
    """``kind``: answered, refused (with a reason, where the result is large by nature) or
    failed."""

    storage: str
    case: str
    extent: int
    kind: str
    milliseconds: float = 0.0
    peak: int = 0
    result: int = 0
    why: str = ""

    @property
    def text(self) -> str:
        size = max(self.peak, self.result) / 1e6
        return (f"{self.kind:9} 2^{self.extent.bit_length() - 1} {self.storage:18} {self.case:24} "
                f"{self.milliseconds:8.2f} ms {size:8.2f} MB  {self.why}")


MAKING, RANDOM = "make", "random"
_storages = {s.text: s for s in (*STORAGES, *IN_PROPORTION)}
_cases = {c.name: c for c in (*CASES, *CREATION)}


def cells(extents: Iterable[int] = EXTENTS) -> Iterator[Cell]:
    """All cells, storage by storage."""
    for n in extents:
        for s in STORAGES:
            for c in CASES:
                if len(s.axes) in c.ranks and c.needs(s.axes):
                    yield s.text, c.name, n
        for c in CREATION:
            yield STORAGES[0].text, c.name, n
        if n == max(EXTENTS):
            for s in IN_PROPORTION:
                yield s.text, MAKING, n


def programs(seeds: Iterable[int], extents: Iterable[int] = EXTENTS) -> Iterator[Cell]:
    """Random products."""
    for n in extents:
        for seed in seeds:
            yield RANDOM, str(seed), n


# -- inside the watched process --------------------------------------------------------------------
def settle(found: Any) -> list[Any]:
    """The stored results, of whatever a program gives."""
    if isinstance(found, tr.Tensor):
        return [found.compute()]
    if isinstance(found, (tuple, list)):
        return [r for part in found for r in settle(part)]
    return [found]


def held(results: list[Any]) -> int:
    return sum(getattr(r, "nbytes", 0) for r in results)


def spread(r: Any) -> tuple[Any, np.ndarray]:
    """The fill of a result and its other values in order."""
    if isinstance(r, tr.Tensor):
        values = r.to_coo()[1] if r.ndim else r.to_numpy().ravel()
        return r.fill.item(), np.sort(values)
    values = np.sort(np.atleast_1d(np.asarray(r)).ravel())
    return None, values


def compare(huge: list[Any], small: list[Any]) -> str:
    """What differs between the entries of results, if anything does."""
    if len(huge) != len(small):
        return f"{len(huge)} results, {len(small)} at a small extent"
    for h, s in zip(huge, small):
        fill, values = spread(h)
        if isinstance(s, tr.Tensor):
            other = np.sort(s.to_numpy().ravel())
            if s.ndim and fill is not None:
                same = np.isnan(other) if fill != fill else other == fill
                other = other[~same]
        else:
            other = spread(s)[1]
        if values.dtype.kind in "US":
            continue
        if values.shape != other.shape or not np.allclose(values, other, equal_nan=True):
            return (f"gives {values.tolist()[:6]} fill {fill}, "
                    f"at a small extent {other.tolist()[:6]}")
    return ""


def peak_of(call: Any) -> tuple[int, Any]:
    """Bytes at the worst moment of a call beyond those before it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = call()
        return tracemalloc.get_traced_memory()[1] - before, found
    finally:
        tracemalloc.stop()


def measured(storage: str, case: str, n: int) -> Outcome:
    if case == MAKING:
        return _making(_storages[storage], n)
    if storage == RANDOM:
        seed = int(case)
        return _measured(Case(case, lambda n: random_program(seed, n)), n, SMALL, "",
                         Outcome(storage, case, n, "answered"))
    s = _storages[storage]
    return _measured(_cases[case], _operands(s, n), _operands(s, SMALL), s.axes,
                     Outcome(storage, case, n, "answered"))


def _measured(c: Case, g: Any, small: Any, axes: str, out: Outcome) -> Outcome:
    """A program on its operands; ``small``: the same operands at a small extent."""
    try:
        settle(c.run(g))
        out.milliseconds = np.inf
        for _ in range(4):
            start = time.process_time()  # whatever else the machine does
            found = settle(c.run(g))
            out.milliseconds = min(out.milliseconds, 1e3 * (time.process_time() - start))
            if out.milliseconds < MILLISECONDS:
                break
        out.result = held(found)
        out.peak, _ = peak_of(lambda: settle(c.run(g)))
    except TensorelError as error:
        out.kind, out.why = "refused", f"{type(error).__name__}: {error.args[0]}"
        if not c.large(axes):
            out.kind = "failed"
        return out
    if out.milliseconds >= MILLISECONDS or max(out.peak, out.result) >= BYTES:
        out.kind, out.why = "failed", f"result {[_named(r) for r in found]}"
    elif not c.counts:
        out.why = compare(found, settle(c.run(small)))
        out.kind = "failed" if out.why else "answered"
    return out


def _named(r: Any) -> str:
    return f"{r.format}{r.shape}" if isinstance(r, tr.Tensor) else type(r).__name__


_given: dict[tuple[Storage, int], Any] = {}


def _operands(s: Storage, n: int) -> Any:
    if (s, n) not in _given:
        _given[s, n] = given(s, n)
    return _given[s, n]


def _making(s: Storage, n: int) -> Outcome:
    """A format in proportion to a huge axis is refused before anything is allocated."""
    out = Outcome(s.text, MAKING, n, "failed", why="was made")
    dtype = bool if s.format == "bitmap" else np.float64
    try:
        out.peak, _ = peak_of(lambda: made(s, n, dtype=dtype))
    except TensorelError as error:
        out.kind, out.why = "refused", f"{type(error).__name__}: {error.args[0]}"
    return out


def work() -> None:
    """Cells come in by line, outcomes go out by line."""
    warnings.simplefilter("ignore")
    status = Path("/proc/self/statm").read_text().split()
    room = int(status[0]) * os.sysconf("SC_PAGE_SIZE") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    print("ready", flush=True)
    for line in sys.stdin:
        storage, case, n = json.loads(line)
        try:
            with tr.options(memory=BYTES, effort="quick"):
                out = measured(storage, case, n)
        except BaseException as error:
            out = Outcome(storage, case, n, "failed", why=f"{type(error).__name__}: {error}"[:200])
        print(json.dumps(asdict(out)), flush=True)


# -- the watcher -----------------------------------------------------------------------------------
class Watched:
    """A process that measures, started again when it dies or takes too long."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
            self.process.wait()
            self.process = None

    def measure(self, cell: Cell) -> Outcome:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--work"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, env=os.environ | {"TENSOREL_COSTS": "shipped"})
            assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(cell), file=self.process.stdin, flush=True)
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if ready.select(PATIENCE) else None
        if line:
            return Outcome(**json.loads(line))
        self.end()
        return Outcome(*cell, "failed", why="the process died" if line == "" else
                       f"took more than {PATIENCE:.0f} seconds")


def table(outcomes: list[Outcome]) -> str:
    """One row a program, one column a storage: milliseconds, or why there are none."""
    names = list(dict.fromkeys(o.storage for o in outcomes))
    by = {(o.case, o.storage): o for o in outcomes}
    rows = [["program", *names]]
    for c in dict.fromkeys(o.case for o in outcomes):
        row = [c]
        for s in names:
            o = by.get((c, s))
            row.append("" if o is None else f"{o.milliseconds:.1f}" if o.kind == "answered"
                       else o.kind)
        rows.append(row)
    wide = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(t.ljust(w) for t, w in zip(r, wide)).rstrip() for r in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", action="store_true", help="measure cells from standard input")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--all", action="store_true", help="print every cell")
    parser.add_argument("--only", default="", help="storages whose text begins so")
    parser.add_argument("--case", default="", help="cases whose name has this")
    parser.add_argument("--extent", type=int, action="append", help="2 to this power")
    parser.add_argument("--programs", type=int, default=200, help="so many random products")
    args = parser.parse_args()
    if args.work:
        work()
        return 0
    outcomes: list[Outcome] = []
    with Watched() as watched:
        extents = [2**k for k in args.extent] if args.extent else EXTENTS
        for cell in (*cells(extents), *programs(range(args.programs), extents)):
            if not cell[0].startswith(args.only) or args.case not in cell[1]:
                continue
            out = watched.measure(cell)
            outcomes.append(out)
            if out.kind == "failed" or args.all:
                print(out.text, flush=True)
    for n in EXTENTS:
        here = [o for o in outcomes if o.extent == n]
        if args.table and here:
            here = [o for o in here if o.storage != RANDOM]
            print(f"\nextent 2^{n.bit_length() - 1}\n{table(here)}")
    counts = {k: sum(o.kind == k for o in outcomes) for k in ("answered", "refused", "failed")}
    print(f"{len(outcomes)} cells: {counts}")
    reasons = dict.fromkeys((o.case, o.why[:110]) for o in outcomes if o.kind == "refused")
    if args.all:
        for c, why in reasons:
            print(f"  {c}: {why}")
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
