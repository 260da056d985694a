"""Sites that are nodes of a Ray cluster.

A task of ours is a task of Ray that is bound to its node. It is given references, so that blocks go
from node to node; the driver sees reports of a few bytes, many at a time. When a node dies, what it
held is made again from its lineage, at the other nodes: Ray itself would let all tasks fail that
are bound to the node, or pile the lost work on one survivor.
"""

from __future__ import annotations

import atexit
import math
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any

from tensorel.engines.sites.cluster import Cluster, Task
from tensorel.engines.sites.ledger import Ledger
from tensorel.engines.sites.placing import levels, place
from tensorel.engines.sites.progress import Progress
from tensorel.engines.sites.ray_nodes import (
    LocalNodes,
    bound_to,
    check_nodes,
    name_of,
    ray_itself,
    site_nodes,
)
from tensorel.engines.sites.ray_objects import locate, read
from tensorel.engines.sites.ray_tasks import Dropped, Report, packed_call, run, sent, unpacked
from tensorel.errors import EngineError

CHUNK = 1000  # reports that are asked for at a time
PAUSE = 0.2  # seconds between looks at what has failed
INLINE = 12_000  # bytes; smaller results lie with the driver and cannot be lost
NODE_PATIENCE = 90.0  # seconds until the cluster says that a node is dead which left a task
PATIENCE = 1.0  # seconds, after other failures of the machine
ROOM = 0.7  # of an object store, for what is spare and all else; what is above it is spilled
ATTEMPTS = 3  # for a task that is lost though its node lives


class RayCluster(Cluster):
    """Joins the cluster at ``address``, or starts one of ``nodes`` nodes on this machine. Where Ray
    was initialized before, that connection is used, and left open. ``memory``: bytes that each
    site may hold; ``progress`` is called with the numbers of tasks done and submitted while the
    driver waits."""

    kind = "ray"

    def __init__(self, address: str | None = None, nodes: int | None = None,
                 memory: int | None = None,
                 progress: Callable[[int, int], None] | None = None) -> None:
        self._ray = ray_itself()
        self._local: LocalNodes | None = None
        self._joined = self._closed = False
        self._progress = progress
        if address is not None and address.startswith("ray://"):
            raise EngineError("a Ray client (ray://) cannot place blocks",
                              hint="run the program on a machine of the cluster and give its "
                                   "address, as host:port or 'auto'")
        try:
            self._connect(address, nodes, memory)
            atexit.register(self.close)  # after Ray's own, so that it is called before
            found = site_nodes(self._ray.nodes(), nodes)
            self._nodes: list[str] = [n["NodeID"] for n in found]
            self._names: list[str] = [name_of(n) for n in found]
            self._living = list(range(len(found)))
            check_nodes(self._ray, self._nodes, self._names)
        except BaseException:
            self.close()
            raise
        self._state = RLock()
        self._refs: dict[int, Any] = {}
        self._reports: dict[Any, int] = {}  # references to reports, oldest first
        self._broken: dict[int, tuple[float, Exception]] = {}  # tasks that the machine ended
        self._attempts: dict[int, int] = {}
        stores = [float(n["Resources"].get("object_store_memory", 0.0)) for n in found]
        self._ledger = Ledger(self._forget, min(ROOM * min(stores), memory or math.inf))
        self._failure: BaseException | None = None
        self._looked = 0.0
        self._done, self._flops, self._seconds = 0, 0.0, 0.0
        self._stuck: tuple[float, set[int]] = (0.0, set())  # tasks to be looked at, and when
        self._patience = PATIENCE
        self._name, self._order = uuid.uuid4().hex, 0
        self._dropped = Dropped(self._name)
        remote = self._ray.remote(run)
        self._run = [remote.options(num_returns=2, **bound_to(node)) for node in self._nodes]
        super().__init__(len(found), memory)

    # -- beginning and end ----------------------------------------------------------------------
    def _connect(self, address: str | None, nodes: int | None, memory: int | None) -> None:
        if self._ray.is_initialized():
            if nodes is not None and address is None:
                raise EngineError("Ray is connected to a cluster already",
                                  hint="ray.shutdown(), or leave out nodes= to use that cluster")
            return
        if address is None:
            self._local = LocalNodes(nodes or 1, memory)
            address = self._local.address
        self._joined = True
        # what fails is told by errors of ours, not by lines that Ray writes
        self._ray.init(address=address, log_to_driver=False, logging_level="CRITICAL")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        if hasattr(self, "_ledger") and self._ray.is_initialized():
            with suppress(Exception):
                self._drop_tasks()
                self._dropped.forget()
            self._refs.clear()
            self._reports.clear()
        if self._joined:
            self._ray.shutdown()
        if self._local is not None:
            self._local.close()

    # -- tasks ----------------------------------------------------------------------------------
    def submit(self, tasks: Sequence[Task]) -> None:
        with self._state:
            self._failure = None
            try:
                homeless = [t for t in tasks if t.site not in self._living]
                at = self._elsewhere(homeless, tasks) if homeless else {}
                for t in tasks:
                    self._launch(t, at.get(t.number, t.site))
            except BaseException:
                self._drop_tasks()
                raise

    def _launch(self, task: Task, site: int) -> None:
        try:
            needs = [self._refs[n] for n in task.needs]
        except KeyError as missing:
            raise self._gone([missing.args[0]]) from None
        shared = [x for s in task.shared for x in sent(self._ray, s)]
        value, report = self._run[site].remote(
            self._name, self._order, packed_call(task.call), len(task.shared), *shared, *needs)
        self._refs[task.number] = value
        self._reports[report] = task.number
        if task.number not in self._ledger.tasks:
            self._ledger.accept(task)
        self._ledger.start(task.number, site)

    def _forget(self, number: int) -> None:
        self._refs.pop(number, None)

    def _gone(self, numbers: Sequence[int]) -> EngineError:
        return EngineError(f"results {list(numbers)[:3]} are not at the sites any more",
                           hint="the engine was closed, or their tensor was dropped")

    def wait(self, numbers: Iterable[int]) -> None:
        asked = list(numbers)
        bar, begun = Progress(self._progress), self._done
        try:
            while True:
                with self._state:
                    start = time.perf_counter()
                    self._collect()
                    flying = self._ledger.flying
                    waiting = [n for n in asked if n in flying]
                    if self._failure is not None or not waiting:
                        break
                    self._mend()
                    reports = self._asked(waiting)
                    pause = max(PAUSE, 4 * (time.perf_counter() - start))
                    done, total = self._done - begun, self._done - begun + len(flying)
                bar.show(done, total)
                if reports:
                    self._ray.wait(reports, num_returns=len(reports), timeout=pause,
                                   fetch_local=False)
                else:
                    time.sleep(PAUSE)
        except BaseException:
            with self._state:
                self._drop_tasks()
            raise
        finally:
            bar.end()
        if self._failure is not None:
            raise self._failure
        if lost := [n for n in asked if n not in self._refs]:
            raise self._gone(lost)

    def _asked(self, waiting: list[int]) -> list[Any]:
        wanted = set(waiting)
        return [r for r, n in self._reports.items() if n in wanted][:CHUNK]

    def fetch(self, number: int) -> Any:
        patience = 5.0  # a pull from a node that dies would never end; one that lives gets longer
        while True:
            self.wait([number])
            try:
                return self._ray.get(self._refs[number], timeout=patience)
            except self._ray.exceptions.GetTimeoutError:
                patience *= 2
            except self._ray.exceptions.RayError as problem:
                if patience > NODE_PATIENCE:
                    raise EngineError(f"a result cannot be fetched: {problem}") from problem
                patience *= 1.5
                time.sleep(PATIENCE)
            with self._state:
                self._mend(number)

    def release(self, numbers: Iterable[int]) -> None:
        with self._state:
            for n in numbers:
                self._ledger.release(n)

    def held(self) -> list[int]:
        with self._state:
            return self._ledger.held(self.sites)

    def sizes(self, numbers: Sequence[int]) -> list[int] | None:
        with self._state:
            return [self._ledger.sizes[n] for n in numbers]

    def stats(self) -> dict[str, Any]:
        with self._state:
            if not self._closed:
                self._collect()
            return super().stats()

    def _drop_tasks(self) -> None:
        """Nothing that was submitted begins any more."""
        self._order += 1
        with suppress(Exception):  # the connection may be gone
            self._dropped.call(self._order)
        for n in reversed(list(self._ledger.flying)):  # readers first
            self._ledger.stop(n)
        self._reports.clear()
        self._broken.clear()

    # -- reports --------------------------------------------------------------------------------
    def _collect(self) -> None:
        """Take note of all that is done."""
        reports = list(self._reports)
        for begin in range(0, len(reports), CHUNK):
            part = reports[begin:begin + CHUNK]
            ready = self._ray.wait(part, num_returns=len(part), timeout=0, fetch_local=False)[0]
            for ref, report in zip(ready, read(self._ray, ready)):
                number = self._reports.get(ref)
                if number is not None:
                    self._note(number, ref, report)

    def _note(self, number: int, ref: Any, report: Report | Exception | None) -> None:
        if isinstance(report, Report) and report.problem is None:
            if self._ledger.ready(number):  # else what it needed is noted first
                del self._reports[ref]
                self._finish(number, report)
            return
        del self._reports[ref]
        if isinstance(report, Report):
            assert report.problem is not None
            self._fail(number, unpacked(report.problem))
        elif report is not None:
            cause = getattr(report, "cause", None)
            if isinstance(cause, BaseException) \
                    and not isinstance(cause, self._ray.exceptions.RayError):
                self._fail(number, cause)  # a result that cannot be sent
            else:
                self._broken[number] = (time.monotonic(), cause or report)

    def _finish(self, number: int, report: Report) -> None:
        task, site = self._ledger.tasks[number], self._ledger.flying[number]
        self.count_task(site, report.seconds)
        self.count_moved(self._ledger.finish(number, report.size))
        self._attempts.pop(number, None)
        self._done += 1
        self._flops += task.work
        self._seconds += report.seconds

    def _fail(self, number: int, problem: BaseException) -> None:
        if self._failure is None:
            task, site = self._ledger.tasks[number], self._ledger.flying[number]
            if task.note:
                problem.add_note(f"in {task.note}, at site {site}")
            self._failure = problem
        self._drop_tasks()

    # -- when sites are gone --------------------------------------------------------------------
    def _mend(self, suspect: int | None = None) -> None:
        """See whether nodes died, and do again what is lost."""
        now = time.monotonic()
        if suspect is None and now - self._looked < (0.1 if self._broken else 0.5):
            return
        self._looked = now
        alive = {n["NodeID"] for n in self._ray.nodes() if n["Alive"]}
        dead = {s for s in self._living if self._nodes[s] not in alive}
        problems = self._ray.exceptions
        node_died = problems.NodeDiedError, problems.TaskUnschedulableError
        all_live = len(self._living) == len(self._nodes)  # else what broke may be of that loss
        ripe = [n for n, (since, problem) in self._broken.items() if now - since > (
            NODE_PATIENCE if isinstance(problem, node_died) and (all_live or n in self._attempts)
            else PATIENCE)]
        if not dead:
            for n in ripe:
                self._attempts[n] = self._attempts.get(n, 0) + 1
                if self._attempts[n] > ATTEMPTS:
                    self._fail(n, EngineError(f"Ray cannot run a task: {self._broken[n][1]}"))
                    return
        if dead or ripe or suspect is not None:
            self._recover(dead, set(ripe), suspect)
        elif self._stuck[1] and now > self._stuck[0]:
            self._unstick()

    def _recover(self, dead: set[int], ripe: set[int], suspect: int | None) -> None:
        """Make again what was lost with these sites, and send anew what these tasks need."""
        self._living = [s for s in self._living if s not in dead]
        if not self._living:
            raise EngineError("all nodes of the Ray cluster have died")
        self._collect()
        if self._failure is not None:
            return
        ledger, flying = self._ledger, self._ledger.flying
        needs = {t: ledger.tasks[t].needs for t in ripe if t in flying}
        suspects = {n for t in needs for n in needs[t] if isinstance(
            self._broken[t][1], self._ray.exceptions.ObjectLostError)}
        if suspect is not None:
            suspects.add(suspect)
        touched = {n for n, home in ledger.made_at.items()
                   if home in dead or ledger.copies.get(n, set()) & dead}
        needs |= {t: ledger.tasks[t].needs for t, site in flying.items() if site in dead}
        touched = touched.union(*needs.values())
        at = self._where(n for n in touched | suspects
                         if n in ledger.made_at and n not in flying)
        lost = {n for n, sites in at.items()
                if not sites and (n in suspects or ledger.sizes[n] > INLINE)}
        for n, sites in at.items():
            if n not in lost and (ledger.made_at[n] in dead or ledger.copies.get(n)):
                ledger.lie_at(n, sites or {min(self._living)})
        again = ledger.again({t for t, site in flying.items() if site in dead or (
            t in self._broken and (dead or t in ripe))}, lost)
        self._send_anew(ledger.to_make(lost), again)
        self._patience = PATIENCE
        self._stuck = (time.monotonic() + PATIENCE, self._waiting_for(at))

    def _waiting_for(self, at: dict[int, set[int]]) -> set[int]:
        """Tasks to which one of these results has not come."""
        return {t for t, site in self._ledger.flying.items() if any(
            n in at and self._ledger.sizes[n] > INLINE and site not in at[n]
            for n in self._ledger.tasks[t].needs)}

    def _unstick(self) -> None:
        """A pull from a node that died does not end, for all tasks of a site that ask for the same:
        those that still wait for one ask anew, after twice as long each time."""
        ledger, flying = self._ledger, self._ledger.flying
        tasks = {t for t in self._stuck[1] if t in flying}
        needs = {n for t in tasks for n in ledger.tasks[t].needs if n not in flying}
        tasks &= self._waiting_for(self._where(needs))
        self._patience *= 2
        self._stuck = (time.monotonic() + self._patience, tasks)
        if tasks:
            self._send_anew([], ledger.again(tasks, set()))

    def _where(self, numbers: Iterable[int]) -> dict[int, set[int]]:
        """The living sites at which results lie."""
        sites = {self._nodes[s]: s for s in self._living}
        return locate(self._ray, {n: self._refs[n] for n in numbers}, sites)

    def _send_anew(self, made: list[int], again: list[int]) -> None:
        ledger = self._ledger
        sent = set(again)
        for ref, n in list(self._reports.items()):
            if n in sent:
                del self._reports[ref]
        for n in again:  # they wait for what is lost or does not come: none of them has begun
            if self._broken.pop(n, None) is None and ledger.flying[n] in self._living:
                with suppress(Exception):
                    self._ray.cancel(self._refs[n])
        homeless = [ledger.tasks[n] for n in
                    made + [n for n in again if ledger.flying[n] not in self._living]]
        order = [ledger.tasks[n] for n in (*made, *ledger.flying)]
        at = self._elsewhere(homeless, order) if homeless else {}
        for n in ledger.in_order({*made, *again}):
            self._launch(ledger.tasks[n], at[n] if n in at else ledger.flying[n])

    def _elsewhere(self, tasks: list[Task], order: Sequence[Task]) -> dict[int, int]:
        """Sites for tasks that have none; ``order``: of all that waits, as it can run."""
        ledger = self._ledger
        rate = self._seconds / self._flops if self._flops else 0.0
        mean = self._seconds / self._done if self._done else 1.0

        def seconds(task: Task) -> float:
            return task.work * rate if task.work and rate else mean

        level, load = levels(order), dict[tuple[int, int], float]()
        lost = {t.number for t in tasks}
        for t in order:
            if t.number not in lost:
                at = ledger.flying.get(t.number, t.site), level[t.number]
                load[at] = load.get(at, 0.0) + seconds(t)
        holders = {n: {ledger.made_at[n], *ledger.copies.get(n, ())}
                   for t in tasks for n in t.needs if n in ledger.made_at}
        return place(tasks, self._living, load, level, holders, ledger.sizes, seconds)
