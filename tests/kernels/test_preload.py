"""LLVM is loaded early where nothing has been compiled yet, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensorel.kernels.runtime import object_code

SCRIPT = """
import sys, threading
import numpy as np, tensorel as tr
print("llvmlite.binding" in sys.modules)
A = tr.asarray(np.eye(10))
print("tensorel-llvm" in {t.name for t in threading.enumerate()})
A = tr.tensor(np.eye(10), format="csr")
names = {t.name for t in threading.enumerate()}
print("tensorel-llvm" in names or "llvmlite.binding" in sys.modules)
if len(sys.argv) > 1:
    tr.tensor(np.eye(10), format="csr").sum(axis=0).compute()
"""

FORK = """
import os
import numpy as np, tensorel as tr
A = tr.tensor(np.eye(10), format="csr")
child = os.fork()
found = (A @ A).compute().to_numpy()
assert (found == np.eye(10)).all()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("fine")
"""


def python(code: str, cache: Path, *arguments: str) -> list[str]:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True,
                          env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
                    reason="with one core there is nothing to gain")
def test_only_a_machine_without_kernels_loads_early(tmp_path: Path) -> None:
    if not object_code.is_supported():
        pytest.skip("this machine loads object code with LLVM")
    assert python(SCRIPT, tmp_path, "compile") == ["False", "False", "True"]
    assert python(SCRIPT, tmp_path) == ["False", "False", "False"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_wait_until_it_is_loaded(tmp_path: Path) -> None:
    assert python(FORK, tmp_path) == ["fine"]
