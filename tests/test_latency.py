"""Latency: imports, small calls, warm starts. Limits are in units of the same process (NumPy's
import, an empty call), in processor time, and best of several: other work runs beside."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

import tensorel as tr
from measures import in_plain_calls, least
from tensorel.base.records import dataclass, field
from tensorel.errors import TypeError_
from tensorel.ir.nodes import Call, const
from tensorel.testing import sample_program
from tensorel.testing.programs.program import run_numpy
from tensorel.testing.programs.running import check

SOURCE = Path(__file__).resolve().parents[1] / "src"
IMPORT_LIMIT = 2.0  # of NumPy's import, which takes as long
WARM_LIMIT = 0.4  # of NumPy's import: a result after tensorel's, code from the disk
CALL_LIMIT = 2000  # empty calls of Python: a small call of ours


def python(code: str, folder: Path) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(SOURCE), "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "", "XDG_CACHE_HOME": str(folder / "cache"),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TIMES = """
import sys, time
times = [time.process_time()]
def lap(): times.append(time.process_time())
import numpy as np; lap()
import tensorel as tr; lap()
"""
SAY_TIMES = """
start, numpy, ours, *_ = times
print((times[-1] - times[-2]) / (numpy - start), "llvmlite.binding" in sys.modules)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm")


def ratios(code: str, folder: Path, tries: int = 7) -> Iterator[float]:
    """What the last lap takes of NumPy's import, each time in a process that finds bytecode and
    kernels on the disk; it never loads LLVM."""
    python(TIMES + code, folder)
    for _ in range(tries):
        ratio, loaded = python(TIMES + code + SAY_TIMES, folder).split()
        if sys.platform == "linux" and os.uname().machine == "x86_64":
            assert loaded == "False"
        yield float(ratio)


def test_import(folder: Path) -> None:
    best = least(ratios("", folder), IMPORT_LIMIT)
    assert best < IMPORT_LIMIT, f"tensorel takes {best:.2f} of NumPy's import"


START = """
A = tr.tensor(np.eye(10), format="csr")
x = tr.asarray(np.ones(10))
lap()
{program}.compute()
lap()
"""


@pytest.mark.parametrize("program", ["(A @ x)", "(A @ A)", "(A + A.T)", "(A * np.ones(10)).sum()"])
def test_a_second_process_starts_warm(program: str, folder: Path) -> None:
    best = least(ratios(START.format(program=program), folder), WARM_LIMIT)
    assert best < WARM_LIMIT, f"{best:.2f} of NumPy's import"


@pytest.mark.measured
def test_small_calls() -> None:
    a, b, v = np.random.default_rng(0).random((3, 10, 10))
    x, y = tr.asarray(a), tr.asarray(b)
    sparse, vector = tr.tensor(a * (a > 0.7), format="csr"), tr.asarray(v[0])
    with tr.options(verify=False):
        (x @ y).compute()
        (sparse @ vector).compute()
        for call in (lambda: (x @ y).compute(), lambda: (sparse @ vector).compute()):
            assert in_plain_calls(call, CALL_LIMIT) < CALL_LIMIT


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
