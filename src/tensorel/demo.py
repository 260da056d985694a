"""``tensorel demo``: naive programs on sparse data, each with its plan, result and time.

The programs are written as the formulas are; nothing tells the engine how to run them. SciPy, if
it is installed, runs the same formulas as its users write them where it can hold the
intermediate results, and by hand where it cannot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorel as tr
from tensorel.base.records import dataclass
from tensorel.storage.limits import show_bytes

_BAND = 20
_RANK = 32
_REPEATS = 5

Floats = npt.NDArray[np.float64]
Program = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Data:
    """A banded matrix in coordinates, and dense factors."""

    n: int
    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    values: Floats
    u: Floats
    v: Floats
    x: Floats


def _make(size: int, seed: int) -> _Data:
    n = max(size // _BAND, _BAND)
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n, dtype=np.int32), _BAND)
    start = np.clip(np.arange(n) - _BAND // 2, 0, n - _BAND)
    columns = (start[:, None] + np.arange(_BAND)).ravel().astype(np.int32)
    u, v = rng.standard_normal((n, _RANK)), rng.standard_normal((n, _RANK))
    return _Data(n, rows, columns, rng.standard_normal(rows.size), u, v, rng.standard_normal(n))


@dataclass(frozen=True, slots=True)
class _Job:
    """One formula: its text, how it is written here, how SciPy's users write it."""

    title: str
    text: str
    ours: Program
    scipy_text: str
    scipy: Program


def _scipy_sampled(s: Any, u: Floats, v: Floats) -> Any:
    result = s.copy()
    result.data = s.data * np.einsum("ij,ij->i", u[s.row], v[s.col])
    return result


_JOBS = (
    _Job(
        "matrix times vector", "A @ x",
        lambda a, u, v, x: a @ x,
        "A @ x", lambda a, coo, u, v, x: a @ x,
    ),
    _Job(
        "sum of a matrix product", "(A @ A).sum()",
        lambda a, u, v, x: (a @ a).sum(),
        "(A @ A).sum()", lambda a, coo, u, v, x: (a @ a).sum(),
    ),
    _Job(
        "sampled dense product", "A * (U @ V.T)",
        lambda a, u, v, x: a * (u @ v.T),
        "by hand: A.data * einsum('ij,ij->i', U[A.row], V[A.col])",
        lambda a, coo, u, v, x: _scipy_sampled(coo, u, v),
    ),
)


def _times(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, the time of the first call, and the median of the calls after it."""
    start = time.perf_counter()
    result = run()
    first = time.perf_counter() - start
    again = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        again.append(time.perf_counter() - start)
    return result, first, median(again)


def _scipy_operands(data: _Data) -> tuple[Any, Any] | None:
    try:
        from scipy import sparse
    except ImportError:
        return None
    coo = sparse.coo_array((data.values, (data.rows, data.columns)), shape=(data.n, data.n))
    return coo.tocsr(), coo


def _values(result: Any) -> Floats:
    """The numbers of a result, in an order that both sides share."""
    if isinstance(result, tr.Tensor):
        return np.asarray(result.to_coo()[1] if result.ndim else result.item())
    if hasattr(result, "tocsr"):
        found = result.tocsr()
        found.sort_indices()
        return np.asarray(found.data)
    return np.asarray(result)


def _agree(ours: Any, theirs: Any) -> bool:
    a, b = _values(ours), _values(theirs)
    scale = float(np.abs(b).max(initial=1.0)) if b.ndim else float(np.sqrt(_BAND)) * abs(float(b))
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * max(scale, 1.0)))


def _show(result: Any) -> str:
    if result.ndim == 0:
        return f"{result.item():.12g}"
    values = ", ".join(f"{v:.6g}" for v in _values(result)[:3])
    size = " x ".join(map(str, result.shape))
    return f"{size} {result.dtype}, {result.format}, {result.nnz:,} entries: {values}, ..."


def _run(job: _Job, data: _Data, a: Any, factors: tuple[Any, ...], peers: Any) -> bool:
    print(f"\n== {job.title}\nprogram    {job.text}")
    program = job.ours(a, *factors)
    print("plan")
    for line in str(program.explain()).rstrip().split("\n"):
        print(f"  | {line}")
    result, first, again = _times(lambda: job.ours(a, *factors).compute())
    print(f"result     {_show(result)}")
    print(f"time       {again * 1e3:.2f} ms (first call, plan and compiler: {first * 1e3:.0f} ms)")
    if peers is None:
        return True
    expected, _, theirs = _times(lambda: job.scipy(*peers, data.u, data.v, data.x))
    same = _agree(result, expected)
    print(f"SciPy      {theirs * 1e3:.2f} ms: {theirs / again:.1f} times as long, {job.scipy_text}")
    print(f"equal      {'yes' if same else 'NO'}")
    return same


def run_demo(size: int, seed: int) -> int:
    """Run all programs; 0 if every result equals SciPy's (or SciPy is missing), else 1."""
    data = _make(size, seed)
    a = tr.from_coo((data.rows, data.columns), data.values, (data.n, data.n), format="csr")
    factors = tuple(tr.asarray(z) for z in (data.u, data.v, data.x))
    peers = _scipy_operands(data)
    print(f"A: {data.n} x {data.n}, {a.nnz:,} nonzeros in a band, {a.format}, "
          f"{show_bytes(a.nbytes)}; U, V: {data.n} x {_RANK}; {os.cpu_count()} cores")
    if peers is None:
        print("SciPy is not installed: no times beside ours")
    good = [_run(job, data, a, factors, peers) for job in _JOBS]
    print(f"\n{sum(good)} of {len(good)} programs gave the right result")
    return 0 if all(good) else 1
