"""Sites that are nodes of a Ray cluster: one of four nodes on this machine, for all tests."""

from __future__ import annotations

import operator
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed (pip install 'tensorel[ray]')")

import tensorel
from tensorel.engines.sites.cluster import Cluster, Task
from tensorel.engines.sites.ray_cluster import RayCluster
from tensorel.engines.sites.threads import ThreadCluster
from tensorel.errors import EngineError

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")]
LARGE = 20_000  # numbers in a block that Ray does not keep with the driver


def task(cluster: Cluster, site, call, *needs: Task, note="", work=0.0) -> Task:
    return Task(cluster.number(), site, call, tuple(t.number for t in needs), work, note)


def block(cluster, site, value, size=LARGE):
    return task(cluster, site, partial(np.full, size, float(value)))


def layers(cluster: Cluster, call=np.add) -> tuple[list[Task], list[Task]]:
    """Three layers of tasks across sites, the last of which is the result."""
    A = [block(cluster, i % 4, i) for i in range(8)]
    B = [task(cluster, (i + 1) % 4, call, A[i], A[(i + 1) % 8], work=1e6) for i in range(8)]
    C = [task(cluster, (i + 2) % 4, call, B[i], B[(i + 3) % 8], work=1e6) for i in range(8)]
    return A + B, C


EXPECTED = [float(sum((k + d) % 8 for d in (0, 1, 3, 4))) for k in range(8)]


def slow_add(a, b):
    time.sleep(0.15)
    return a + b


def test_the_same_tasks_move_the_same_bytes_as_on_threads(ray_cluster):
    found = []
    for cluster in (ray_cluster, ThreadCluster(4)):
        cluster.reset()
        before = sum(cluster.held())
        first, last = layers(cluster)
        cluster.submit(first + last)
        cluster.release(t.number for t in first)
        cluster.wait(t.number for t in last)
        values = [float(cluster.fetch(t.number)[-1]) for t in last]
        stats = cluster.stats()
        assert values == EXPECTED
        assert stats["tasks"] == 24 and all(stats["work"])
        found.append((stats["bytes_moved"], sum(stats["bytes_held"]) - before))
        cluster.release(t.number for t in last)
        assert sum(cluster.held()) == before
    assert found[0] == found[1] and found[0][0]
    cluster.close()


def test_small_results_and_tasks_without_results(ray_cluster):
    a = block(ray_cluster, 0, 2.0, size=3)
    b = task(ray_cluster, 3, np.sum, a)
    nothing = task(ray_cluster, 1, partial(time.sleep, 0))
    twice = task(ray_cluster, 2, operator.mul, b, b)
    ray_cluster.submit([a, b, nothing, twice])
    ray_cluster.wait([nothing.number])
    assert ray_cluster.fetch(twice.number) == 36.0
    assert ray_cluster.fetch(nothing.number) is None
    ray_cluster.release([a.number, b.number, nothing.number, twice.number])


def test_a_result_that_was_dropped_is_named(ray_cluster):
    a = block(ray_cluster, 0, 1.0)
    ray_cluster.submit([a])
    ray_cluster.wait([a.number])
    ray_cluster.release([a.number])
    with pytest.raises(EngineError, match="not at the sites any more"):
        ray_cluster.fetch(a.number)
    with pytest.raises(EngineError, match="not at the sites any more"):
        ray_cluster.submit([task(ray_cluster, 1, np.sum, a)])


def test_an_error_is_the_one_that_was_raised_with_the_note_of_its_task(ray_cluster):
    kept = block(ray_cluster, 0, 1.0)
    singular = task(ray_cluster, 1, partial(np.zeros, (2, 2)))
    bad = task(ray_cluster, 1, np.linalg.inv, singular, note="step 2, block (0, 1)")
    later = [task(ray_cluster, s, np.add, bad, kept) for s in (0, 2)]
    ray_cluster.reset()
    ray_cluster.submit([kept, singular, bad, *later])
    with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
        ray_cluster.wait([t.number for t in later])
    assert caught.value.__notes__ == ["in step 2, block (0, 1), at site 1"]
    assert "linalg" in str(caught.value.__cause__)  # where it was raised
    with pytest.raises(np.linalg.LinAlgError):
        ray_cluster.wait([later[0].number])  # until something is submitted
    ray_cluster.submit([])
    with pytest.raises(EngineError, match="not at the sites any more"):
        ray_cluster.wait([later[0].number])
    assert ray_cluster.stats()["tasks"] <= 2
    ray_cluster.release([kept.number, singular.number])


@pytest.mark.measured
def test_interrupting_leaves_no_tasks(ray_cluster):
    slow = [task(ray_cluster, i % 4, partial(time.sleep, 3600.0)) for i in range(40)]
    ray_cluster.submit(slow)
    shown = []

    def progress(done, total):
        if not shown:  # it waits: the signal will meet that
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        shown.append((done, total))

    ray_cluster._progress = progress
    try:
        with pytest.raises(KeyboardInterrupt):
            ray_cluster.wait(t.number for t in slow)
    finally:
        ray_cluster._progress = None
    assert shown and set(shown) == {(0, 40)}
    quick = [task(ray_cluster, i, partial(abs, -i)) for i in range(4)]
    ray_cluster.submit(quick)
    ray_cluster.wait(t.number for t in quick)  # those that had begun were ended, else for an hour
    assert [ray_cluster.fetch(t.number) for t in quick] == [0, 1, 2, 3]
    ray_cluster.release(t.number for t in quick)


def test_other_versions_are_refused(ray_cluster, monkeypatch):
    monkeypatch.setattr(tensorel, "__version__", "9.9")
    with pytest.raises(EngineError, match=r"node site 0 .* has tensorel 0\.\d.*, here 9\.9"):
        RayCluster()  # by the connection that is open
    assert ray_cluster._ray.is_initialized()


def test_a_cluster_that_is_connected_is_used_and_left_open(ray_cluster):
    with RayCluster() as other:
        assert other.sites == 4 and other._nodes == ray_cluster._nodes
        a = block(other, 1, 5.0)
        other.submit([a])
        assert other.fetch(a.number).sum() == 5.0 * LARGE
    assert ray_cluster._ray.is_initialized()
    with pytest.raises(EngineError, match="connected"):
        RayCluster(nodes=2)


def dies_once(mark: str, value: float) -> float:
    if not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def test_a_process_that_dies_is_replaced_and_its_task_runs_again(ray_cluster, tmp_path):
    first = block(ray_cluster, 1, 3.0)
    dying = task(ray_cluster, 1, partial(dies_once, str(tmp_path / "mark")), first)
    last = task(ray_cluster, 2, np.sum, dying)
    ray_cluster.submit([first, dying, last])
    assert ray_cluster.fetch(last.number) == 3.0 * LARGE
    ray_cluster.release([first.number, dying.number, last.number])


@pytest.mark.measured
def test_a_node_that_dies_costs_time_not_the_answer(ray_cluster):
    kept = [block(ray_cluster, s, s) for s in range(4)]  # of an earlier run
    inner = task(ray_cluster, 2, np.add, kept[1], kept[2])
    ray_cluster.submit([*kept, inner])
    ray_cluster.wait([inner.number])
    ray_cluster.release(t.number for t in kept)  # inner must be made from these again
    first, last = layers(ray_cluster, slow_add)
    ray_cluster.reset()
    ray_cluster.submit(first + last)
    ray_cluster.release(t.number for t in first)
    threading.Timer(0.4, ray_cluster._local.kill, (2,)).start()
    ray_cluster.wait(t.number for t in last)
    assert [float(ray_cluster.fetch(t.number)[0]) for t in last] == EXPECTED
    assert float(ray_cluster.fetch(inner.number)[0]) == 3.0
    undisturbed = 16 * 8 * LARGE
    assert undisturbed / 2 < ray_cluster.stats()["bytes_moved"] <= 2.2 * undisturbed
    assert ray_cluster.held()[2] == 0
    after = block(ray_cluster, 2, 4.0)  # the plan does not know; another site does it
    ray_cluster.submit([after])
    assert ray_cluster.fetch(after.number)[0] == 4.0
    everything = [t.number for t in (*last, inner, after)]
    ray_cluster.release(everything)
    assert not any(ray_cluster.held()) and not ray_cluster._ledger.tasks
