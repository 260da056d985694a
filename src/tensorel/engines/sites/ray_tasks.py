"""What runs at the sites of a Ray cluster: the call of a task, and a look at what is installed."""

from __future__ import annotations

import pickle
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from tensorel.engines.sites.cluster import Shared, size_of
from tensorel.errors import EngineError

MOST_BYTES = 20_000  # of what is sent with each task, and not left with the cluster once


class Report(NamedTuple):
    """What the driver learns of a task; it is small and comes without being asked for."""

    size: int
    seconds: float
    problem: bytes | None = None


class NotMade:
    """Stands for the result of a task that failed or was dropped, and of those that need it: they
    do not run."""


class Dropped:
    """Which tasks of a driver shall not begin: those sent before it called for that. Ray's own way
    to cancel ends the driver when a task is done at the very moment at which it is cancelled (a
    known fault of Ray), so the word is left with the cluster, and tasks look there."""

    LOOK = 0.1  # seconds for which an answer holds

    def __init__(self, name: str) -> None:
        self.key = f"tensorel:{name}".encode()
        self._known, self._looked = 0, -1.0

    def call(self, since: int) -> None:
        """Tasks of an order below ``since`` shall not begin."""
        from ray.experimental import internal_kv

        internal_kv._internal_kv_put(self.key, str(since).encode(), overwrite=True)

    def forget(self) -> None:
        from ray.experimental import internal_kv

        internal_kv._internal_kv_del(self.key)

    def has(self, order: int) -> bool:
        now = time.monotonic()
        if now - self._looked > self.LOOK:
            from ray.experimental import internal_kv

            self._known = int(internal_kv._internal_kv_get(self.key) or 0)
            self._looked = time.monotonic()
        return order < self._known


class Watch:
    """Ends the task that this process runs when its driver drops it. The main thread, which runs
    it, gets a signal; native code is not interrupted."""

    LOOK = 1.0  # seconds between looks, and before the first

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[Dropped, int, float] | None = None
        signal.signal(signal.SIGUSR1, self._end)
        threading.Thread(target=self._look, name="tensorel-watch", daemon=True).start()

    def begin(self, dropped: Dropped, order: int) -> None:
        self._running = (dropped, order, time.monotonic())

    def done(self) -> None:
        with self._lock:  # a signal that is under way has come when this is free
            self._running = None

    def _end(self, *_: object) -> None:
        if self._running is not None:
            raise KeyboardInterrupt

    def _look(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while True:
            time.sleep(self.LOOK)
            running = self._running
            if running is None or time.monotonic() - running[2] < self.LOOK:
                continue
            dropped, order, _ = running
            if dropped.has(order):
                with self._lock:
                    if self._running is running:
                        signal.pthread_kill(main, signal.SIGUSR1)


_drivers: dict[str, Dropped] = {}  # of this process, which is one of Ray's workers
_watches: list[Watch] = []


def packed_call(call: Callable[..., Any]) -> Any:
    """A call as bytes, which Ray sends without a look; one that refers to what a program defines,
    or that holds much data, as it is: Ray's way to send these takes longer or copies less."""
    try:
        found = pickle.dumps(call, 5)
    except Exception:
        return call
    return call if len(found) > MOST_BYTES or b"__main__" in found else found


def sent(ray: Any, shared: Shared) -> tuple[bytes, Any]:
    """Its name and data; much data is left with the cluster, and its reference given."""
    from ray import cloudpickle

    if shared.sent is None:
        data = cloudpickle.dumps(shared.value)
        large = len(data) > MOST_BYTES
        shared.sent = sha256(data).digest(), (
            ray.put(np.frombuffer(data, np.uint8)) if large else data)
    found: tuple[bytes, Any] = shared.sent
    return found


class RemoteTraceback(Exception):
    """Where an error was raised at a site; the cause of the error as the user sees it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return "\n" + self.text


_restored: OrderedDict[bytes, Any] = OrderedDict()  # what tasks share, by its name
MOST_RESTORED = 64


def restored(name: bytes, data: Any) -> Any:
    """What ``data`` was made of; once in a process."""
    if name not in _restored:
        _restored[name] = loaded(data)
        if len(_restored) > MOST_RESTORED:
            _restored.popitem(last=False)
    return _restored[name]


def loaded(data: Any) -> Any:
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError) as problem:
        raise EngineError(
            f"a function of the program cannot be read at a site: {problem}",
            hint="install its module on every node, or define it in the program that is run"
        ) from problem


def run(driver: str, order: int, call: Any, shared: int,
        *inputs: Any) -> tuple[Any, Report | None]:
    """The result of a task and its report; without a report, the task did not run because it was
    dropped, or one that it needs has failed. ``inputs`` begin with names and data of what tasks
    share, in turn."""
    if any(isinstance(value, NotMade) for value in inputs):
        return NotMade(), None
    dropped = _drivers.get(driver)
    if dropped is None:
        dropped = _drivers[driver] = Dropped(driver)
    if dropped.has(order):
        return NotMade(), None
    if not _watches:
        _watches.append(Watch())
    watch, start = _watches[0], time.perf_counter()
    try:
        watch.begin(dropped, order)
        try:
            values = [restored(inputs[2 * k], inputs[2 * k + 1]) for k in range(shared)]
            made = (loaded(call) if isinstance(call, bytes) else call)(
                *values, *inputs[2 * shared:])
        finally:
            watch.done()
    except BaseException as problem:  # the error belongs to who waits
        return NotMade(), Report(0, time.perf_counter() - start, packed(problem))
    return made, Report(size_of(made), time.perf_counter() - start)


def packed(problem: BaseException) -> bytes:
    """An error to be sent; one that cannot be read again is sent as its text."""
    from ray import cloudpickle

    text = "".join(traceback.format_exception(problem))
    try:
        found: bytes = cloudpickle.dumps((problem, text))
        pickle.loads(found)
    except Exception:
        told = EngineError(f"{type(problem).__name__}: {problem}")
        found = pickle.dumps((told, text))
    return found


def unpacked(found: bytes) -> BaseException:
    problem, text = pickle.loads(found)
    problem.__cause__ = RemoteTraceback(text)
    assert isinstance(problem, BaseException)
    return problem


def installed() -> dict[str, str]:
    """Versions that must be the same everywhere, since plans and kernels are sent."""
    return {"tensorel": sys.modules["tensorel"].__version__, "NumPy": np.__version__,
            "Python": ".".join(map(str, sys.version_info[:2]))}


def look() -> Callable[[], dict[str, str]]:
    """A function that says what is installed where it runs. It is sent by value, so that it runs
    where Tensorel is missing."""

    def versions() -> dict[str, str]:
        import importlib
        import platform

        found = {"Python": ".".join(platform.python_version_tuple()[:2])}
        for name, package in (("tensorel", "tensorel"), ("NumPy", "numpy")):
            try:
                found[name] = str(importlib.import_module(package).__version__)
            except Exception as problem:
                found[name] = f"missing ({problem})"
        return found

    return versions
