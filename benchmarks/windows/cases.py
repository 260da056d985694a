"""Windows and convolutions as users write them, beside SciPy's and PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import ndimage, signal, sparse
from torch.nn import functional

import tensorel as tr

Run = Callable[[], Any]


@dataclass
class Case:
    """``ours`` and the functions of others by name. All give the same cells, but for a border of
    ``border`` cells that each treats in its own way."""

    name: str
    ours: Run
    others: dict[str, Run]
    border: int = 0
    tolerance: float = 1e-5


def cases(dtype: str, size: float = 1.0) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    frame = rng.random((int(1080 * size), int(1920 * size))).astype(dtype)
    yield from kernels(frame, rng)
    yield from filters(frame)
    yield from signals(rng, dtype, size)
    yield from channels(rng, dtype)


def of_torch(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


def kernels(frame: np.ndarray, rng: np.random.Generator) -> Iterator[Case]:
    """Dense and separable kernels on a 1080p frame."""
    given = of_torch(frame)[None, None]
    for n in (3, 7, 15):
        k = rng.random((n, n)).astype(frame.dtype)
        weights = of_torch(k)[None, None]
        yield Case(f"{n} x {n}", lambda k=k: tr.correlate(frame, k, "same").compute(), {
            "ndimage": lambda k=k: ndimage.correlate(frame, k, mode="constant"),
            "signal, direct" if n < 7 else "signal, fft": lambda k=k, n=n: signal.correlate(
                frame, k, "same", method="direct" if n < 7 else "fft"),
            "torch": lambda w=weights, n=n: functional.conv2d(given, w, padding=n // 2)[0, 0]})
    u = np.exp(-np.linspace(-2, 2, 7) ** 2).astype(frame.dtype)
    u /= u.sum()
    outer = np.outer(u, u)
    rows, columns = of_torch(u)[None, None, None, :], of_torch(u)[None, None, :, None]
    others: dict[str, Run] = {
        "ndimage, two passes": lambda: ndimage.correlate1d(
            ndimage.correlate1d(frame, u, 0, mode="constant"), u, 1, mode="constant"),
        "torch, two passes": lambda: functional.conv2d(
            functional.conv2d(given, rows, padding=(0, 3)), columns, padding=(3, 0))[0, 0]}
    yield Case("7 x 7 separable, as one kernel",
               lambda: tr.correlate(frame, outer, "same").compute(), others)
    yield Case("7 x 7 separable, as outer(u, u)",
               lambda: tr.correlate(frame, tr.outer(tr.asarray(u), tr.asarray(u)),
                                    "same").compute(), others)
    k = rng.random((63, 63)).astype(frame.dtype)
    yield Case("63 x 63", lambda: tr.correlate(frame, k, "same").compute(), {
        "signal, fft": lambda: signal.correlate(frame, k, "same", method="fft"),
        "signal, overlap-add": lambda: signal.oaconvolve(frame, k[::-1, ::-1], "same")},
        tolerance=1e-4)


def filters(frame: np.ndarray) -> Iterator[Case]:
    """Means, minima, medians of windows of a frame."""
    given = of_torch(frame)[None, None]

    def cut(x: np.ndarray, n: int) -> np.ndarray:
        return x[n // 2: -(n // 2), n // 2: -(n // 2)]

    for n in (3, 15):
        yield Case(f"means of {n} x {n}",
                   lambda n=n: tr.windows(frame, (n, n)).mean(axis=(-1, -2)).compute(), {
                       "ndimage": lambda n=n: cut(ndimage.uniform_filter(frame, n), n),
                       "torch": lambda n=n: functional.avg_pool2d(given, n, 1)[0, 0]})
        yield Case(f"minima of {n} x {n}",
                   lambda n=n: tr.windows(frame, (n, n)).min(axis=(-1, -2)).compute(), {
                       "ndimage": lambda n=n: cut(ndimage.minimum_filter(frame, n), n),
                       "torch": lambda n=n: -functional.max_pool2d(-given, n, 1)[0, 0]})


def signals(rng: np.random.Generator, dtype: str, size: float) -> Iterator[Case]:
    """Long vectors."""
    x = rng.random(int(4e6 * size)).astype(dtype)
    k = rng.random(31).astype(dtype)
    yield Case("a vector, 31 weights", lambda: tr.correlate(x, k).compute(), {
        "numpy": lambda: np.correlate(x, k, "valid"),
        "torch": lambda: functional.conv1d(of_torch(x)[None, None], of_torch(k)[None, None])[0, 0]})
    yield Case("a vector, means of 1000", lambda: tr.windows(x, 1000).mean(axis=-1).compute(), {
        "ndimage": lambda: ndimage.uniform_filter1d(x, 1000, origin=0)[500:-499],
        "torch": lambda: functional.avg_pool1d(of_torch(x)[None, None], 1000, 1)[0, 0]},
        tolerance=1e-3)
    yield Case("a vector, maxima of 1000", lambda: tr.windows(x, 1000).max(axis=-1).compute(), {
        "ndimage": lambda: ndimage.maximum_filter1d(x, 1000)[500:-499]})


def channels(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Banks of filters."""
    for c, o, n in ((3, 16, 112), (64, 64, 56)):
        x, k = rng.random((4, c, n, n)).astype(dtype), rng.random((o, c, 3, 3)).astype(dtype)
        last, bank = (np.ascontiguousarray(np.moveaxis(x, 1, -1)),
                      np.ascontiguousarray(np.moveaxis(k, (0, 1), (-1, -2))))
        with_torch = {"torch": lambda x=x, k=k: functional.conv2d(of_torch(x), of_torch(k))}
        yield Case(f"{c} to {o} channels, channels first", lambda x=x, k=k: tr.einsum(
            "nchwrs,ocrs->nohw", tr.windows(x, (3, 3)), k).compute(), with_torch, tolerance=1e-3)
        yield Case(f"{c} to {o} channels, channels last", lambda x=last, k=bank: tr.einsum(
            "nhwcrs,rsco->nhwo", tr.windows(x, (3, 3), axis=(1, 2)), k).compute(),
            {"torch": lambda x=x, k=k: functional.conv2d(of_torch(x), of_torch(k)).permute(
                0, 2, 3, 1)}, tolerance=1e-3)


def sparse_images(size: float = 1.0) -> Iterator[Case]:
    """Smoothing of points in a large image: so many of them, and ten times as many."""
    n, ones = int(4000 * size), np.full((3, 3), 1 / 9)
    for count in (10**4, 10**5, 10**6):
        rng = np.random.default_rng(1)
        at = np.unique(rng.integers(0, n * n, int(count * size * size)))
        s = sparse.coo_array((np.ones(len(at)), (at // n, at % n)), (n, n))
        rows, dense = s.tocsr(), s.toarray()
        points, table = tr.asarray(s), tr.asarray(rows)

        def shifted(rows: Any = rows, n: int = n) -> Any:
            band = sparse.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)],
                                      offsets=(-1, 0, 1), format="csr")
            return band @ rows @ band / 9

        others: dict[str, Run] = {
            "SciPy, band matrices": shifted,
            "ndimage, dense": lambda d=dense: ndimage.correlate(d, ones, mode="constant")}
        yield Case(f"{len(at):,} points, coo",
                   lambda p=points: tr.convolve(p, ones, "same").compute(), others)
        yield Case(f"{len(at):,} points, csr",
                   lambda p=table: tr.convolve(p, ones, "same").compute(), others)
