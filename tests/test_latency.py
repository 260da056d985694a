"""Latency: imports, small calls, warm starts. Limits are generous: other work runs beside."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import TypeError_
from tensorel.ir.nodes import Call, const
from tensorel.records import dataclass, field
from tensorel.testing import sample_program
from tensorel.testing.programs import check, run_numpy

SOURCE = Path(__file__).resolve().parents[1] / "src"
IMPORT_LIMIT = 0.150  # seconds of CPU above NumPy's import
WARM_LIMIT = 0.060  # seconds from the end of the import to a result, code from the disk
CALL_LIMIT = 150e-6  # seconds of CPU of a small call above NumPy's


def python(code: str, folder: Path) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(SOURCE), "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "", "XDG_CACHE_HOME": str(folder / "cache"),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import(tmp_path: Path) -> None:
    code = ("import numpy, time; start = time.process_time(); import tensorel;"
            "print(time.process_time() - start)")
    python("import tensorel", tmp_path)
    best = min(float(python(code, tmp_path)) for _ in range(7))
    assert best < IMPORT_LIMIT, f"{best * 1e3:.0f} ms"


START = """
import time, sys
import numpy as np, tensorel as tr
A = tr.tensor(np.eye(10), format="csr")
x = tr.asarray(np.ones(10))
start = time.perf_counter()
{program}.compute()
print(time.perf_counter() - start, "llvmlite.binding" in sys.modules)
"""


@pytest.mark.parametrize("program", ["(A @ x)", "(A @ A)", "(A + A.T)", "(A * np.ones(10)).sum()"])
def test_a_second_process_starts_warm(program: str, tmp_path: Path) -> None:
    code = START.format(program=program)
    python(code, tmp_path)
    runs = [python(code, tmp_path).split() for _ in range(5)]
    assert min(float(seconds) for seconds, _ in runs) < WARM_LIMIT, runs
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert {loaded for _, loaded in runs} == {"False"}


def seconds(f: Callable[[], object], count: int = 20, repeats: int = 50) -> float:
    """CPU time of one call in the best of many short series."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        for _ in range(count):
            f()
        best = min(best, (time.thread_time() - start) / count)
    return best


def test_small_calls() -> None:
    a, b, v = np.random.default_rng(0).random((3, 10, 10))
    x, y = tr.asarray(a), tr.asarray(b)
    sparse, vector = tr.tensor(a * (a > 0.7), format="csr"), tr.asarray(v[0])
    (x @ y).compute()
    (sparse @ vector).compute()
    numpy = seconds(lambda: a @ b)
    dense_call = seconds(lambda: (x @ y).compute()) - numpy
    assert dense_call < CALL_LIMIT, f"{dense_call * 1e6:.0f} us"
    sparse_call = seconds(lambda: (sparse @ vector).compute()) - numpy
    assert sparse_call < CALL_LIMIT, f"{sparse_call * 1e6:.0f} us"


def test_results_do_not_keep_operands_alive() -> None:
    # No cycles: memory of a tensor is free as soon as the last name of it is gone.
    gc.collect()
    gc.disable()
    try:
        x = tr.asarray(np.ones((50, 50)))
        kept = weakref.ref(x.stored)
        result = (x @ x + 1.0).sum(axis=0).compute()
        del x
        assert kept() is None
        assert result.shape == (50,)
    finally:
        gc.enable()


def test_long_chains_of_operations() -> None:
    t = tr.asarray(np.zeros(3))
    for _ in range(100):
        t = t + 1.0
    assert t.to_numpy().tolist() == [100.0] * 3


# -- effort ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", range(12))
def test_quick_code_means_the_same(number: int) -> None:
    program = sample_program(77, number)
    with tr.options(effort="quick"):
        assert check(program, run_numpy(program)) is None


def test_effort_is_checked() -> None:
    with pytest.raises(TypeError_, match="effort 'fast' is not known") as info:
        tr.asarray([1.0]).sum().compute(effort="fast")
    assert "quick" in str(info.value)


# -- nodes and records ----------------------------------------------------------------------------
def test_nodes_are_frozen_and_stay_interned() -> None:
    node = const(1.5)
    assert const(np.float64(1.5)) is node
    assert pickle.loads(pickle.dumps(node)) is node
    with pytest.raises(AttributeError, match="frozen"):
        node.bits = b""
    call = tr.ones((2,)).node
    assert pickle.loads(pickle.dumps(call)).shape == (2,)
    assert Call.__match_args__ == ("op", "args")


@dataclass(frozen=True, slots=True)
class Pair:
    x: int
    y: int = 2
    more: list[int] = field(default_factory=list, compare=False)


def test_records() -> None:
    assert Pair(1) == Pair(1, 2, [3]) and hash(Pair(1)) == hash(Pair(1, 2))
    assert Pair(1) != Pair(2) and Pair(1) != (1, 2)
    assert repr(Pair(1)) == "Pair(x=1, y=2, more=[])"
    assert Pair(1).more is not Pair(1).more
    copy = pickle.loads(pickle.dumps(Pair(5, more=[1])))
    assert copy == Pair(5) and copy.more == [1]
    with pytest.raises(FrozenInstanceError):
        copy.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing"):
        Pair()  # type: ignore[call-arg]
