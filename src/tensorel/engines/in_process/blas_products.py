"""Dense products by NumPy's matmul (BLAS)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tensorel.base import memory_regions
from tensorel.config import Config
from tensorel.errors import MemoryLimitError
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime.compiled import Control, run_ranges
from tensorel.kernels.runtime.openblas import OneThread, is_controlled
from tensorel.plan.physical import BlasStep
from tensorel.storage.convert import dense_view, to_dense
from tensorel.storage.limits import show_bytes
from tensorel.storage.stored import Stored


def run_blas(step: BlasStep, values: dict[str, Stored], config: Config, budget: int,
             shares: bool) -> Stored:
    """One matmul over views: batch labels first, then free ones, then summed ones. If a tensor
    keeps some positions and stores all below each of them, the list of positions is one label,
    which the result has too."""
    left, right = values[step.left], dense_array(values[step.right])
    la, ra, out = step.left_axes, step.right_axes, step.out_axes
    arrays: dict[str, np.ndarray] = {}
    if step.listed:
        whole = tuple([left.shape[a] for a in left.format.order[step.listed :]])
        x = left.arrays["val"].reshape(-1, *whole)
        inner = out[step.listed :]
        wide = math.prod([n for i, n in zip(ra, right.shape) if i in inner] + [
            n for i, n in zip(la[step.listed :], whole) if i in inner])
        if x.shape[0] * wide * step.dtype.itemsize > budget:  # known only now
            raise MemoryLimitError(
                f"the result of step '{step.text}' grew past the memory limit of "
                f"{show_bytes(config.memory)}; it was stopped",
                limit=config.memory, step=step.text,
                hint="ask for fewer rows, or raise the limit with tr.options(memory=...)")
        la, out = ("", *la[step.listed :]), ("", *inner)
        arrays = {name: a for name, a in left.arrays.items() if name != "val"}
    else:
        x = dense_array(left)
    if len(la) == 2 and len(ra) == 2 and out == (la[0], ra[1]) and la[1] == ra[0]:
        result = matmul(x, right, config.workers, shares)
    else:
        result = general_product(x, right, la, ra, out, config.workers, shares)
    made = Stored(step.target.format, step.shape, step.dtype, step.fill.value,
                  {**arrays, "val": result.reshape(-1)})
    made.derived.fill = step.fill
    return made


#: A product so many times taller than wide, of so much work and more, is quicker as the product of
#: the transposes.
MIN_ASPECT_RATIO, MIN_TURNED_WORK = 4, 1e7
MAX_PIECE_WORK = 4e9  # multiply-adds between two looks at signals: some tenths of a second
#: Multiply-adds from which a part of a product is worth a thread of ours.
MIN_THREAD_WORK = 4e7
#: Multiply-adds below which BLAS gets one thread: it wakes others for a hundredth of that, and to
#: wait for one that has no core takes longer than the product.
MIN_THREADED_WORK = 4e6


def matmul(x: np.ndarray, y: np.ndarray, workers: int = 1, shares: bool = False) -> np.ndarray:
    """NumPy's matmul; long ones run in pieces of their first axis, so that Ctrl-C is heard.
    ``shares``: kernels need the cores too, so BLAS does not get all of them."""
    work = float(x.size) * (y.shape[-1] if y.ndim > 1 else 1)
    if is_controlled() and (shares or workers == 1 or work < MIN_THREADED_WORK):
        parts = min(workers, int(work / MIN_THREAD_WORK), x.shape[0])
        with OneThread():
            return _in_parts(x, y, work, parts) if parts > 1 else _product(x, y, work)
    return _product(x, y, work)


def _product(x: np.ndarray, y: np.ndarray, work: float) -> np.ndarray:
    if _is_narrow(x, y, work):
        return memory_regions.contiguous(np.matmul(y.T, x.T).T)
    result = memory_regions.empty((*x.shape[:-1], y.shape[-1]), np.result_type(x, y))
    if work <= MAX_PIECE_WORK or x.shape[0] < 2:
        return np.matmul(x, y, out=result)
    batched = x.ndim > 2
    rows = max(int(x.shape[0] * MAX_PIECE_WORK / work), 1)
    for at in range(0, x.shape[0], rows):
        piece = slice(at, at + rows)
        np.matmul(x[piece], y[piece] if batched else y, out=result[piece])
    return result


def _is_narrow(x: np.ndarray, y: np.ndarray, work: float) -> bool:
    return x.ndim == 2 and MIN_TURNED_WORK <= work <= MAX_PIECE_WORK and x.dtype.kind in "fc" \
        and 1 < y.shape[1] <= x.shape[0] // MIN_ASPECT_RATIO


def _in_parts(x: np.ndarray, y: np.ndarray, work: float, workers: int) -> np.ndarray:
    """Rows of the result on our threads."""
    result = memory_regions.empty((*x.shape[:-1], y.shape[-1]), np.result_type(x, y))
    count = max(workers, math.ceil(work / MAX_PIECE_WORK))
    bounds = [x.shape[0] * k // count for k in range(count + 1)]
    batched, narrow = x.ndim > 2, _is_narrow(x, y, work)

    def task(lo: int, hi: int) -> Callable[[int], int]:
        def run(worker: int) -> int:
            if narrow:
                result[lo:hi] = np.matmul(y.T, x[lo:hi].T).T
            else:
                np.matmul(x[lo:hi], y[lo:hi] if batched else y, out=result[lo:hi])
            return Status.DONE

        return run

    run_ranges([task(lo, hi) for lo, hi in pairwise(bounds) if lo < hi], workers, Control(),
               small=work < MAX_PIECE_WORK / 10)
    return result


def general_product(left: np.ndarray, right: np.ndarray, la: tuple[str, ...], ra: tuple[str, ...],
                    out: tuple[str, ...], workers: int = 1, shares: bool = False) -> np.ndarray:
    batch = [n for n in out if n in la and n in ra]
    rows = [n for n in out if n in la and n not in ra]
    cols = [n for n in out if n in ra and n not in la]
    summed = [n for n in la if n in ra and n not in out]
    sizes = dict(zip(la, left.shape)) | dict(zip(ra, right.shape))

    def shape(*groups: list[str]) -> tuple[int, ...]:
        each = tuple(sizes[n] for n in batch)
        return each + tuple(math.prod(sizes[n] for n in g) for g in groups)

    x = left.transpose([la.index(n) for n in (*batch, *rows, *summed)]).reshape(
        shape(rows, summed))
    y = right.transpose([ra.index(n) for n in (*batch, *summed, *cols)]).reshape(
        shape(summed, cols))
    z = matmul(x, y, workers, shares).reshape([sizes[n] for n in (*batch, *rows, *cols)])
    labels = [*batch, *rows, *cols]
    return np.asarray(z.transpose([labels.index(n) for n in out]))


def dense_array(stored: Stored) -> np.ndarray:
    view = dense_view(stored)
    return to_dense(stored) if view is None else view
