"""Nodes of a Ray cluster: started on this machine, or found at an address."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from tensorel.engines.sites.ray_tasks import installed, look
from tensorel.errors import EngineError

SMALLEST_STORE = 80 << 20  # Ray refuses less than 75 MiB
STARTING = 120.0  # seconds for the first task at a node
SHARE_OF_MEMORY = 0.3  # of the machine, for the object stores of all nodes together

# A pull is sent again when it takes longer than the timeout, so large blocks over slow links would
# be sent twice. A node is given up after four checks without an answer: two seconds where its
# machine refuses connections, fifteen where nothing answers. Results up to a limit go to the driver
# and from there to who needs them, twice the bytes: by default up to 100 KiB, as blocks may be.
# Four processes of 50 MB would write to disk what a store cannot hold; these nodes share one.
SETTINGS = {
    "max_io_workers": 1,
    "max_direct_call_object_size": 16_384,
    "object_manager_pull_timeout_ms": 120_000,
    "health_check_initial_delay_ms": 2_000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 3_000,
    "health_check_failure_threshold": 4,
}


class LocalNodes:
    """``count`` nodes with raylets of their own on this machine; one site each. The node of the
    driver holds none, unless it is the only one. All they write is in a folder that is ours."""

    def __init__(self, count: int, memory: int | None) -> None:
        from ray.cluster_utils import Cluster

        main = threading.current_thread() is threading.main_thread()
        self._old_handler = signal.getsignal(signal.SIGTERM) if main else None
        # paths of sockets are at most 107 characters long, so the folder is not in $TMPDIR
        home = "/tmp" if os.path.isdir("/tmp") else None
        self.folder = Path(tempfile.mkdtemp(prefix="tensorel-ray-", dir=home))
        cores, stores = os.cpu_count() or 1, count + (count > 1)
        self._common: dict[str, Any] = {
            "temp_dir": str(self.folder / "ray"), "include_log_monitor": False,
            "object_store_memory": max(memory or _share(stores), SMALLEST_STORE)}
        alone = {"num_cpus": cores, "node_name": "site 0"} if count == 1 else {"num_cpus": 0}
        self._cores = max(1, cores // count)
        (self.folder / "ray").mkdir()
        self._cluster: Any = None
        try:
            with self._environment():
                self._cluster = Cluster(shutdown_at_exit=main)
                self._cluster.add_node(include_dashboard=False, _system_config=dict(SETTINGS),
                                       **self._common, **alone)
            self.workers = [self._started(i) for i in range(count if count > 1 else 0)]
            self._cluster.wait_for_nodes()
            self.address: str = self._cluster.address
        except BaseException:
            self.close()
            raise

    def _started(self, site: int) -> Any:
        with self._environment():
            return self._cluster.add_node(num_cpus=self._cores, **self._common,
                                          node_name=f"site {site}", wait=False)

    def _environment(self) -> AbstractContextManager[None]:
        return environment(RAY_TMPDIR=str(self.folder), RAY_USAGE_STATS_ENABLED="0",
                           PYTHONPATH=os.pathsep.join(p for p in sys.path if os.path.isdir(p)))

    def kill(self, site: int) -> None:
        """End a node without a word, as a loss of power would."""
        self._cluster.remove_node(self.workers[site], allow_graceful=False)

    def renew(self, site: int) -> None:
        """A node in the place of one that was killed, for clusters that join from now on."""
        self.workers[site] = self._started(site)
        self._cluster.wait_for_nodes()

    def close(self) -> None:
        """No process is left that was started here, and no file. The driver is no longer connected
        when this is called."""
        with environment(RAY_TMPDIR=str(self.folder)):
            if self._cluster is not None:
                with suppress(Exception):
                    self._cluster.shutdown()
        begun = time.monotonic()
        while (left := _started_here(self.folder.name)) and time.monotonic() < begun + 10.0:
            if time.monotonic() > begun + 3.0:
                for process in left:
                    with suppress(OSError):
                        os.kill(process, signal.SIGKILL)
            time.sleep(0.05)
        while self.folder.exists() and time.monotonic() < begun + 11.0:
            shutil.rmtree(self.folder, ignore_errors=True)  # fails where a file appears meanwhile
        if self._old_handler is not None and \
                threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._old_handler)


def _share(stores: int) -> int:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * SHARE_OF_MEMORY
    with suppress(OSError):
        whole = min(whole, 0.8 * shutil.disk_usage("/dev/shm").free)
    return int(whole / stores)


def _started_here(folder: str) -> list[int]:
    """Processes that have the folder in their environment: it went to nodes and their workers."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if folder.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


@contextmanager
def environment(**names: str) -> Iterator[None]:
    """These variables are set for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def site_nodes(nodes: list[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    """The nodes that are sites, always in the same order: those that are alive and may run tasks,
    by name where we named them, by address elsewhere. The head is one only where it is alone."""
    alive = [n for n in nodes if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
    workers = [n for n in alive if "node:__internal_head__" not in n["Resources"]] or alive

    def order(node: dict[str, Any]) -> tuple[Any, ...]:
        name = node.get("NodeName", "")
        number = int(name[5:]) if name.startswith("site ") and name[5:].isdigit() else 0
        address = node["NodeManagerAddress"]
        parts = [int(p) if p.isdigit() else 0 for p in address.split(".")]
        return parts, number, address, node["NodeManagerPort"], node["NodeID"]

    found = sorted(workers, key=order)
    if not found:
        raise EngineError("the Ray cluster has no node with a CPU for tasks")
    if most is not None and len(found) < most:
        raise EngineError(f"{most} nodes were asked for, the Ray cluster has {len(found)}")
    return found[:most]


def name_of(node: dict[str, Any]) -> str:
    name, address = node.get("NodeName", ""), node["NodeManagerAddress"]
    return f"{name} ({address})" if name and name != address else str(address)


def bound_to(node: str) -> dict[str, Any]:
    """Options of a task that runs at this node or nowhere, once."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"num_cpus": 1, "max_retries": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def check_nodes(ray: Any, nodes: list[str], names: list[str]) -> None:
    """Each node runs tasks, and has the versions that are here."""
    remote, here = ray.remote(look()), installed()
    found = [remote.options(**bound_to(node)).remote() for node in nodes]
    for name, versions in zip(names, found):
        try:
            there = ray.get(versions, timeout=STARTING)
        except ray.exceptions.RayError as problem:
            raise EngineError(f"node {name} runs no tasks: {problem}") from problem
        check_versions(there, here, name)


def check_versions(found: dict[str, str], here: dict[str, str], node: str) -> None:
    """Refuse a node where other versions are installed than here."""
    other = [f"{name} {found.get(name)}, here {here[name]}"
             for name in here if found.get(name) != here[name]]
    if other:
        raise EngineError(f"node {node} has {'; '.join(other)}",
                          hint="install the same versions on every node of the cluster")


def ray_itself() -> Any:
    try:
        import ray
    except ImportError as missing:
        raise EngineError("Ray is not installed", hint="pip install 'tensorel[ray]'") from missing
    return ray
