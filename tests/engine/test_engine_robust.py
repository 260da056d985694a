"""Threads, forks, Ctrl-C, damaged caches, and every switch of the planner: the same answers."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_support import same

import tensorel as tr
from tensorel.engines import local
from tensorel.ir import nodes
from tensorel.kernels import runtime
from tensorel.plan.pipeline import PASSES
from tensorel.stats import feedback


def integers(shape: tuple[int, ...], seed: int, density: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < density, rng.integers(-4, 5, shape), 0).astype(float)


X, Y, Z, D, V = (integers((40, 30), 1), integers((30, 40), 2), integers((40, 40), 3),
                 integers((30, 8), 4, 1.0), integers((40,), 5, 1.0))

Program = Callable[[Any, Any, Any, Any, Any], Any]
#: Whole numbers throughout, so that reassociation changes nothing.
PROGRAMS: dict[str, Program] = {
    "product": lambda x, y, z, d, v: x @ y,
    "chain": lambda x, y, z, d, v: x @ y @ z,
    "sum of a product": lambda x, y, z, d, v: (x @ y).sum(),
    "rows of a product": lambda x, y, z, d, v: (x @ y).sum(axis=1),
    "masked product": lambda x, y, z, d, v: z * (x @ y),
    "trace": lambda x, y, z, d, v: np.trace(x @ y),
    "gram": lambda x, y, z, d, v: x.T @ (x @ (y @ v)),
    "distributed": lambda x, y, z, d, v: (2 * z + x @ y) @ v,
    "shared": lambda x, y, z, d, v: (x @ y) * (x @ y) + (x @ y),
    "constant sum": lambda x, y, z, d, v: np.einsum("ij,k->i", x, v),
    "three": lambda x, y, z, d, v: np.einsum("ij,jk,k->i", x, y, v),
    "triangles": lambda x, y, z, d, v: np.einsum("ij,jk,ki->", z, z, z),
    "dense factor": lambda x, y, z, d, v: x @ d,
    "shifted": lambda x, y, z, d, v: (x + 1) @ (y - 2),
    "max": lambda x, y, z, d, v: (z - 1).max(axis=0) + z.min(axis=1),
    "max of a product": lambda x, y, z, d, v: (x @ y).max(axis=1),
    "where": lambda x, y, z, d, v: np.where(z > 0, z, v) * 2,
    "nested": lambda x, y, z, d, v: ((z * v).sum(axis=1) * z.T).sum(axis=0),
    "slices": lambda x, y, z, d, v: (x @ y)[::3, 5:20],
    "gather": lambda x, y, z, d, v: z[[5, 0, 39]] @ x,
    "sorted": lambda x, y, z, d, v: np.sort(x @ y, axis=1)[:, -3:],
    "concat": lambda x, y, z, d, v: np.concatenate([x, y.T]) @ d,
    "identities": lambda x, y, z, d, v: -(-(z * 1 + 0)) ** 1 / 1,
    "counts": lambda x, y, z, d, v: (z != 0).sum(axis=0),
}
ARRAYS = (X, Y, Z, D, V)


def tensors(formats: tuple[str, ...] = ("csr", "csr", "csc", "dense", "dense")) -> list[Any]:
    return [tr.tensor(a, format=f) for a, f in zip(ARRAYS, formats)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_optimizer_off_and_each_pass_off(name: str) -> None:
    program, wanted = PROGRAMS[name], PROGRAMS[name](*ARRAYS)
    found = program(*tensors())
    same(found.compute(), wanted)
    same(found.compute(optimize=False), wanted)
    same(found.compute(strict=True), wanted)
    optional = [p.name for p in PASSES if p.optional]
    assert optional
    for off in optional:
        same(found.compute(disabled=[off]), wanted)
    same(found.compute(disabled=optional), wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_nothing(name: str) -> None:
    found, wanted = PROGRAMS[name](*tensors()), PROGRAMS[name](*ARRAYS)
    one, two = found.compute(threads=1), found.compute(threads=2)
    same(one, wanted)
    same(two, wanted)
    assert one.format == two.format


def test_threads_on_larger_data() -> None:
    """Large enough that the work is really split."""
    rng = np.random.default_rng(0)
    n, nnz = 20_000, 400_000
    a = sp.csr_array(sp.coo_array(
        (rng.integers(1, 5, nnz).astype(float), (rng.integers(0, n, nnz), rng.integers(0, n, nnz))),
        (n, n)))
    t, v = tr.asarray(a), rng.integers(0, 5, n).astype(float)
    for program in (lambda s: s @ v, lambda s: s.T @ v, lambda s: s + s.T, lambda s: s * 2):
        wanted = program(a)
        for threads in (1, 2, 5):
            found = program(t).compute(threads=threads)
            if found.ndim == 1:
                same(found, wanted)
            else:
                difference = abs(found.to_scipy("csr") - wanted)
                assert difference.nnz == 0 or difference.max() == 0
    assert (t @ t).sum().compute(threads=2).item() == (a @ a).sum()


def test_two_threads_compute_at_once() -> None:
    """Different programs, the same tensors, fresh plans and kernels."""
    shared = tensors()
    wanted = {name: program(*ARRAYS) for name, program in PROGRAMS.items()}

    def work(turn: int) -> list[str]:
        wrong = []
        names = list(PROGRAMS)
        for name in names[turn:] + names[:turn]:
            for options in ({}, {"threads": 1 + turn % 2}, {"disk_cache": turn % 2 == 0}):
                found = (PROGRAMS[name](*shared) + turn - turn).compute(**options).to_numpy()
                if not np.array_equal(found, wanted[name]):
                    wrong.append(name)
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert [w for w in pool.map(work, range(6)) if w] == []


def test_options_belong_to_the_thread() -> None:
    def inside(memory: int) -> int:
        with tr.options(memory=memory) as config:
            time.sleep(0.01)
            return config.memory - memory

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(inside, range(10**6, 10**6 + 20))) == {0}


# -- processes -------------------------------------------------------------------------------


def _child(connection: Any) -> None:
    found = [PROGRAMS[n](*tensors()).compute(threads=2).to_numpy() for n in ("chain", "three")]
    a = tr.asarray(integers((7, 9), 99))
    connection.send([*found, (a @ a.T + 3).to_numpy()])
    connection.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing(method: str) -> None:
    same(PROGRAMS["chain"](*tensors()).compute(threads=2), PROGRAMS["chain"](*ARRAYS))
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=_child, args=(theirs,))
    child.start()
    theirs.close()
    assert ours.poll(60), "the child hangs"
    chain, three, last = ours.recv()
    child.join(10)
    assert child.exitcode == 0
    same(chain, PROGRAMS["chain"](*ARRAYS))
    same(three, PROGRAMS["three"](*ARRAYS))
    same(last, integers((7, 9), 99) @ integers((7, 9), 99).T + 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_fork_while_another_thread_computes() -> None:
    """The child must not wait for locks that were held at the fork."""
    stop = False

    def busy() -> None:
        turn = 0
        while not stop:
            turn += 1
            (PROGRAMS["chain"](*tensors()) + turn).compute(threads=2)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(busy)
        try:
            for _ in range(5):
                time.sleep(0.02)
                assert _forked() == 0
        finally:
            stop = True
        running.result(20)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_fork_while_every_lock_is_held() -> None:
    """All locks of modules at once, held by a thread that the child does not have."""
    held, done = threading.Event(), threading.Event()
    locks: list[Any] = [nodes._guard, local._lock, runtime._lock, feedback._store.lock]

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    try:
        assert _forked() == 0
    finally:
        done.set()
        holder.join(60)


def _forked() -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        found = (PROGRAMS["three"](*tensors()) * 3).compute(threads=2).to_numpy()
        os._exit(0 if np.array_equal(found, 3 * PROGRAMS["three"](*ARRAYS)) else 1)
    return os.waitpid(pid, 0)[1]


INTERRUPTED = """
import sys, time
import numpy as np
import tensorel as tr
rng = np.random.default_rng(0)
{setup}
small = tr.tensor(np.eye(5), format="csr")
assert (small @ small).sum().item() == 5
print("ready", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
else:
    print("finished", flush=True)
assert (small @ small + 1).sum().compute(threads=2).item() == 30
a = tr.asarray(rng.random((50, 60)))
assert np.allclose((a @ a.T).to_numpy(), a.to_numpy() @ a.to_numpy().T)
print("usable", flush=True)
"""

LONG = {
    "dense integers": ("A = tr.asarray(rng.integers(0, 9, (2600, 2600)))", "(A @ A).compute()"),
    "one thread": ("A = tr.asarray(rng.integers(0, 9, (2600, 2600)))",
                   "(A @ A).compute(threads=1)"),
    "min-plus": ("A = tr.asarray(rng.random((1800, 1800)))",
                 "tr.einsum('ij,jk->ik', A, A, add=tr.min, mul=tr.add).compute()"),
    "sparse product": (
        "c = rng.integers(0, 60_000, (2, 3_000_000))\n"
        "A = tr.from_coo(c, np.ones(3_000_000), (60_000, 60_000), format='csr', duplicates='sum')",
        "(A @ A).compute()"),
    "many small ones": ("A = tr.asarray(rng.random((9, 9)))",
                        "[(A @ A + k).sum().item() for k in range(10**6)]"),
}


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_stops_within_a_second(name: str) -> None:
    setup, work = LONG[name]
    code = INTERRUPTED.replace("{setup}", setup).replace("{work}", work)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline().strip() == "ready", child.communicate()[1][-2000:]
        time.sleep(1.0)
        sent = time.time()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=90)
    finally:
        child.kill()
    assert child.returncode == 0, err[-2000:]
    words = out.split()
    assert words[0] == "interrupted", "the computation was over before the signal" + out
    assert float(words[1]) - sent < 1.0
    assert words[-1] == "usable"


# -- the disk cache --------------------------------------------------------------------------

CACHED = """
import numpy as np, tensorel as tr
x = np.where(np.arange(63).reshape(7, 9) % 3 == 0, 2.0, 0.0)
a = tr.tensor(x, format="csr")
assert np.array_equal((a @ a.T + 1).to_numpy(), x @ x.T + 1)
assert np.array_equal(((a * 3).sum(axis=0) - 2).to_numpy(), (x * 3).sum(axis=0) - 2)
print("right")
"""


def cached_run(cache: Path, **more: str) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)} | more
    ran = subprocess.run([sys.executable, "-c", CACHED], capture_output=True, text=True,
                         env=environment, timeout=60)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.strip() == "right"
    assert ran.stderr == ""


def cached_files(cache: Path) -> list[Path]:
    return sorted(p for p in cache.rglob("*") if p.is_file())


def test_cache_is_private_and_used(tmp_path: Path) -> None:
    cached_run(tmp_path)
    files = cached_files(tmp_path)
    assert files
    for path in files:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    stamps = [p.stat().st_mtime_ns for p in files]
    cached_run(tmp_path)
    assert [p.stat().st_mtime_ns for p in cached_files(tmp_path)] == stamps


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "swapped", "garbage", "folder"])
def test_damaged_entries_are_compiled_again(tmp_path: Path, damage: str) -> None:
    cached_run(tmp_path)
    files = cached_files(tmp_path)
    contents = [p.read_bytes() for p in files]
    for number, (path, data) in enumerate(zip(files, contents)):
        middle = len(data) // 2
        if damage == "folder":
            path.unlink()
            path.mkdir()
            continue
        path.write_bytes({
            "cut": data[:middle], "empty": b"", "garbage": b"\x00\xff" * len(data),
            "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "swapped": contents[number - 1],
        }[damage])
    cached_run(tmp_path)
    cached_run(tmp_path)


def test_cache_that_cannot_be_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cached_run(blocked)
    cached_run(Path("/proc/nowhere"))
    cached_run(Path("relative/path"))
    cached_run(tmp_path, HOME="/nonexistent", XDG_CACHE_HOME="")
    shared = tmp_path / "shared" / "tensorel" / "kernels"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    cached_run(tmp_path / "shared")
    assert cached_files(shared) == [], "a folder that others can write was used"
