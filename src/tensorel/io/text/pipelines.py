"""A pipeline: the caller makes items, threads work on them, results come back in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class _Task(Generic[T, R]):
    """An item on its way: its result or its error once ``done`` is set."""

    __slots__ = ("done", "error", "item", "result")

    def __init__(self, item: T) -> None:
        self.item = item
        self.done = threading.Event()
        self.result: list[R] = []
        self.error: BaseException | None = None


def in_order(
    function: Callable[[T], R], items: Iterable[T], workers: int, cancel: Callable[[], None]
) -> Iterator[R]:
    """``function(item)`` for each item, in order; at most ``workers + 1`` items are under way.

    Items are made in the caller's thread, which a signal interrupts: then, and on any error,
    ``cancel`` is called, running calls are waited for, and nothing is left behind.

    >>> list(in_order(abs, [-1, 2, -3], 2, lambda: None))
    [1, 2, 3]
    """
    queue: SimpleQueue[_Task[T, R] | None] = SimpleQueue()
    waiting: deque[_Task[T, R]] = deque()
    threads: list[threading.Thread] = []

    def serve() -> None:
        while (task := queue.get()) is not None:
            try:
                task.result.append(function(task.item))
            except BaseException as error:
                task.error = error
            task.done.set()

    try:
        for item in items:
            if len(threads) < workers:
                threads.append(threading.Thread(target=serve, name="tensorel-io", daemon=True))
                threads[-1].start()
            waiting.append(_Task(item))
            queue.put(waiting[-1])
            if len(waiting) > workers:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())
    except BaseException:
        cancel()
        raise
    finally:
        while not queue.empty():
            queue.get_nowait()
        for _ in threads:
            queue.put(None)
        for thread in threads:
            thread.join()


def _result(task: _Task[T, R]) -> R:
    task.done.wait()
    if task.error is not None:
        raise task.error
    return task.result[0]
