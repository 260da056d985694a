"""Raster overlays: ``python examples/relations/overlay.py [--mask FILE.npz]``.

The map says where land is, in cells of equal degrees: ``land.npz`` beside this file is every 24th
cell of NOAA's GLOBE (public domain) as the package global-land-mask 1.0.0 has it (MIT licence). It
is laid over itself: turned by half a turn and upside down, which is where one comes out on the
other side of the Earth, and moved by one cell, to find coasts. Rows of a map are no areas: cells
are weighted by the cosine of their latitude."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tensorel as tr

SAME = "rid = rid and cid = cid"
NEIGHBOURS = ["rid = rid + 1 and cid = cid", "rid = rid - 1 and cid = cid",
              "rid = rid and cid = cid + 1", "rid = rid and cid = cid - 1"]


def read(file: Path) -> np.ndarray:
    """A boolean map, whose bits lie in bytes."""
    found = np.load(file)
    rows, columns = found["shape"]
    return np.unpackbits(found["land"], axis=1)[:rows, :columns].astype(bool)


def antipodes(land: tr.Tensor) -> tr.Tensor:
    """Land that has land on the other side of the Earth."""
    other = tr.roll(tr.flip(land, axis=0), land.shape[1] // 2, axis=1)
    return land.join(other, SAME, lambda here, there: here & there)


def coast(land: tr.Tensor) -> tr.Tensor:
    """Land beside water: of four neighbours, those that are land are counted."""
    count = land * 0
    for on in NEIGHBOURS:
        beside = land.join(land, on, lambda here, there: (here & there) * 1)
        count = count.join(beside, SAME, lambda x, y: x + y, how="outer")
    inner = count.select("val = 4")
    return land.join(inner, SAME, lambda here, around: tr.where(around == 4, False, here),
                     how="left")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mask", type=Path, default=Path(__file__).with_name("land.npz"))
    parser.add_argument("--zones", type=int, default=6)
    args = parser.parse_args(arguments)
    mask = read(args.mask)
    rows, columns = mask.shape
    land = tr.tensor(mask, format="csr")
    area = np.cos((np.arange(rows) + 0.5) / rows * np.pi - np.pi / 2)
    both, shore = antipodes(land), coast(land)
    share = ((both.aggregate("count", "row") @ area) / (land.aggregate("count", "row") @ area))
    print(f"land opposite to land: {100 * share.item():.1f}% of the land")
    print(f"coast: {shore.nnz} of {land.nnz} cells of land")
    size = -(-rows // args.zones)
    for zone, cells in land.group_by(f"rid // {size}").agg("count").rows():
        print(f"rows from {size * zone}: {cells} cells of land")
    wanted = mask & np.roll(mask[::-1], columns // 2, 1)
    around = np.pad(mask, 1).astype(int)
    inside = around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2] == 4
    same = np.array_equal(both.to_numpy(), wanted) and np.array_equal(
        shore.to_numpy(), mask & ~inside)
    print("as NumPy has it:", bool(same))


if __name__ == "__main__":
    main()
