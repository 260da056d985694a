"""Threads, forks, Ctrl-C and damaged caches: the same answers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_support import same
from main_programs import PROGRAMS, expected, integers, tensors

import tensorel as tr
from measures import allowed, seconds_of

#: Those of floats, every other one.
NAMES = [n for n in PROGRAMS if expected(n).dtype == np.float64][::2]


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

    def work(turn: int) -> list[str]:
        wrong = []
        for name in NAMES[turn:] + NAMES[:turn]:
            for options in ({}, {"threads": 1 + turn % 2}, {"disk_cache": turn % 2 == 0}):
                found = (PROGRAMS[name].ours(shared) + turn - turn).compute(**options).to_numpy()
                if not np.array_equal(found, expected(name)):
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
    found = [PROGRAMS[n].ours(tensors()).compute(threads=2).to_numpy() for n in ("chain", "three")]
    a = tr.asarray(integers((7, 9), 99))
    connection.send([*found, (a @ a.T + 3).to_numpy()])
    connection.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing(method: str) -> None:
    same(PROGRAMS["chain"].ours(tensors()).compute(threads=2), expected("chain"))
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=_child, args=(theirs,))
    child.start()
    theirs.close()
    assert ours.poll(300), "the child hangs"
    chain, three, last = ours.recv()
    child.join(300)
    assert child.exitcode == 0
    same(chain, expected("chain"))
    same(three, expected("three"))
    same(last, integers((7, 9), 99) @ integers((7, 9), 99).T + 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_fork_while_another_thread_computes() -> None:
    """The child must not wait for locks that were held at the fork."""
    stop = False

    def busy() -> None:
        turn = 0
        while not stop:
            turn += 1
            (PROGRAMS["chain"].ours(tensors()) + turn).compute(threads=2)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(busy)
        try:
            for _ in range(5):
                time.sleep(0.02)
                assert _forked() == 0
        finally:
            stop = True
        running.result(300)


LOCKED = """
import contextlib, os, threading, warnings
locks, register = [], os.register_at_fork
def noted(**hooks):
    renew = hooks.get("after_in_child")
    if "before" not in hooks and getattr(renew, "__name__", "") == "_at_fork_reinit":
        locks.append(renew.__self__)
    register(**hooks)
os.register_at_fork = noted
import numpy as np
import tensorel as tr
def work():
    a = tr.asarray(np.arange(12.0).reshape(3, 4))
    return np.array_equal(((a @ a.T + 3).sum(axis=0)).compute(threads=2), (
        np.arange(12.0).reshape(3, 4) @ np.arange(12.0).reshape(3, 4).T + 3).sum(axis=0))
assert work()
held, done = threading.Event(), threading.Event()
def hold():
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.enter_context(lock)
        held.set()
        done.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    import signal
    signal.alarm(300)
    os._exit(0 if work() else 1)
status = os.waitpid(child, 0)[1]
done.set()
holder.join()
print(status, len(locks))
"""


def test_after_fork_while_every_lock_is_held() -> None:
    """All locks that forks renew at once, held by a thread that the child does not have."""
    ran = subprocess.run([sys.executable, "-c", LOCKED], capture_output=True, text=True,
                         timeout=400)
    assert ran.returncode == 0, ran.stderr[-2000:]
    status, locks = map(int, ran.stdout.split())
    assert status == 0 and locks >= 7


def _forked() -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)
        found = (PROGRAMS["three"].ours(tensors()) * 3).compute(threads=2).to_numpy()
        os._exit(0 if np.array_equal(found, 3 * expected("three")) else 1)
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
    while True:  # however quick the machine is, the signal meets a computation
        {work}
except KeyboardInterrupt:
    print("interrupted", time.process_time(), flush=True)
assert (small @ small + 1).sum().compute(threads=2).item() == 30
a = tr.asarray(rng.random((50, 60)))
assert np.allclose((a @ a.T).to_numpy(), a.to_numpy() @ a.to_numpy().T)
print("usable", flush=True)
"""

LONG = {
    "dense integers": ("A = tr.asarray(rng.integers(0, 9, (5000, 5000)))",
                       "(A @ A).compute(threads=2)"),
    "one thread": ("A = tr.asarray(rng.integers(0, 9, (5000, 5000)))",
                   "(A @ A).compute(threads=1)"),
    "min-plus": ("A = tr.asarray(rng.random((5000, 5000)))",
                 "tr.einsum('ij,jk->ik', A, A, add=tr.min, mul=tr.add).compute(threads=2)"),
    "sparse product": (
        "c = rng.integers(0, 60_000, (2, 3_000_000))\n"
        "A = tr.from_coo(c, np.ones(3_000_000), (60_000, 60_000), format='csr', duplicates='sum')",
        "(A @ A).compute(threads=2)"),
    "many small ones": ("A = tr.asarray(rng.random((9, 9)))",
                        "[(A @ A + k).sum().item() for k in range(10**6)]"),
}


@pytest.mark.measured
@pytest.mark.skipif(sys.platform != "linux", reason="reads the processor time of a child")
@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_stops_at_once(name: str) -> None:
    """Both threads of the child together work on for less than two seconds of the processor. They
    compute without end, so the signal meets them on any machine; what they do before it is sent,
    while this process waits for its turn, does not count."""
    setup, work = LONG[name]
    code = INTERRUPTED.replace("{setup}", setup).replace("{work}", work)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline().strip() == "ready", child.communicate()[1][-2000:]
        begun = seconds_of(child.pid)
        while child.poll() is None and seconds_of(child.pid) < begun + 0.5:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        sent = seconds_of(child.pid)
        out, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert child.returncode == 0, err[-2000:]
    words = out.split()
    assert words[0] == "interrupted"
    assert float(words[1]) - sent < allowed(2.0)
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
                         env=environment, timeout=300)
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
