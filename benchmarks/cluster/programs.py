"""Programs that are planned over sites, and what the best known way to run each moves.

Products are measured against all grids whose cells are as many as the sites: broadcast and
co-partitioned (one axis is cut), 2-D, 2.5-D and 3-D. Programs of several steps are measured against
the best grids of their steps where these fit together; the formulas count bytes between sites, and
whatever is made at a site for its own use is free."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import tensorel as tr

ITEM = 8  # bytes
Make = Callable[..., tr.Tensor]  # of a shape, and tiles where they matter
Build = Callable[[Make, int], list[tr.Tensor]]


@dataclass(frozen=True)
class Program:
    """``build``: the results, of operands that ``make`` gives, for so many sites. ``best``: bytes
    of the best known way, in words; ``small``: the same program for a run that is counted."""

    name: str
    build: Build
    best: Callable[[int], tuple[float, str]]
    small: Build


def factors(sites: int, count: int) -> Iterator[tuple[int, ...]]:
    """All tuples of so many whole numbers whose product is the number of sites."""
    if count == 1:
        yield (sites,)
        return
    for d in range(1, sites + 1):
        if sites % d == 0:
            for rest in factors(sites // d, count - 1):
                yield (d, *rest)


def best_product(a: float, b: float, c: float, extents: tuple[int, int, int], sites: int
                 ) -> tuple[float, str]:
    """Of operands and a result of so many bytes, and rows, inner and columns."""
    moved, grid = min((a * (j - 1) + b * (i - 1) + c * (k - 1), (i, k, j))
                      for i, k, j in factors(sites, 3)
                      if all(p <= n for p, n in zip((i, k, j), extents)))
    return moved, f"{kind(grid)} {'x'.join(map(str, grid))}"


def kind(grid: tuple[int, int, int]) -> str:
    i, k, j = (p > 1 for p in grid)
    if not k:
        return "2-D" if i and j else "broadcast" if i or j else "one site"
    return "co-partitioned" if not i and not j else "3-D" if i and j else "2.5-D"


def dense_product(m: int, k: int, n: int, sites: int) -> tuple[float, str]:
    return best_product(ITEM * m * k, ITEM * k * n, ITEM * m * n, (m, k, n), sites)


# -- products -----------------------------------------------------------------------------------
def product(m: int, k: int, n: int, make: Make, sites: int) -> list[tr.Tensor]:
    return [make((m, k)) @ make((k, n))]


def chain(m: int, k: int, make: Make, sites: int) -> list[tr.Tensor]:
    return [make((m, m)) @ make((m, m)) @ make((m, k))]


def best_chain(m: int, k: int, sites: int) -> tuple[float, str]:
    moved, grid = dense_product(m, m, k, sites)
    return 2 * moved, f"from the right, twice {grid}"


def sum_first(m: int, make: Make, sites: int) -> list[tr.Tensor]:
    return [(make((m, m)) + make((m, m))) @ make((m, m))]


def gram(m: int, make: Make, sites: int) -> list[tr.Tensor]:
    a = make((m, m))
    return [(a.T @ a).sum(axis=1)]


def best_gram(m: int, sites: int) -> tuple[float, str]:
    """A' (A 1): row sums are added up and spread along rows, then columns are added up."""
    moved, grid = min((ITEM * m * (2 * (q - 1) + p - 1), (p, q)) for p, q in factors(sites, 2))
    return moved, f"A' (A 1), A on {grid[0]}x{grid[1]}"


# -- programs of several steps ------------------------------------------------------------------
def training(batch: int, wide: int, hidden: int, out: int, make: Make, sites: int
             ) -> list[tr.Tensor]:
    """A step of a network with one hidden layer: forward, backward, update."""
    x, y = make((batch, wide)), make((batch, out))
    first, second = make((wide, hidden)), make((hidden, out))
    h = x @ first
    active = tr.maximum(h, 0)
    error = active @ second - y
    back = tr.where(h > 0, error @ second.T, 0.0)
    return [first - 1e-3 * (x.T @ back), second - 1e-3 * (active.T @ error)]


def best_training(batch: int, wide: int, hidden: int, out: int, sites: int) -> tuple[float, str]:
    """Both layers on a grid of (batch, in, out): a layer sends its input, its weights and its
    output forward, and the same bytes backward; gradients of the input only of the second."""
    def layer(n: int, i: int, o: int, both: bool, grid: tuple[int, ...]) -> float:
        b, p, q = grid
        given = n * i * (q - 1) * (2 if both else 1)
        return float(ITEM * (given + 2 * i * o * (b - 1) + 2 * n * o * (p - 1)))

    one = min((layer(batch, wide, hidden, False, g), g) for g in factors(sites, 3))
    two = min((layer(batch, hidden, out, True, g), g) for g in factors(sites, 3))
    shown = ["x".join(map(str, g)) for _, g in (one, two)]
    return one[0] + two[0], f"layers on {shown[0]} and {shown[1]} (batch, in, out)"


def factorization(rows: int, columns: int, rank: int, make: Make, sites: int) -> list[tr.Tensor]:
    """An iteration of a factorization of counts; strips of rows of the data lie at the sites."""
    a = make((rows, columns), (sites, 1))
    w, h = make((rows, rank), (sites, 1)), make((rank, columns), (1, sites))
    w = w * ((a / (w @ h)) @ h.T) / h.sum(axis=1)
    h = h * (w.T @ (a / (w @ h))) / w.sum(axis=0)[:, None]
    return [w, h]


def best_factorization(rows: int, columns: int, rank: int, sites: int) -> tuple[float, str]:
    each = ITEM * rank * columns + 2 * ITEM * rank
    return 2 * each * (sites - 1), "strips stay, H is broadcast, its update is added up"


def convolution(shape: tuple[int, ...], channels: int, filters: int, size: int, make: Make,
                sites: int) -> list[tr.Tensor]:
    """A bank of filters over a volume of channels, as sums of shifted slices."""
    x, bank = make((channels, *shape)), make((filters, channels, *[size] * len(shape)), None)
    total: Any = 0
    for shift in np.ndindex(*[size] * len(shape)):
        window = x[(slice(None), *[slice(s, n - size + 1 + s) for s, n in zip(shift, shape)])]
        weight = bank[(slice(None), slice(None), *shift)]
        total = total + tr.tensordot(weight, window, axes=1)
    return [total]


def convolution_by_windows(shape: tuple[int, ...], channels: int, filters: int, size: int,
                           make: Make, sites: int) -> list[tr.Tensor]:
    """The same as a product with a view of all windows."""
    x, bank = make((channels, *shape)), make((filters, channels, *[size] * len(shape)), None)
    rank = len(shape)
    return [tr.tensordot(bank, tr.windows(x, (size,) * rank),
                         axes=[range(1, rank + 2), [0, *range(rank + 1, 2 * rank + 1)]])]


def best_convolution(shape: tuple[int, ...], channels: int, filters: int, size: int, sites: int
                     ) -> tuple[float, str]:
    """Each cell needs its part of the volume and a halo; the bank goes to all."""
    bank = filters * channels * size ** len(shape) * (sites - 1)
    found = []
    for grid in factors(sites, len(shape)):
        if all(p <= n for p, n in zip(grid, shape)):
            needed = math.prod(n + (size - 1) * (p - 1) for n, p in zip(shape, grid))
            found.append((ITEM * (channels * (needed - math.prod(shape)) + bank), grid))
    moved, best = min(found)
    return moved, f"halo, volume on {'x'.join(map(str, best))}"


# -- sparse -------------------------------------------------------------------------------------
def sparse(n: int, entries: int, skew: float) -> tr.Tensor:
    """Entries of rows and columns; with ``skew`` the first ones have more of them."""
    rng = np.random.default_rng(4)
    places = np.unique((rng.random((2, entries)) ** (1 + skew) * n).astype(np.int64), axis=1)
    return tr.from_coo(places, np.ones(places.shape[1]), (n, n), format="csr")


def sparse_dense(n: int, entries: int, k: int, skew: float, make: Make, sites: int
                 ) -> list[tr.Tensor]:
    return [sparse(n, entries, skew) @ make((n, k))]


def best_sparse_dense(n: int, entries: int, k: int, skew: float, sites: int
                      ) -> tuple[float, str]:
    return best_product(sparse(n, entries, skew).nbytes, ITEM * n * k, ITEM * n * k, (n, n, k),
                        sites)


def sparse_sparse(n: int, entries: int, skew: float, make: Make, sites: int) -> list[tr.Tensor]:
    return [sparse(n, entries, skew) @ sparse(n, entries, skew)]


def best_sparse_sparse(n: int, entries: int, skew: float, sites: int) -> tuple[float, str]:
    a = sparse(n, entries, skew)
    return best_product(a.nbytes, a.nbytes, 1.5 * ITEM * (a @ a).compute().nnz, (n, n, n), sites)


def of_product(name: str, m: int, k: int, n: int, small: tuple[int, int, int]) -> Program:
    return Program(f"{name}, {m} x {k} x {n}", partial(product, m, k, n),
                   partial(dense_product, m, k, n), partial(product, *small))


PROGRAMS = (
    of_product("square", 8000, 8000, 8000, (400, 400, 400)),
    of_product("tall", 200000, 500, 500, (4000, 60, 60)),
    of_product("inner", 1000, 200000, 1000, (60, 4000, 60)),
    of_product("wide", 1000, 20000, 20000, (50, 800, 800)),
    of_product("outer", 16000, 64, 16000, (1500, 64, 1500)),
    of_product("strip", 500, 160000, 750, (40, 4000, 60)),
    Program("chain A @ B @ C, 8000, C of 500 columns", partial(chain, 8000, 500),
            partial(best_chain, 8000, 500), partial(chain, 400, 30)),
    Program("(A + B) @ C, 8000", partial(sum_first, 8000),
            lambda sites: dense_product(8000, 8000, 8000, sites), partial(sum_first, 400)),
    Program("Gram row sums, 8000", partial(gram, 8000), partial(best_gram, 8000),
            partial(gram, 400)),
    Program("training step, 1000 x 20000 x 2000 x 2000",
            partial(training, 1000, 20000, 2000, 2000),
            partial(best_training, 1000, 20000, 2000, 2000), partial(training, 40, 800, 80, 80)),
    Program("factorization, 10000 x 10000, rank 50",
            partial(factorization, 10000, 10000, 50),
            partial(best_factorization, 10000, 10000, 50), partial(factorization, 1600, 1600, 10)),
    Program("3-D convolution, 3 to 10 channels, 70 x 540 x 960",
            partial(convolution, (70, 540, 960), 3, 10, 3),
            partial(best_convolution, (70, 540, 960), 3, 10, 3),
            partial(convolution, (14, 20, 24), 2, 3, 2)),
    Program("the same convolution by windows",
            partial(convolution_by_windows, (70, 540, 960), 3, 10, 3),
            partial(best_convolution, (70, 540, 960), 3, 10, 3),
            partial(convolution_by_windows, (14, 20, 24), 2, 3, 2)),
    Program("sparse x dense, 100000, 10^6 entries, 100 columns",
            partial(sparse_dense, 100000, 10**6, 100, 0.0),
            partial(best_sparse_dense, 100000, 10**6, 100, 0.0),
            partial(sparse_dense, 20000, 200000, 50, 0.0)),
    Program("sparse x dense, skewed", partial(sparse_dense, 100000, 10**6, 100, 2.0),
            partial(best_sparse_dense, 100000, 10**6, 100, 2.0),
            partial(sparse_dense, 20000, 200000, 50, 2.0)),
    Program("sparse x sparse, skewed", partial(sparse_sparse, 100000, 10**6, 1.0),
            partial(best_sparse_sparse, 100000, 10**6, 1.0),
            partial(sparse_sparse, 20000, 100000, 1.0)),
)
