"""Helpers without Python: ranges, failures, concurrent callers, forks, the end of the process."""

from __future__ import annotations

import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import F8, HI, I4, I_, LO, endless, keep_positive, row_dots, total

import tensorel as tr
from tensorel import config
from tensorel.algebra import ops
from tensorel.costs import SHIPPED
from tensorel.ir.nodes import INT64, Call, Read, const
from tensorel.kernels.loopir.statements import For, Kernel, Status, Store, array
from tensorel.kernels.runtime import native_pool
from tensorel.kernels.runtime.compiled import Control, GrowBuffer, compile, pointers

pytestmark = pytest.mark.skipif(native_pool.the_pool(True, True) is None,
                                reason="no semaphores, no native pool")


def packed(size: int, count: int) -> bytes:
    bounds = [size * k // count for k in range(count + 1)]
    return struct.pack(f"{2 * count}q", *[x for k in range(count) for x in bounds[k : k + 2]])


@pytest.mark.parametrize("workers", [2, 3, 7])
def test_every_range_runs_once(workers: int) -> None:
    rng = np.random.default_rng(workers)
    for rows in (2, 5, 100, 3000):
        x, w, y = rng.random((rows, 7)), rng.random((rows, 7)), np.zeros(rows)
        call = compile(row_dots()).bind([x.ravel(), w.ravel(), y], (), [7])
        for count in (2, 3, min(rows, 64)):
            y[:] = -1
            status = native_pool.run_calls([call], packed(rows, count), workers, Control())
            assert status is Status.DONE
            np.testing.assert_allclose(y, (x * w).sum(1))


def test_each_worker_has_its_own_arguments() -> None:
    x, outs = np.ones(1000), [np.full(1, np.nan) for _ in range(3)]
    calls = [compile(total()).bind([x, out]) for out in outs]
    for _ in range(200):
        for out in outs:
            out[0] = np.nan
        assert native_pool.run_calls(calls, packed(1000, 10), 3, Control()) is Status.DONE
        assert all(np.isnan(out[0]) or out[0] == 100 for out in outs)
        assert not all(np.isnan(out[0]) for out in outs)


def test_workers_clear_their_own_arrays() -> None:
    """Zeros before the first range of each worker; who had none is not asked for a result."""
    kernel, x = compile(total()), np.ones(1000)
    for _ in range(200):
        outs = [np.full(1, np.nan) for _ in range(3)]
        tables = [pointers([x, out]) for out in outs]
        found = native_pool.launch(kernel, packed(1000, 10), tables, b"", 3, cleared=8, own=1)
        assert found is not None
        status, begun = found
        assert status is Status.DONE and len(begun) == 3
        assert [int(not np.isnan(out[0])) for out in outs] == begun
        assert sum(out[0] for out, b in zip(outs, begun) if b) > 0


def test_launches_that_do_not_fit_are_left_to_others() -> None:
    kernel, x, out = compile(total()), np.ones(1000), np.zeros(1)
    many = [pointers([x, out])] * 400
    assert native_pool.launch(kernel, packed(1000, 10), many, b"", 2) is None


def test_no_helpers_for_one_range_or_one_worker() -> None:
    call = compile(total()).bind([np.ones(10), np.zeros(1)])
    assert native_pool.run_calls([call], packed(10, 1), 4, Control()) is None
    assert native_pool.run_calls([call], packed(10, 5), 1, Control()) is None


def test_first_failure_stops_the_rest() -> None:
    x = np.ones(200_000)
    ends = np.full(len(x), -1)
    kernel, control = compile(keep_positive()), Control(budget=1000)
    kept = [[GrowBuffer(I4), GrowBuffer(F8)] for _ in range(2)]
    calls = [kernel.bind([x, ends], buffers) for buffers in kept]
    assert native_pool.run_calls(calls, packed(len(x), 400), 2, control) is Status.OVER_LIMIT
    assert control.cancelled and (ends >= 0).sum() < 2000
    y = np.zeros(50)
    again = compile(row_dots()).bind([np.ones(100), np.ones(100), y], (), [2])
    assert native_pool.run_calls([again], packed(50, 9), 2, Control()) is Status.DONE
    assert (y == 2).all()


def test_another_thread_can_cancel() -> None:
    control = Control()
    call = compile(endless()).bind([np.zeros(1, "i8")])
    threading.Timer(0.05, control.cancel).start()
    assert native_pool.run_calls([call], packed(4, 4), 2, control) is Status.CANCELLED


def test_long_jobs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each range lasted longer than a turn: all run once, and signals are heard between."""
    monkeypatch.setattr(native_pool, "TICKS_PER_SIGNAL_CHECK", 0)
    made = native_pool.NativePool(False)
    turns: list[int] = []
    enter = made.enter
    made.enter = lambda job: turns.append(0) or enter(job)  # type: ignore[assignment,func-returns-value]
    y = np.zeros(640)
    call = compile(row_dots()).bind([np.ones(1280), np.ones(1280), y], (), [2])
    for _ in range(50):
        y[:] = 0
        assert made.run([call], packed(640, 64), made.grow(2), Control()) is Status.DONE
        assert (y == 2).all()
    assert len(turns) > 50

    def interrupt(job: int) -> None:
        raise KeyboardInterrupt

    made.enter = interrupt  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        made.run([call], packed(640, 64), made.grow(2), Control())
    made.enter = enter
    y[:] = 0
    assert made.run([call], packed(640, 64), made.grow(2), Control()) is Status.DONE
    assert (y == 2).all()


def test_sleeping_helpers_wake() -> None:
    y = np.zeros(64)
    call = compile(row_dots()).bind([np.ones(128), np.ones(128), y], (), [2])
    for k in range(30):
        time.sleep(0.001 * (k % 3))
        y[:] = 0
        assert native_pool.run_calls([call], packed(64, 16), 4, Control()) is Status.DONE
        assert (y == 2).all()


def test_callers_at_once() -> None:
    """One of them has the native pool, the others are told to do without."""
    seen: list[Status | None] = []

    def user(seed: int) -> None:
        x, y = np.full(4000, float(seed)), np.zeros(400)
        call = compile(row_dots()).bind([x, np.ones(4000), y], (), [10])
        for _ in range(300):
            y[:] = 0
            status = native_pool.run_calls([call], packed(400, 20), 3, Control())
            assert status is None or (y == 10 * seed).all()
            seen.append(status)

    threads = [threading.Thread(target=user, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
    assert len(seen) == 900 and set(seen) <= {None, Status.DONE} and Status.DONE in seen


def test_helpers_hear_no_signals() -> None:
    if not Path("/proc/self/task").exists():
        pytest.skip("needs /proc")
    code = """
        import os, struct
        import numpy as np
        before = set(os.listdir("/proc/self/task"))
        from samples import total
        from tensorel.kernels.runtime import native_pool
        from tensorel.kernels.runtime.compiled import Control, compile
        call = compile(total(), disk=False).bind([np.ones(4), np.zeros(1)])
        assert native_pool.run_calls([call], struct.pack("4q", 0, 2, 2, 4), 2, Control()) == 0
        new, = set(os.listdir("/proc/self/task")) - before
        with open(f"/proc/self/task/{new}/status") as file:
            mask, = [int(x.split()[1], 16) for x in file if x.startswith("SigBlk")]
        print("fine" if mask >> 1 & 1 and mask >> 14 & 1 else hex(mask))
    """
    assert script(code) == "fine"


def script(code: str) -> str:
    here = str(Path(__file__).parent)
    text = f"import sys\nsys.path.insert(0, {here!r})\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


WORK = """
import os, struct, warnings
import numpy as np
from samples import row_dots
from tensorel.kernels.runtime import native_pool
from tensorel.kernels.runtime.compiled import Control, compile
def work():
    y = np.zeros(60)
    call = compile(row_dots()).bind([np.ones(120), np.ones(120), y], (), [2])
    pairs = struct.pack("12q", *[x for k in range(6) for x in (10 * k, 10 * k + 10)])
    return native_pool.run_calls([call], pairs, 3, Control()) == 0 and bool((y == 2).all())
assert work()
"""


def test_fork() -> None:
    assert script(WORK + """
warnings.simplefilter("ignore")
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if work() and native_pool.the_pool(True, True).helpers == 2 else 1)
    assert work() and os.waitpid(child, 0)[1] == 0
with native_pool.the_pool(True, True).busy:
    child = os.fork()
    if child == 0:
        os._exit(0 if work() else 1)
    assert os.waitpid(child, 0)[1] == 0
print("fine")
""") == "fine"


def test_process_ends_while_helpers_look_for_work() -> None:
    for _ in range(4):
        assert script(WORK + "work()\nprint('fine')") == "fine"


NEW = """
import struct
import numpy as np
import tensorel as tr
from samples import total
from tensorel.kernels.runtime import native_pool
from tensorel.kernels.runtime.compiled import Control, compile
call = compile(total()).bind([np.ones(10), np.zeros(1)])
pairs = struct.pack("4q", 0, 5, 5, 10)
"""


def test_no_pool_no_difference() -> None:
    """A system without semaphores or threads."""
    assert script(NEW + """
native_pool.CALLS = ("sem_init_of_nowhere",)
assert native_pool.run_calls([call], pairs, 2, Control()) is None
assert native_pool.the_pool(True, True) is None
assert tr.asarray(np.ones(10)).sum().compute().item() == 10
print("fine")
""") == "fine"


def test_a_pool_is_made_for_those_who_ask_again() -> None:
    assert script(NEW + """
found = [native_pool.run_calls([call], pairs, 2, Control(), eager=False) for _ in range(6)]
before = native_pool.JOBS_BEFORE_POOL - 1
assert found == [None] * before + [0] * (6 - before), found
print("fine")
""") == "fine"


@pytest.fixture
def eager() -> Iterator[None]:
    """As if every step were worth all threads, in all threads of the process."""
    before = config.current().costs
    config.set_default(costs=replace(SHIPPED, thread=1.0, thread_collect=1.0, thread_gain=0.5,
                                     memory=0.0, fresh=0.0))
    yield
    config.set_default(costs=before)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("fmt", ["csr", "csc", "coo", "dense"])
def test_steps_on_the_pool(eager: None, threads: int, fmt: str) -> None:
    rng = np.random.default_rng(threads)
    for rows, columns in ((1, 40), (30, 1), (50, 70), (400, 300)):
        dense = rng.integers(0, 5, (rows, columns)) * (rng.random((rows, columns)) < 0.2)
        dense = dense.astype(float)
        x = rng.integers(0, 9, columns).astype(float)
        a = tr.asarray(dense).to_format(fmt)
        with tr.options(threads=threads):
            assert np.array_equal((a @ x).compute().to_numpy(), dense @ x)
            assert np.array_equal(a.sum(axis=0).compute().to_numpy(), dense.sum(0))
            assert np.array_equal(a.max(axis=1).compute().to_numpy(), dense.max(1))
            assert np.array_equal((a * 2 * x).compute().to_numpy(), dense * 2 * x)
            assert a.sum().compute().item() == dense.sum()


@pytest.mark.parametrize("kept", [1, 7, 130, 399])
def test_operands_read_in_part(eager: None, kept: int) -> None:
    """The quantiles of an operand's rows may lie behind the end of the loop."""
    rng = np.random.default_rng(kept)
    dense = rng.integers(0, 5, (400, 300)) * (rng.random((400, 300)) < 0.2).astype(float)
    w = rng.integers(1, 9, (kept, 300)).astype(float)
    a = tr.asarray(dense).to_format("csr")
    with tr.options(threads=2):
        assert np.array_equal((a[:kept] * w).sum(axis=1).to_numpy(), (dense[:kept] * w).sum(1))
        assert np.array_equal((a[:kept] + w).to_numpy(), dense[:kept] + w)
        assert (a[:kept] * w).sum().compute().item() == (dense[:kept] * w).sum()


def test_steps_on_the_pool_from_many_threads(eager: None) -> None:
    dense = np.arange(6000.0).reshape(100, 60) % 7
    a, x, wrong = tr.asarray(dense).to_format("csr"), np.arange(60.0), list[int]()

    def user(threads: int) -> None:
        for _ in range(40):
            with tr.options(threads=threads):
                if not np.array_equal((a @ x).compute().to_numpy(), dense @ x):
                    wrong.append(threads)

    threads = [threading.Thread(target=user, args=(k,)) for k in (1, 2, 3, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
    assert not wrong


def test_after_a_pause_nothing_is_cleared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller looks for signals after a while, and all go on with what they have added up."""
    monkeypatch.setattr(native_pool, "TICKS_PER_SIGNAL_CHECK", 1000)
    team = native_pool.NativePool(disk=False)
    entered = []
    enter = team.enter
    team.enter = lambda job: entered.append(job) or enter(job)  # type: ignore[func-returns-value]
    assert team.grow(2) == 2
    x, out = array("x", F8), array("out", F8)
    kernel = compile(Kernel("added", (x, out), frozenset({"out"}), (), (), LO, HI, (For(
        I_, LO, HI, (Store(out, const(0, INT64), Call(ops.add, (
            Read(out, (const(0, INT64),)), Read(x, (I_,))))),)),)))
    values = np.ones(40_000)
    for _ in range(20):
        outs = [np.full(1, np.nan) for _ in range(3)]
        tables = [pointers([values, o]) for o in outs]
        entered.clear()
        done = team.launch(kernel.code.address, packed(40_000, 200), tables, b"", 2, 8, 1)
        assert done is Status.DONE
        assert len(entered) > 1, "it stopped at least once"
        assert np.nansum(outs) == 40_000
