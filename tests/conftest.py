"""Tests plan by the shipped costs, whatever was calibrated on the machine, look wholly at every
tensor that is packed or that a step makes, and hear Ctrl-C, also where a shell started them in the
background, which it does with the signal ignored. Processes that they start find bytecode: else
each would compile the package."""

from __future__ import annotations

import gc
import os
import signal
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import slow_tests

os.environ["TENSOREL_COSTS"] = "shipped"
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache/bytecode")

from tensorel import config
from tensorel.rules import table

config.set_default(verify=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = slow_tests.listed()
    for item in items:
        if slow_tests.name_of(item) in slow and item.get_closest_marker("check") is None:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("measured"):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))


def pytest_collection_finish() -> None:
    """Ten thousand tests that lie in memory are nothing for the collector of garbage to look at."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: How much effort kernels of tests are compiled with, by folder: little where tests are about what
#: is planned, stored and kept; in the engine's, one in two tests, chosen by its name, so that each
#: storage and each program meets both. Elsewhere all of it. ``pytest.mark.effort`` says otherwise.
EFFORTS = {"engine": ("full", "quick"), **dict.fromkeys(
    ("catalog", "comprehension", "front", "io", "language", "loops", "plan", "relational", "sdql",
     "sharing", "sql", "stats", "storage", "tables"),
    ("quick",))}


@pytest.fixture(autouse=True)
def effort(request: pytest.FixtureRequest) -> Iterator[None]:
    marked = request.node.get_closest_marker("effort")
    choices = marked.args if marked else EFFORTS.get(request.path.parent.name, ("full",))
    chosen = choices[zlib.crc32(request.node.name.encode()) % len(choices)]
    with config.options(effort=chosen) if chosen != "full" else nullcontext():
        yield


@pytest.fixture
def own_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rules that a test adds or switches are as before when it ends."""
    for name in ("RULES", "ADDED", "DISABLED"):
        monkeypatch.setattr(table, name, getattr(table, name).copy())
    yield
    monkeypatch.undo()
    table.enable(next(iter(table.RULES)))  # no plan was made under this version
