"""One Ray cluster of four nodes on this machine, for all tests that need one: starting it takes
most of their time. Such tests are of the group ``ray``, so that one process runs all of them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'tensorel[ray]')")
    from tensorel.engines.sites.ray_cluster import RayCluster

    before = signal.getsignal(signal.SIGTERM)
    cluster = RayCluster(nodes=4, memory=80 << 20)
    folder = cluster._local.folder
    yield cluster
    cluster.close()
    cluster.close()
    assert not folder.exists() and not processes(folder.name)
    assert signal.getsignal(signal.SIGTERM) == before


def processes(name: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if name.encode() in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found
