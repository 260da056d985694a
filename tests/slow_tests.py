"""Which tests `make check` leaves out: those that take more than ``LIMIT`` seconds of the
processor, all cases of a function together, where no kernel has been compiled yet.

    python tests/slow_tests.py    measures all tests, a quarter of an hour, and writes slow.txt

``conftest.py`` marks what is listed as ``slow``, unless it is marked ``check``: cases that find
much. A new test is quick until somebody measures."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIST = HERE / "slow.txt"
LIMIT = 0.3


def listed() -> frozenset[str]:
    """``folder/module.py::function`` of each."""
    return frozenset(LIST.read_text().split())


def name_of(item: pytest.Item) -> str:
    return f"{item.path.relative_to(HERE).as_posix()}::{item.name.partition('[')[0]}"


def processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class Measure:
    """A plugin that adds up seconds by function."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start = processor_seconds()
        result = yield
        self.seconds[name_of(item)] += processor_seconds() - start
        return result


def main() -> int:
    measure = Measure()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        status = pytest.main(["-p", "no:xdist", str(HERE)], plugins=[measure])
    if status == pytest.ExitCode.OK:
        names = [name for name, seconds in measure.seconds.items() if seconds > LIMIT]
        LIST.write_text("\n".join(sorted(names)) + "\n")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
