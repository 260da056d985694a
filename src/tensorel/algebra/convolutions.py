"""Operators that plans put in place of convolutions with large or separable kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.bulk import Kind, declare
from tensorel.algebra.ops import DType

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

#: Cells of the signal that are transformed at a time: their transforms stay near the processor.
BLOCK_CELLS = 2**18
MAX_FACTORED = 2**16  # entries of a kernel that is looked at
_ROUNDING = 8  # units in the last place by which entries may differ from the product of factors
MAX_RANGE = 1e6  # of sizes in a block: transforms round all of its cells by the largest
_LOOKED_AT = 4096  # numbers of a block that tell its common sizes
_WORK = 16.0  # multiply-adds for a cell of a transform and back, for each doubling of its size


# -- products of vectors ---------------------------------------------------------------------------
def factors(kernel: Array) -> list[Array]:
    """Vectors whose outer product is the kernel, if it is one: lines through its largest entry.
    Those of whole numbers are whole."""
    found: list[Array] = []
    rest = kernel
    while rest.ndim > 1:
        at = np.unravel_index(int(np.argmax(np.abs(rest))), rest.shape)
        line, pivot = rest[at[:-1]], rest[at]
        unit = pivot
        if rest.dtype.kind in "iu":
            unit = np.gcd.reduce(line.astype(object)) or 1
            line = (line.astype(object) // unit).astype(kernel.dtype)
            rest = rest[..., at[-1]] // (line[at[-1]] or 1)
        else:
            line, rest = line / (unit or 1), rest[..., at[-1]]
        found.append(line.astype(kernel.dtype))
    return [np.asarray(rest, kernel.dtype), *found[::-1]]


def is_product(kernel: Array) -> bool:
    """Whether the outer product of its factors is the kernel: exactly for whole numbers, up to
    rounding of each entry for others."""
    if kernel.dtype.kind not in "iufc" or not 0 < kernel.size <= MAX_FACTORED:
        return False
    if not np.isfinite(kernel).all() or not kernel.any():
        return False
    with np.errstate(all="ignore"):
        made: Any = np.ones((), object if kernel.dtype.kind in "iu" else kernel.dtype)
        for f in factors(kernel):
            made = np.multiply.outer(made, f)
    if kernel.dtype.kind in "iu":
        return bool((made == kernel.astype(object)).all())
    return bool((np.abs(made - kernel) <= _ROUNDING * np.finfo(kernel.dtype).eps
                 * np.abs(kernel)).all())


#: One of the vectors whose outer product a kernel is.
factor = declare("factor_of_product", lambda a, axis: factors(a)[axis], Kind.EXTENT,
                 shape=lambda s, axis: (s[axis],), effort=lambda s, axis: float(math.prod(s)))


# -- transforms ------------------------------------------------------------------------------------
def _places(x: Shape, kernel: Shape) -> Shape:
    first = len(x) - len(kernel)
    return (*x[:first], *(n - m + 1 for n, m in zip(x[first:], kernel)))


def smooth(n: int) -> int:
    """The next length without prime factors above 5, which transforms take quickly.

    >>> smooth(1021)
    1024
    """
    found = 1 << (n - 1).bit_length()
    five = 1
    while five < found:
        three = five
        while three < found:
            length = three << max(-(-n // three) - 1, 0).bit_length()
            found = min(found, length)
            three *= 3
        five *= 5
    return found


def _lengths(x: Shape, kernel: Shape) -> Shape:
    """Of the transforms: the first axis is cut so that the blocks are small."""
    beside = math.prod([smooth(n) for n in x[1:]])
    first = min(x[0], max(BLOCK_CELLS // beside, 4 * kernel[0]))
    return (smooth(first), *(smooth(n) for n in x[1:]))


def _transformed(x: Array, kernel: Array, turned: bool) -> Array:
    """Sums of windows times the kernel (``turned``: from its end) by transforms of blocks, each in
    double precision. A number that is not finite, or far larger than the others, would spoil all
    cells of its block: these are added up."""
    dtype, rank = np.result_type(x, kernel), kernel.ndim
    weights = kernel if turned else np.flip(kernel)
    shape = x.shape[x.ndim - rank:]
    lengths, places = _lengths(shape, kernel.shape), _places(x.shape, kernel.shape)
    axes = tuple(range(-rank, 0))
    real = dtype.kind != "c"
    there, back = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
    spectrum = there(weights.astype(np.float64 if real else np.complex128), lengths, axes)
    made = np.empty(places, dtype)
    signals, results = x.reshape(-1, *shape), made.reshape(-1, *places[x.ndim - rank:])
    reach, rows = kernel.shape[0] - 1, lengths[0] - kernel.shape[0] + 1
    inner = tuple(slice(m - 1, m - 1 + n) for m, n in zip(kernel.shape[1:], results.shape[2:]))
    for signal, result in zip(signals, results):
        for at in range(0, result.shape[0], rows):
            block, sums = signal[at: at + lengths[0]], result[at: at + rows]
            if _is_even(block):
                part = there(block.astype(spectrum.real.dtype if real else spectrum.dtype),
                             lengths, axes)
                part *= spectrum
                sums[...] = back(part, lengths, axes)[
                    (slice(reach, reach + len(sums)), *inner)]
                if np.isfinite(sums).all():
                    continue
            _add_up(block[: len(sums) + reach], kernel, turned, sums)
    return made


def _is_even(block: Array) -> bool:
    """Whether the largest number is not far from most of those that are not zero."""
    sizes = np.abs(block.reshape(-1))
    top = float(sizes.max(initial=0.0))
    sizes = sizes[sizes > 0]
    if not len(sizes) or not math.isfinite(top):
        return not len(sizes)
    some = sizes[:: max(len(sizes) // _LOOKED_AT, 1)]
    return top <= MAX_RANGE * float(np.partition(some, len(some) // 20)[len(some) // 20])


def _add_up(x: Array, kernel: Array, turned: bool, made: Array) -> None:
    """The same term by term, in double precision too."""
    total = np.zeros(made.shape, np.result_type(made, np.float64))
    for at in np.ndindex(kernel.shape):
        weight = kernel[tuple(m - 1 - k for m, k in zip(kernel.shape, at))] if turned \
            else kernel[at]
        total += x[tuple([slice(k, k + n) for k, n in zip(at, made.shape)])] * weight
    made[...] = total


def _work(x: Shape, kernel: Shape, turned: bool) -> float:
    shape = x[len(x) - len(kernel):]
    lengths = _lengths(shape, kernel)
    rows = max(lengths[0] - kernel[0] + 1, 1)
    blocks = math.prod(x[: len(x) - len(kernel)]) * -(-max(shape[0] - kernel[0] + 1, 1) // rows)
    cells = math.prod(lengths)
    return blocks * cells * _WORK * math.log2(max(cells, 2))


def _common(x: DType, kernel: DType, turned: bool) -> DType:
    return np.result_type(x, kernel)


#: Sums of windows along the last axes times a kernel, or times the kernel turned round.
transform = declare(
    "convolve_by_transform", _transformed, Kind.FLAG, operands=(Kind.TENSOR, Kind.TENSOR),
    shape=lambda x, kernel, turned: _places(x, kernel), dtype=_common, effort=_work)
