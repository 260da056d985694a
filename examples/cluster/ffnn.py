"""Training a network with one hidden layer on a cluster: ``python examples/cluster/ffnn.py``.

The weights stay where the plan left them; a step reads them there and leaves new ones. Nothing but
the loss comes back to the driver. ``--sites 4`` runs on threads, ``--ray auto`` joins a cluster."""

from __future__ import annotations

import argparse

import numpy as np

import tensorel as tr

RATE = 0.05


def data(batch: int, wide: int, hidden: int, out: int) -> list[np.ndarray]:
    """Inputs, targets, and the weights to begin with."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, wide))
    return [x, np.tanh(x @ rng.standard_normal((wide, out)) / wide**0.5),
            rng.standard_normal((wide, hidden)) / wide**0.5,
            rng.standard_normal((hidden, out)) / hidden**0.5]


def step(xp, x, y, first, second, kept=lambda t: t):
    """Forward, backward, update; gives the loss before it. ``kept``: leaves a tensor where it is
    made, so that what is read several times is made once."""
    before = kept(x @ first)
    active = kept(xp.maximum(before, 0))
    error = kept((active @ second - y) / x.shape[0])
    back = kept(xp.where(before > 0, error @ second.T, 0.0))
    return (xp.sum(error * error) * x.shape[0] / 2, kept(first - RATE * (x.T @ back)),
            kept(second - RATE * (active.T @ error)))


def train(engine, arrays: list[np.ndarray], steps: int) -> tuple[list[float], list[np.ndarray]]:
    """The losses, and the weights at the end."""
    x, y, first, second = (tr.asarray(a).persist(engine=engine) for a in arrays)
    losses = []
    for _ in range(steps):
        engine.reset()
        loss, first, second = step(tr, x, y, first, second, lambda t: t.persist(engine=engine))
        losses.append(loss.item())
        print(f"loss {losses[-1]:.4f}, {engine.stats()['bytes_moved'] / 1e6:.2f} MB moved")
    return losses, [first.to_numpy(), second.to_numpy()]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster instead of threads")
    parser.add_argument("--sizes", type=int, nargs=4, default=(200, 2000, 200, 50),
                        metavar=("BATCH", "WIDE", "HIDDEN", "OUT"))
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args(arguments)
    arrays = data(*args.sizes)
    x, y, *weights = arrays
    expected = []
    for _ in range(args.steps):
        loss, *weights = step(np, x, y, *weights)
        expected.append(float(loss))
    with tr.engines.ray(args.ray) if args.ray else tr.engines.local(sites=args.sites) as engine:
        losses, found = train(engine, arrays, args.steps)
    np.testing.assert_allclose(losses, expected, rtol=1e-8)
    for one, other in zip(found, weights):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    assert losses[-1] < losses[0]
    print("the losses and weights are those of NumPy")


if __name__ == "__main__":
    main()
