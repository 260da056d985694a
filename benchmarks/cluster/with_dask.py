"""Programs on dask.array over distributed workers, with several sizes of chunks."""

from __future__ import annotations

import os
import sys

import dask
import dask.array as da
import numpy as np
from dask.distributed import Client, wait

from cluster.data import block, timed
from cluster.problems import scaled

SYSTEM = "dask.array"
PARTS = (2, 4)  # chunks along each axis; 8 is slower in all of these


def make(shape: tuple[int, ...], name: int, parts: tuple[int, ...]) -> da.Array:
    chunks = [tuple([len(x) for x in np.array_split(np.arange(n), min(p, n))])
              for n, p in zip(shape, parts)]
    sizes = da.core.normalize_chunks(chunks, shape)
    return da.map_blocks(of, name, chunks=sizes, dtype=float, sizes=sizes)


def of(name, sizes=None, block_info=None):
    key = block_info[None]["chunk-location"]
    return block(tuple([s[k] for s, k in zip(sizes, key)]), name, key)


def product(parts, m, k, n):
    if k > 8 * m:  # a long sum is cut alone
        return [make((m, k), 1, (1, 2 * parts)) @ make((k, n), 2, (2 * parts, 1))]
    return [make((m, k), 1, (parts, parts)) @ make((k, n), 2, (parts, parts))]


def sum_first(parts, m):
    p = (parts, parts)
    return [(make((m, m), 1, p) + make((m, m), 2, p)) @ make((m, m), 3, p)]


def gram(parts, m):
    a = make((m, m), 1, (parts, parts))
    return [(a.T @ a).sum(axis=1)]


def training(parts, batch, wide, hidden, out):
    x, y = make((batch, wide), 1, (1, parts)), make((batch, out), 2, (1, parts))
    first, second = make((wide, hidden), 3, (parts, parts)), make((hidden, out), 4, (parts, parts))
    h = x @ first
    active = da.maximum(h, 0)
    error = active @ second - y
    back = da.where(h > 0, error @ second.T, 0.0)
    return [first - 1e-3 * (x.T @ back), second - 1e-3 * (active.T @ error)]


def convolution(parts, shape, channels, filters, size):
    """Blocks with borders of their neighbours, each convolved as a sum of shifted slices."""
    x = make((channels, *shape), 1, (1, 1, parts, parts))
    bank = block((filters, channels, *[size] * 3), 2, (0,))

    def local(a):
        total = 0
        for s in np.ndindex(size, size, size):
            part = a[(slice(None), *[slice(b, n - size + 1 + b)
                                     for b, n in zip(s, a.shape[1:])])]
            total = total + np.tensordot(bank[(slice(None), slice(None), *s)], part, axes=1)
        return np.pad(total, [(0, 0), *[(size // 2, size // 2)] * 3])

    return [x.map_overlap(local, depth=(0, *[size // 2] * 3), boundary=0.0, dtype=float,
                          chunks=((filters,), *x.chunks[1:]))]


def factorization(a, w, h):
    w = w * ((a / (w @ h)) @ h.T) / h.sum(axis=1)
    return [w, h * (w.T @ (a / (w @ h))) / w.sum(axis=0)[:, None]]


BUILD = {"product": product, "sum": sum_first, "gram": gram, "training": training,
         "convolution": convolution}


def iterations(name, client, rows, columns, rank):
    """Rows of the data lie in strips, as many as workers."""
    a = make((rows, columns), 1, (4, 1)).persist()
    w, h = make((rows, rank), 2, (4, 1)), make((rank, columns), 3, (1, 1))
    wait(a)

    def step():
        found = dask.persist(*factorization(a, w, h))
        wait(found)
        return found

    for k in range(4):
        w, h = timed(SYSTEM, name, f"iteration {k + 1}", step)


def main(scale: float, names: list[str]) -> None:
    client = Client(os.environ["DASK_SCHEDULER"])
    client.wait_for_workers(4)
    wait(make((64, 64), 1, (2, 2)).persist())
    for name in names:
        kind, sizes = scaled(name, scale)
        if kind == "factorization":
            iterations(name, client, *sizes)
            continue
        for parts in PARTS:
            def run(build=BUILD[kind], parts=parts, sizes=sizes):
                found = dask.persist(*build(parts, *sizes))
                wait(found)
                return found

            kept = timed(SYSTEM, name, f"{parts} chunks an axis", run)
            del kept
    client.close()


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
