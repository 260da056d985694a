"""Random stored tensors: any rank, dtype, density, fill, format and way to be handed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.errors import TensorelError
from tensorel.storage import registry
from tensorel.testing.programs.data import random_values, sample
from tensorel.testing.programs.own_storages import own_formats
from tensorel.testing.programs.program import Leaf
from tensorel.testing.programs.sizes import DIMS, SMALL, Size

Array = npt.NDArray[Any]
Rng = np.random.Generator
_DENSITY_SHARES = (0.05, 0.15, 0.25, 0.25, 0.15, 0.15)
_MATRICES = ("scipy_csr", "scipy_csr", "scipy_csc", "scipy_coo", "scipy_bsr", "own_storage")


def random_leaf(rng: Rng, name: str, dims: Sequence[int] = DIMS, size: Size = SMALL) -> Leaf:
    """A tensor of any rank, dtype, density, fill and format; extents are mostly ``dims``."""
    shape, dtype = size.leaf_shape(rng, dims), size.leaf_dtype(rng)
    fill = 0 if rng.random() < 0.8 else random_fill(rng, dtype)
    array, source = _random_array(rng, shape, dtype, fill, size)
    if rng.random() < 0.3:
        how = _random_way(rng, array, fill)
        if how is not None:
            formats = "|".join(str(_random_format(rng, array, fill, size, picky=False))
                               for _ in range(2)) if how == "alternatives" else None
            return Leaf(name, array, formats, fill, how, source)
    format = _random_format(rng, array, fill, size)
    fitted = _fitted(format, array, fill)
    return Leaf(name, fitted, format, fill, source=source if fitted is array else None)


def _random_array(rng: Rng, shape: tuple[int, ...], dtype: DType, fill: Any, size: Size
                  ) -> tuple[Array, str | None]:
    if not size.is_small:
        pattern, entries = size.pattern(rng, shape)
        seed = int(rng.integers(2**31))
        text = f"sample({pattern!r}, {shape}, {dtype.name!r}, {entries}, {seed}, {fill!r})"
        text = text.replace("nan", "np.nan").replace("inf", "np.inf")
        return sample(pattern, shape, dtype, entries, seed, fill), text
    array = np.full(shape, fill, dtype)
    density = float(rng.choice([0.0, 0.1, 0.3, 0.5, 0.8, 1.0], p=_DENSITY_SHARES))
    mask = rng.random(shape) < density
    array[mask] = random_values(rng, dtype, int(mask.sum()))
    if dtype.kind in "fc" and rng.random() < 0.05:
        array[mask & (rng.random(shape) < 0.3)] = rng.choice([np.nan, np.inf, -np.inf])
    return array, None


def _random_way(rng: Rng, array: Array, fill: Any) -> str | None:
    """A way to hand the array in that it fits."""
    ways = ["memory", "memory", "memory", "fortran", "window", "alternatives"]
    if array.ndim:
        ways += ["coo32", "coo64"]
    if array.ndim == 2 and fill == 0 and 0 not in array.shape:
        ways += list(_MATRICES) + ["scipy_dia"] * (max(array.shape) <= 50)
    return str(rng.choice(ways))


def random_fill(rng: Rng, dtype: DType) -> object:
    if dtype.kind == "b":
        return True
    if dtype.kind in "fc" and rng.random() < 0.04:
        return float(rng.choice([np.nan, np.inf, -np.inf]))
    choices = [1, 2, 5] if dtype.kind == "u" else [1, 2, -1, -3]
    return int(rng.choice(choices))


# -- formats -----------------------------------------------------------------------------------
def _random_format(rng: Rng, array: Array, fill: Any, size: Size, picky: bool = True) -> str | None:
    """A format for the array."""
    if rng.random() < 0.1 and picky:
        return None
    names = [*registry.names(), "csf", "coo", "csr", "dense", *_parameterized(rng, array.ndim)]
    for _ in range(8):
        name = str(rng.choice(names))
        if not _takes(name, array, size) or (name in _PICKY and not picky):
            continue
        if name == "bitmap" and (array.dtype.kind != "b" or fill):
            continue
        return name
    return "coo"


_PICKY = frozenset({"tril", "triu", "symmetric", "bitmap"})


def takes(name: str, shape: tuple[int, ...], dtype: DType) -> bool:
    """Whether a format takes tensors of a shape and dtype."""
    try:
        registry.resolve(name, shape, dtype)
    except TensorelError:
        return False
    return True


def _takes(name: str, array: Array, size: Size) -> bool:
    return takes(name, array.shape, array.dtype) and (
        size.is_small or name not in ("symmetric", "tril", "triu") or array.size < 10**6)


def _parameterized(rng: Rng, rank: int) -> list[str]:
    """Formats with parameters for tensors of a rank: mixed ones, orders, blocks, users' own."""
    names: list[str] = own_formats(rank, rng)
    if rank >= 2:
        names += [_mixed(rng, rank) for _ in range(2 if rank == 2 else 8)]
        names += [f"csf({','.join(str(k) for k in rng.permutation(rank))})"]
    if rank == 2:
        names += [f"bsr({rng.integers(1, 4)},{rng.integers(1, 4)})"]
    return names


def _mixed(rng: Rng, rank: int) -> str:
    """Dense axes, sparse axes, perhaps dense axes below them: any cut, some in another order."""
    axes = [str(k) for k in (rng.permutation(rank) if rng.random() < 0.3 else range(rank))]
    first, last = sorted(int(k) for k in rng.integers(0, rank + 1, 2))
    groups = [axes[:first], axes[first:last], axes[last:]]
    if last == rank or first == last:
        groups = [axes[:first], axes[first:]]
    return ";".join(map(",".join, groups))


def _fitted(name: str | None, array: Array, fill: Any) -> Array:
    """The array changed to fit the format (triangular, symmetric)."""
    if array.ndim != 2 or name not in _PICKY:
        return array
    empty = np.full(array.shape, fill, array.dtype)
    lower = np.tri(*array.shape) > 0
    if name == "tril":
        return np.where(lower, array, empty)
    if name == "triu":
        return np.where(lower.T if array.shape[0] == array.shape[1] else ~lower, array, empty)
    if name == "symmetric":
        return np.where(lower, array, array.T)
    return array


def result_format(rng: Rng, result: Array, size: Size = SMALL) -> str | None:
    """A format that any tensor of this shape fits in."""
    names = [n for n in registry.names() if n not in _PICKY] + _parameterized(rng, result.ndim)
    names += [_mixed(rng, result.ndim)] * 4 * (result.ndim > 1)
    name = str(rng.choice(names))
    return name if _takes(name, result, size) else None
