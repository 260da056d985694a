"""The price of a call: 10 x 10 products, beside NumPy and SciPy."""

from __future__ import annotations

import statistics
import time

import numpy as np
import scipy.sparse as sp

import tensorel as tr
from suite.case import Job


def _each(job: Job, calls: int = 200, rounds: int = 15) -> float:
    """Seconds of one call: median over rounds of ``calls`` calls."""
    for _ in range(calls):
        job()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            job()
        found.append((time.perf_counter() - start) / calls)
    return statistics.median(found)


def measure() -> dict[str, float]:
    """Seconds of one call of each small job."""
    rng = np.random.default_rng(0)
    x, y = rng.random((10, 10)), rng.random((10, 10))
    s = sp.random_array((10, 10), density=0.3, rng=rng, format="csr")
    tx, ty, ts = tr.asarray(x), tr.asarray(y), tr.asarray(s)
    jobs: dict[str, Job] = {
        "numpy dense @ dense": lambda: x @ y,
        "tensorel dense @ dense": lambda: (tx @ ty).compute(),
        "scipy sparse @ dense": lambda: s @ y,
        "tensorel sparse @ dense": lambda: (ts @ ty).compute(),
        "scipy sparse + sparse": lambda: s + s,
        "tensorel sparse + sparse": lambda: (ts + ts).compute(),
    }
    return {name: _each(job) for name, job in jobs.items()}
