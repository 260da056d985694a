"""Least squares with a regularizer that cross-validation finds:
``python examples/relations/regression.py [--table FILE.csv --target COLUMN]``.

A fold is a selection of rows, ``rid % 5 = 2``: what is not selected is 0 and adds nothing to the
sums over rows that least squares consists of. So no fold is copied, and no inverse is made."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tensorel as tr

FOLDS = 5


def generated(rows: int = 2000, columns: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Features that depend on each other, and few that matter."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns))
    return x, x[:, :3] @ [2.0, -1.0, 0.5] + rng.standard_normal(rows)


def table(file: Path, target: str) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a table with a line of names."""
    with file.open() as lines:
        names = next(lines).strip().split(",")
        rows = np.loadtxt(lines, delimiter=",")
    k = names.index(target)
    return np.delete(rows, k, axis=1), rows[:, k]


def weights(X: tr.Tensor, y: tr.Tensor, strength: float) -> tr.Tensor:
    """Ridge regression, as it is written in books."""
    return tr.linalg.inv(X.T @ X + strength * tr.eye(X.shape[1])) @ (X.T @ y)


def loss(X: tr.Tensor, y: tr.Tensor, strength: float) -> float:
    """The mean squared error of rows that the weights have not seen."""
    total = 0.0
    for fold in range(FOLDS):
        seen, held = f"rid % {FOLDS} <> {fold}", f"rid % {FOLDS} = {fold}"
        w = weights(X.select(seen), y.select(seen), strength)
        total += ((X.select(held) @ w - y.select(held)) ** 2).sum().item()
    return total / X.shape[0]


def by_numpy(x: np.ndarray, y: np.ndarray, strength: float) -> float:
    """The same with copies of rows."""
    total, fold = 0.0, np.arange(len(x)) % FOLDS
    for k in range(FOLDS):
        a, b = x[fold != k], y[fold != k]
        w = np.linalg.solve(a.T @ a + strength * np.eye(a.shape[1]), a.T @ b)
        total += ((x[fold == k] @ w - y[fold == k]) ** 2).sum()
    return total / len(x)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, help="numbers with a line of names")
    parser.add_argument("--target", help="the column that is predicted")
    args = parser.parse_args(arguments)
    x, y = table(args.table, args.target) if args.table else generated()
    x = np.column_stack([np.ones(len(x)), (x - x.mean(0)) / x.std(0)])
    X, Y = tr.asarray(x), tr.asarray(y)
    losses = {s: loss(X, Y, s) for s in (0.01, 1.0, 100.0, 10000.0)}
    best = min(losses, key=losses.__getitem__)
    print("mean squared error by strength:", {s: round(v, 4) for s, v in losses.items()})
    w = weights(X, Y, best)
    print("weights:", w.to_numpy().round(3))
    print("the second weight alone:", round(float(w[1]), 3))
    same = all(np.isclose(losses[s], by_numpy(x, y, s)) for s in losses)
    print("as NumPy has it:", bool(same))


if __name__ == "__main__":
    main()
