"""What a step really costs, in instructions.

Kernels are compiled with a counter in every basic block of their optimized code, so that a run
says how many instructions it executed. What is not a kernel (sorting of coordinate lists,
conversions, BLAS) is timed, the best of several runs, and converted at a fixed rate."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorel.config import Config
from tensorel.engines import kernel_step, local
from tensorel.kernels import compiler
from tensorel.kernels.symbols import libc
from tensorel.plan.physical import Step
from tensorel.storage.stored import Stored

NS_PER_INSTRUCTION = 0.22  # of our kernels on data in caches: products and sums of 10^4 entries
STEP = 20000.0 / NS_PER_INSTRUCTION  # starting one more step, as the planner's shipped cost has it
FRESH = 0.25  # instructions per byte of a result: zeroed pages, measured
REPEATS = 25
HEAVY = {"@exp", "@log", "@sin", "@cos", "@tan", "@pow", "@sqrt"}

#: The counter lies at a fixed address, so that instrumented code can be kept for later runs.
ADDRESS = 0x6A0000000000
CACHE = Path(os.environ.get("TENSOREL_COUNTED", tempfile.gettempdir() + "/tensorel-counted"))


def _fixed_counter() -> ctypes.c_int64:
    function = libc().mmap
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                         ctypes.c_int, ctypes.c_longlong)
    taken = function(ADDRESS, mmap.PAGESIZE, 3, 0x100022, -1, 0)  # fixed, not replacing others
    if taken != ADDRESS:
        raise OSError("the counter's page is taken")
    return ctypes.c_int64.from_address(ADDRESS)


_count = _fixed_counter()
_timed = 0.0
_LABEL = re.compile(r'^[-\w.$"]+:')


def instrumented(text: str) -> str:
    """LLVM text in which every basic block adds its number of instructions to the counter."""
    where = f"inttoptr (i64 {ADDRESS} to ptr)"
    out: list[str] = []
    block: list[str] = []
    number = 0

    def flush() -> None:
        nonlocal number
        if not block:
            return
        heads = [k for k, line in enumerate(block) if line.lstrip().split(" = ")[-1].startswith(
            "phi ")]
        first = heads[-1] + 1 if heads else 0
        own = [line for line in block if line.startswith("  ") and not line.startswith("   ")]
        size = len(own) - len(heads) + sum(20 for x in own if any(h in x for h in HEAVY))
        number += 1
        out.extend(block[:first])
        out.append(f"  %count.{number} = load i64, ptr {where}")
        out.append(f"  %counted.{number} = add i64 %count.{number}, {size}")
        out.append(f"  store i64 %counted.{number}, ptr {where}")
        out.extend(block[first:])
        block.clear()

    inside = False
    for line in text.splitlines():
        if line.startswith("define "):
            inside, number = True, 0
            out.append(line)
        elif inside and line.startswith("}"):
            flush()
            inside = False
            out.append(line)
        elif inside and _LABEL.match(line):
            flush()
            out.append(line)
        elif inside and line.strip():
            block.append(line)
        elif not inside:
            out.append(line)
    return "\n".join(out)


def _compile(text: str, effort: str = "full") -> bytes:
    key = CACHE / hashlib.sha256(f"{effort} {compiler.host()} {text}".encode()).hexdigest()
    if key.exists():
        return key.read_bytes()
    with compiler._lock:
        plain = str(compiler._optimized(text, effort))
        module = compiler._llvm().parse_assembly(instrumented(plain))
        code: bytes = compiler._machine("quick").emit_object(module)
    CACHE.mkdir(mode=0o700, exist_ok=True)
    temporary = key.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(code)
    temporary.rename(key)
    return code


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its best time added to what is counted."""

    def call(*args: Any, **kwargs: Any) -> Any:
        global _timed
        best, result, kept = 1e9, None, _count.value
        until = time.perf_counter() + 0.02
        for _ in range(REPEATS):
            start = time.perf_counter()
            result = function(*args, **kwargs)
            end = time.perf_counter()
            best = min(best, end - start)
            if end > until:
                break
        _count.value = kept
        _timed += best
        return result

    return call


@contextmanager
def counting() -> Iterator[None]:
    """Kernels that are compiled meanwhile count; use in a process of its own."""
    places = [(compiler, "compile_object", _compile), *(
        (module, name, _watched(getattr(module, name))) for module, name in (
            (kernel_step, "combine_list"), (kernel_step, "to_format"), (local, "to_format"),
            (local, "run_blas")))]
    before = [(m, n, getattr(m, n)) for m, n, _ in places]
    for module, name, instead in places:
        setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name, old in before:
            setattr(module, name, old)


def measured(step: Step, values: dict[str, Stored], config: Config) -> tuple[float, Stored]:
    """The cost of a step in instructions, and its result."""
    global _timed
    _count.value, _timed = 0, 0.0
    result = local.run_step(step, values, config, config.memory)
    fresh = result.nbytes if not any(
        result.arrays is v.arrays for v in values.values()) else 0
    cost = _count.value + 1e9 * _timed / NS_PER_INSTRUCTION + FRESH * fresh + STEP
    return cost, result
