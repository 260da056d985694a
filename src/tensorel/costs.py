"""What work costs: the one record that the planner's arithmetic reads, shipped or measured here.

Measured costs lie in the user's cache folder under the name of machine and version
(``base.cache_files`` says when an entry is taken). ``TENSOREL_COSTS=shipped`` in the environment
ignores them: the same plans on every machine."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from dataclasses import fields, replace

from tensorel.base import cache_files
from tensorel.base.records import dataclass

_MAGIC = b"tensorel costs 01\n"
MAX_COST_RATIO = 20.0  # a measured cost that differs from the shipped one by more is refused


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs in steps of a plain loop over stored entries, about a nanosecond each. Ratios between
    them decide plans; ``tr.calibrate()`` measures them on a machine.

    Compared by identity: a process has one or two of these, and every plan's key holds one."""

    # -- loops: each iteration
    enter: float = 3.0  # starting a loop once more
    step: float = 1.5  # one entry of a sparse level that leads alone
    dense_step: float = 0.7  # one index of a dense loop that is not vectorized
    vector_step: float = 0.2  # one element of a vectorized loop
    merge_step: float = 3.5  # one entry of several lists walked together
    search_step: float = 2.5  # one halving of a binary search or a gallop
    find: float = 0.3  # computing the place in a dense level inside the loops
    gather: float = 0.6  # reading one more operand in the innermost loop over entries
    lookup: float = 2.0  # finding an entry by a table
    function: float = 5.0  # exp, log, powers and their like
    gallop: float = 8.0  # lists so many times longer are searched, not walked

    # -- joins of factors, before their loops are known
    write_dense: float = 1.0  # a cell of a dense intermediate: written and read again
    write_sparse: float = 6.0  # an entry of a sparse intermediate

    # -- results: each cell or entry
    dense_write: float = 0.3  # a cell of a dense result: initialized, and read by who uses it
    dense_scatter: float = 0.7  # adding to a cell anywhere in a dense result
    append: float = 3.0  # an entry appended in order, and read by who uses it
    reuse: float = 0.5  # a value beside index arrays that exist, or in a dense tail
    bucket: float = 6.0  # an entry counted, placed and written under its second index
    workspace: float = 8.0  # an entry collected from a dense row
    workspace_add: float = 2.0  # one addition into a dense row
    workspace_find: float = 0.7  # looking a coordinate up in a dense row
    workspace_room: float = 0.5  # a cell of the dense row itself
    list_sort: float = 45.0  # an entry of a list that is sorted at the end
    list_start: float = 35000.0  # sorting any list at all

    # -- conversions
    convert: float = 4.5  # an entry stored again, its order kept
    convert_sort: float = 20.0  # an entry stored again in another order of levels
    convert_deep: float = 70.0  # the same with more than two levels
    convert_far: float = 70.0  # more for each entry, if its lines are too many for the caches
    convert_cell: float = 1.5  # a cell of a dense tensor that is made, read or turned
    convert_start: float = 60000.0  # any conversion
    convert_kernel: float = 65536.0  # of so many entries it is worth a kernel of its own

    # -- whole steps
    blas_speed: float = 24.0  # multiply-adds of a dense product per step
    call: float = 20000.0  # starting one more kernel

    # -- threads
    thread: float = 5e4  # one more thread that calls nothing but a kernel
    thread_collect: float = 5e5  # one more thread whose results are collected piece by piece
    thread_gain: float = 1.2  # more threads must be so many times quicker
    memory: float = 0.04  # a byte from or to memory, however many threads ask
    fresh: float = 0.12  # a byte of memory that nobody used before: the system gives it out

    # -- when to choose what costs alone do not decide
    dense_vector: float = 0.16  # a sum over sparse operands is stored dense above this density
    dense_matrix: float = 0.5  # the same for results of two and more axes
    dense_wanted: float = 0.1  # written dense on the way to a sparse format that was asked for
    sparsify: float = 0.1  # a dense result from sparse operands is stored sparse below this density
    turn: float = 8.0  # a matrix is turned if the sums read it so many times over
    across: float = 16.0  # times as slow is to read it across its rows, if no cache holds it
    expand: float = 4.0  # sums of products may cancel: they must be so many times cheaper
    fetch_bytes: float = 1.3e5  # rows of larger operands are fetched ahead
    near_bytes: float = 5e5  # dense rows are, if jumps between them go over more than this
    far_bytes: float = 4e6  # what is larger is far from the processor


SHIPPED = Costs()


def machine() -> str:
    """The processor, the cores that this process may use, and the version of the costs."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    package = sys.modules[__name__.partition(".")[0]]
    shipped = ",".join(f"{f.name}={getattr(SHIPPED, f.name)}" for f in fields(Costs))
    parts = (processor(), cores, getattr(package, "__version__", ""), shipped)
    return "\n".join(map(str, parts))


def processor() -> str:
    """The model of the first core; the rest of the system's text can be long."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "CPU part", "cpu model")):
                    return line.partition(":")[2].strip()
                if not line.strip():
                    break
    except OSError:
        pass
    return sys.platform


def entry() -> str:
    """The name of this machine's costs in the cache folder."""
    return hashlib.sha256(machine().encode()).hexdigest()


def accepted(measured: dict[str, float]) -> Costs:
    """The shipped costs with those measured ones that can be true."""
    taken = {}
    for f in fields(Costs):
        shipped, value = getattr(SHIPPED, f.name), measured.get(f.name)
        if isinstance(value, (int, float)) and math.isfinite(value) \
                and shipped / MAX_COST_RATIO <= value <= shipped * MAX_COST_RATIO:
            taken[f.name] = float(value)
    return replace(SHIPPED, **taken)


def load() -> Costs:
    """The costs measured on this machine, else those that are shipped."""
    if os.environ.get("TENSOREL_COSTS") == "shipped":
        return SHIPPED
    with cache_files.folder("costs", make=False) as place:
        payload = None if place is None else cache_files.load(place, entry(), _MAGIC)
    if payload is None:
        return SHIPPED
    try:
        lines = [line.split() for line in payload.decode().splitlines()]
        return accepted({name: float(value) for name, value in lines})
    except ValueError:
        return SHIPPED


def save(costs: Costs) -> str | None:
    """Keep costs for later processes on this machine; where they lie, or None if they cannot."""
    lines = [f"{f.name} {getattr(costs, f.name)!r}" for f in fields(Costs)
             if getattr(costs, f.name) != getattr(SHIPPED, f.name)]
    with cache_files.folder("costs") as place:
        text = "\n".join(lines).encode()
        if place is None or not cache_files.store(place, entry(), _MAGIC, text):
            return None
        return place.place(entry())
