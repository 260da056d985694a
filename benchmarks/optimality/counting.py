"""What a step really costs, in instructions.

Kernels are compiled with a counter in every basic block of their optimized code, so that a run
says how many instructions it executed. What is not a kernel (sorting of coordinate lists,
conversions, BLAS) is charged by what it does, at rates that were measured once."""

from __future__ import annotations

import ctypes
import hashlib
import math
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorel.config import Config
from tensorel.engines.in_process import engine, kernel_step
from tensorel.engines.in_process.plan_state import state_of
from tensorel.kernels.runtime import compiler, kernel_cache
from tensorel.kernels.runtime.symbols import libc
from tensorel.plan.physical import BlasStep, Step
from tensorel.storage.format import Format
from tensorel.storage.stored import Stored

NS_PER_INSTRUCTION = 0.22  # of our kernels on data in caches: products and sums of 10^4 entries
STEP = 20000.0 / NS_PER_INSTRUCTION  # starting one more step, as the planner's shipped cost has it
FRESH = 0.14  # instructions per byte of a result: zeroed pages, measured
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
_charge = 0.0
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
    with compiler.lock:
        plain = str(compiler.optimized(text, effort))
        module = compiler.llvm_library().parse_assembly(instrumented(plain))
        code: bytes = compiler.machine_for("quick").emit_object(module)
    CACHE.mkdir(mode=0o700, exist_ok=True)
    temporary = key.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(code)
    temporary.rename(key)
    return code


def _charged(function: Callable[..., Any], nanoseconds: Callable[..., float]
             ) -> Callable[..., Any]:
    """The function with what it takes added to the account; kernels below it do not count."""

    def call(*args: Any, **kwargs: Any) -> Any:
        global _charge
        kept = _count.value, _charge
        result = function(*args, **kwargs)
        _count.value, _charge = kept[0], kept[1] + nanoseconds(result, *args)
        return result

    return call


def conversion(result: Stored, source: Stored, fmt: Format) -> float:
    """Nanoseconds of a conversion. Measured, the best of 60, on 500 to 50,000 entries of
    matrices: entries that stay in order, that are sorted anew, that are scattered."""
    if result is source:
        return 0.0
    if fmt.is_dense:
        return 4e4 + 10.0 * source.count + 0.3 * result.nbytes / 8
    if fmt.order == source.format.order:
        return 3.5e4 + 4.0 * source.count
    return 6.5e4 + 15.0 * source.count


def listing(result: Stored, coords: list[Any], *rest: object) -> float:
    """Nanoseconds to sort a coordinate list and to combine equal ones, measured likewise."""
    return 3.5e4 + 45.0 * coords[0].size if len(coords) else 3.5e4


def product(result: Stored, step: BlasStep, values: dict[str, Stored], *rest: object) -> float:
    """Nanoseconds of a product by BLAS on one thread: 25 billion multiply-adds a second, and
    reading; measured (AMD EPYC 9004, OpenBLAS) on matrices of 100 to 800 rows that lie in caches,
    as kernels count, times 1 to 500 columns: within a fifth."""
    sizes = dict(zip(step.left_axes, values[step.left].shape))
    sizes |= dict(zip(step.right_axes, values[step.right].shape))
    moved = result.nbytes + values[step.left].nbytes + values[step.right].nbytes
    return 2e3 + 0.04 * math.prod(sizes.values()) + 0.009 * moved


@contextmanager
def counting() -> Iterator[None]:
    """Kernels that are compiled meanwhile count; use in a process of its own. Counting code must
    never reach the user's cache of kernels: in other processes the counter is not there."""
    places = [(compiler, "compile_object", _compile), (kernel_cache, "load", lambda name: None),
              (kernel_cache, "store", lambda name, payload: None), *(
        (module, name, _charged(getattr(module, name), charge)) for module, name, charge in (
            (kernel_step, "combine_list", listing), (kernel_step, "to_format", conversion),
            (engine, "to_format", conversion), (engine, "run_blas", product)))]
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
    global _charge
    _count.value, _charge = 0, 0.0
    result = engine.run_step(state_of(step), values, config, config.memory)
    fresh = result.nbytes if not any(
        result.arrays is v.arrays for v in values.values()) else 0
    cost = _count.value + _charge / NS_PER_INSTRUCTION + FRESH * fresh + STEP
    return cost, result
