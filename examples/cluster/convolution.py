"""A bank of filters over an image and over a volume, in blocks with halos:
``python examples/cluster/convolution.py``.

A convolution is a sum of shifted slices, each times a weight. A block of the result needs its
neighbours' borders, which the plan sends; nothing else is moved but the filters. ``--sites 4`` runs
on threads, ``--ray auto`` joins a cluster."""

from __future__ import annotations

import argparse

import numpy as np

import tensorel as tr


def convolved(x, bank):
    """Channels of an image of any rank, filtered: ``x`` is channels x extents, ``bank`` is filters
    x channels x window. Cells whose window is whole."""
    window, total = bank.shape[2:], 0
    for shift in np.ndindex(*window):
        part = x[(slice(None), *[slice(s, n - w + 1 + s)
                                 for s, n, w in zip(shift, x.shape[1:], window)])]
        weights = tr.asarray(bank[(slice(None), slice(None), *shift)])
        total = total + tr.tensordot(weights, part, axes=1)
    return total


def expected(x: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """The same by NumPy."""
    axes = tuple(range(1, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, bank.shape[2:], axis=axes)
    rank = len(axes)
    return np.tensordot(bank, windows, axes=[range(1, rank + 2),
                                             [0, *range(rank + 1, 2 * rank + 1)]])


def run(engine, shape: tuple[int, ...], channels: int, filters: int, size: int) -> None:
    rng = np.random.default_rng(len(shape))
    bank = rng.standard_normal((filters, channels, *[size] * len(shape)))
    image = rng.standard_normal((channels, *shape))
    x = tr.asarray(image).persist(engine=engine)
    engine.reset()
    found = convolved(x, bank).persist(engine=engine)
    moved = engine.stats()["bytes_moved"]
    np.testing.assert_allclose(found.to_numpy(), expected(image, bank), rtol=1e-9, atol=1e-9)
    print(f"{len(shape)}-D: {image.nbytes / 1e6:.2f} MB in, {found.nbytes / 1e6:.2f} MB out, "
          f"{moved / 1e6:.2f} MB moved; the result is that of NumPy")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster instead of threads")
    parser.add_argument("--size", type=int, default=48, help="extent of the volume")
    args = parser.parse_args(arguments)
    with tr.engines.ray(args.ray) if args.ray else tr.engines.local(sites=args.sites) as engine:
        run(engine, (8 * args.size, 8 * args.size), channels=3, filters=8, size=3)
        run(engine, (args.size, args.size, 2 * args.size), channels=2, filters=4, size=2)


if __name__ == "__main__":
    main()
