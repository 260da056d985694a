"""Running kernels: the disk cache, threads, signals, forks."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from samples import F8, I4, endless, keep_positive, spmv, total

from measures import allowed
from tensorel.base import cache_files
from tensorel.kernels.llvm.module import emit
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime import compiled, compiler, kernel_cache, object_code
from tensorel.kernels.runtime.compiled import Control, GrowBuffer, compile
from tensorel.kernels.runtime.python_pool import run_ranges


def forget() -> None:
    """As in a new process."""
    compiled.compiled_kernels.clear()
    compiled.loaded_objects.clear()


def entries() -> list[Path]:
    return sorted((Path(os.environ["XDG_CACHE_HOME"]) / "tensorel" / "kernels").iterdir())


def has_cache() -> bool:
    with cache_files.folder("kernels") as place:
        return place is not None


def summed(x: np.ndarray) -> float:
    out = np.zeros(1)
    assert compile(total()).run([x, out], [], [], 0, len(x), Control()) is Status.DONE
    return float(out[0])


# -- disk cache --------------------------------------------------------------------------------
def test_second_process_reads_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    assert summed(np.ones(5)) == 5.0
    assert len(entries()) == 1
    forget()
    monkeypatch.setattr(compiler, "compile_object", None)
    assert summed(np.ones(7)) == 7.0


def test_cache_is_private(own_cache: Path) -> None:
    forget()
    summed(np.ones(2))
    folder = own_cache / "tensorel" / "kernels"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    assert not has_cache() and kernel_cache.load("0" * 64) is None
    forget()
    assert summed(np.ones(3)) == 3.0


@pytest.mark.parametrize("damage", ["empty", "cut", "flip", "header", "other", "long", "folder"])
def test_damaged_entries_are_written_anew(damage: str) -> None:
    forget()
    summed(np.ones(2))
    entry, = entries()
    good = entry.read_bytes()
    bad = {
        "empty": b"", "cut": good[:-9], "header": b"x" + good[1:], "long": good + b"\0",
        "flip": good[:-50] + bytes([good[-50] ^ 1]) + good[-49:], "other": b"\x7fELF" * 100,
    }
    if damage == "folder":
        entry.unlink()
        entry.mkdir()
    else:
        entry.write_bytes(bad[damage])
    assert kernel_cache.load(entry.name) is None
    forget()
    assert summed(np.ones(4)) == 4.0
    if damage != "folder":
        assert entry.read_bytes() == good


def test_entry_under_a_foreign_name_is_not_taken() -> None:
    forget()
    summed(np.ones(2))
    entry, = entries()
    foreign = entry.with_name("0" * 64)
    foreign.write_bytes(entry.read_bytes())
    assert kernel_cache.load(foreign.name) is None


def test_loader_refuses_what_it_does_not_know() -> None:
    with pytest.raises(object_code.Refused):
        object_code.load(b"\x7fELF\x02\x01 nothing", "kernel")


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null", "relative"])
def test_unusable_home(home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/proc/nowhere")
    forget()
    assert summed(np.ones(3)) == 3.0
    assert not has_cache()


def test_cache_size_is_bounded(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "MAX_BYTES", 3500)
    folder = own_cache / "tensorel" / "kernels"
    for k in range(10):
        kernel_cache.store(f"{k:064x}", bytes(1000))
        os.utime(folder / f"{k:064x}", (k, k))
    (folder / "a user's").write_bytes(bytes(5000))
    with cache_files.folder("kernels") as place:
        assert place is not None
        kernel_cache.sweep(place)
    assert [e.name[-1] for e in entries()] == ["7", "8", "9", "s"]


def test_key_depends_on_text_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    text = emit(spmv())
    first = kernel_cache.key(text)
    assert first != kernel_cache.key(text + " ") and first == kernel_cache.key(emit(spmv()))
    monkeypatch.setattr(kernel_cache, "origin", lambda: b"other")
    assert first != kernel_cache.key(text)


# -- memory ------------------------------------------------------------------------------------
def test_taken_arrays_own_their_memory() -> None:
    x = np.ones(100_000)
    kernel = compile(keep_positive())
    for _ in range(8):
        buffers = [GrowBuffer(I4), GrowBuffer(F8)]
        kernel.run([x, np.zeros(len(x), "i8")], buffers, [], 0, len(x), Control())
        values = buffers[1].take()
        part = values[50_000:]
        del values, buffers
        gc.collect()
        assert part.sum() == 50_000


def test_code_lives_as_long_as_it_is_bound() -> None:
    forget()
    out = np.zeros(1)
    call = compile(total()).bind([np.ones(10), out])
    forget()
    gc.collect()
    assert call(0, 10, Control()) is Status.DONE and out[0] == 10


def test_object_loader_resolves_data_and_calls() -> None:
    text = """
@table = internal constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]
@address = internal constant ptr @table
declare double @cbrt(double)
define double @kernel(i64 %i) {
  %t = load volatile ptr, ptr @address
  %p = getelementptr inbounds double, ptr %t, i64 %i
  %v = load double, ptr %p
  %r = call double @cbrt(double %v)
  ret double %r
}"""
    code = compiler.compile_object(text)
    for load in (compiler.load_object, compiler.load_with_llvm):
        loaded = load(code)
        function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_longlong)(loaded.address)
        assert function(3) == 2.0 and function(0) == 1.0


# -- threads -----------------------------------------------------------------------------------
def test_all_tasks_run_once() -> None:
    done: list[tuple[int, int]] = []
    for small in (True, False):
        done.clear()
        tasks = [lambda w, k=k: done.append((k, w)) or Status.DONE for k in range(100)]
        assert run_ranges(tasks, 3, Control(), small=small) is Status.DONE
        assert sorted(k for k, _ in done) == list(range(100))
        assert {w for _, w in done} <= {0, 1, 2}
    assert run_ranges([], 2, Control()) is Status.DONE


def test_a_worker_number_is_never_used_twice_at_once() -> None:
    busy: set[int] = set()

    def task(worker: int) -> Status:
        assert worker not in busy
        busy.add(worker)
        time.sleep(0.001)
        busy.remove(worker)
        return Status.DONE

    assert run_ranges([task] * 40, 4, Control()) is Status.DONE


def test_first_failure_stops_the_rest() -> None:
    control, seen = Control(), list[int]()

    def task(k: int) -> Status:
        seen.append(k)
        return Status.OVER_LIMIT if len(seen) == 3 else Status.DONE

    assert run_ranges([task] * 1000, 2, control) is Status.OVER_LIMIT
    assert control.cancelled and len(seen) < 10


def test_errors_come_to_the_caller() -> None:
    def task(worker: int) -> Status:
        raise ZeroDivisionError("in a task")

    with pytest.raises(ZeroDivisionError, match="in a task"):
        run_ranges([task] * 5, 2, Control())
    assert run_ranges([lambda w: Status.DONE] * 5, 2, Control()) is Status.DONE


def test_nested_and_concurrent_calls() -> None:
    def inner(worker: int) -> Status:
        return run_ranges([lambda w: Status.DONE] * 4, 4, Control())

    results: list[Status] = []

    def user() -> None:
        for _ in range(20):
            results.append(run_ranges([inner] * 6, 3, Control()))

    threads = [threading.Thread(target=user) for _ in range(4)]
    for t in threads:
        t.start()
    user()
    for t in threads:
        t.join(300)
    assert results == [Status.DONE] * 100


def test_two_threads_compile_and_run_at_once() -> None:
    forget()
    x, answers = np.ones(1000), list[float]()
    threads = [threading.Thread(target=lambda: answers.append(summed(x))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
    assert answers == [1000.0] * 4


@pytest.mark.measured
def test_kernels_run_beside_each_other() -> None:
    """Two endless kernels on two workers, stopped by a third thread."""
    control = Control()
    call = [compile(endless()).bind([np.zeros(1, "i8")]) for _ in range(2)]
    threading.Timer(0.05, control.cancel).start()
    status = run_ranges([lambda w, c=c: c(0, 0, control) for c in call], 2, control)
    assert status is Status.CANCELLED


def interrupt(runs: threading.Event, struck: list[float]) -> threading.Thread:
    """Ctrl-C some time after the kernel was begun; ``struck``: the processor time by then."""
    def strike() -> None:
        runs.wait()
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        struck.append(time.process_time())

    striker = threading.Thread(target=strike)
    striker.start()
    return striker


@pytest.fixture(params=[True, False], ids=["own handler", "as polars installs it"])
def interrupting(request: pytest.FixtureRequest) -> Iterator[None]:
    """Signals end waits of the system, or let them go on."""
    signal.siginterrupt(signal.SIGINT, request.param)
    yield
    signal.siginterrupt(signal.SIGINT, True)


@pytest.mark.measured
@pytest.mark.usefixtures("interrupting")
@pytest.mark.parametrize("workers", [1, 2])
def test_interrupt_stops_a_long_kernel(workers: int) -> None:
    """All workers together go on for less than a second of the processor; the kernel has no end."""
    call = compile(endless()).bind([np.zeros(1, "i8")])
    for _ in range(3):
        control, runs, struck = Control(), threading.Event(), list[float]()
        striker = interrupt(runs, struck)

        def task(worker: int, control: Control = control, runs: threading.Event = runs) -> Status:
            runs.set()
            return call(0, 0, control)

        with pytest.raises(KeyboardInterrupt):
            run_ranges([task] * 2, workers, control)
        ended = time.process_time()
        striker.join()
        assert ended - struck[0] < allowed(1.0)
        assert summed(np.ones(10)) == 10.0


# -- fork --------------------------------------------------------------------------------------
FORK = """
    import os, sys, warnings
    import numpy as np
    sys.path.insert(0, {here!r})
    from samples import spmv, total
    from tensorel.kernels.runtime.compiled import Control, compile, run_ranges
    def work(kernel):
        x, out = np.ones(1000), np.zeros(1)
        control = Control()
        call = compile(kernel, disk=False).bind([x, out])
        assert run_ranges([lambda w: call(0, 1000, control)] * 4, 2, control) == 0
        return out[0] == 1000.0
    assert work(total())
    warnings.simplefilter("ignore")
    child = os.fork()
    if child == 0:
        compile(spmv(), disk=False)
        os._exit(0 if work(total(checked=False)) else 1)
    assert os.waitpid(child, 0)[1] == 0 and work(total())
    print("fine")
"""


def test_fork() -> None:
    here = str(Path(__file__).parent)
    script = textwrap.dedent(FORK).format(here=here)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.stdout.strip() == "fine", done.stderr


def test_warm_start_does_not_load_llvm() -> None:
    if not object_code.is_supported():
        pytest.skip("this machine loads object code with LLVM")
    here = str(Path(__file__).parent)
    script = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {here!r})
        from samples import spmv
        from tensorel.kernels.runtime.compiled import compile
        compile(spmv())
        print("llvmlite.binding" in sys.modules)
    """)
    seen = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
                       check=True).stdout.strip() for _ in range(2)
    ]
    assert seen == ["True", "False"]
