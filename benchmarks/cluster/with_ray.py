"""Products on Ray by hand: tasks pinned to nodes, on the grid that is asked for. Operands are made
where they are used first, a share of each strip at each node that needs it."""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import product

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.data import block, timed
from cluster.problems import scaled

SYSTEM = "Ray by hand"


@ray.remote
def made(shape, name, key):
    return block(shape, name, key)


@ray.remote
def multiplied(parts, count, *shares):
    """A cell of the product, of shares of its two operands, as ``parts`` strips of rows."""
    a, b = np.concatenate(shares[:count], axis=1), np.concatenate(shares[count:], axis=0)
    found = a @ b
    return found if parts == 1 else tuple(np.array_split(found, parts))


@ray.remote
def added(*parts):
    return sum(parts[1:], parts[0])


def run(sizes, grid, nodes):
    """``grid``: parts of rows, of the sum, and of columns."""
    (m, k, n), (gi, gk, gj) = sizes, grid
    cells = list(product(range(gi), range(gk), range(gj)))
    at = {cell: NodeAffinitySchedulingStrategy(nodes[x], soft=False)
          for x, cell in enumerate(cells)}
    rows, inner, columns = m // gi, k // gk, n // gj
    a, b, parts = {}, {}, {}
    for i, s, j in cells:  # a share of A's part for each column of cells, of B's for each row
        here = {"scheduling_strategy": at[i, s, j]}
        a[i, s, j] = made.options(**here).remote((rows, inner // gj), 1, (i, s, j))
        b[i, s, j] = made.options(**here).remote((inner // gi, columns), 2, (i, s, j))
    for i, s, j in cells:
        shares = [a[i, s, y] for y in range(gj)] + [b[x, s, j] for x in range(gi)]
        found = multiplied.options(num_returns=gk, scheduling_strategy=at[i, s, j]).remote(
            gk, gj, *shares)
        parts[i, s, j] = [found] if gk == 1 else found
    results = [added.options(scheduling_strategy=at[i, s, j]).remote(
        *[parts[i, t, j][s] for t in range(gk)]) if gk > 1 else parts[i, s, j][0]
        for i, s, j in cells]
    ray.wait(results, num_returns=len(results), fetch_local=False)
    return results


def main(scale: float, names: list[str]) -> None:
    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")
    nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
    run((64, 64, 64), (1, 2, 2), nodes)
    for name in names:
        kind, sizes = scaled(name, scale)
        for grid in GRIDS[name] if kind == "product" else ():
            kept = timed(SYSTEM, name, "x".join(map(str, grid)), partial(run, sizes, grid, nodes))
            del kept
    ray.shutdown()


#: Parts of rows, of the sum, and of columns: the best ones for four nodes.
GRIDS = {"8000 x 8000 x 8000": [(2, 1, 2), (1, 2, 2)], "1k x 200k x 1k": [(1, 4, 1)],
         "1k x 20k x 20k": [(1, 2, 2), (1, 1, 4)], "500 x 160k x 750": [(1, 4, 1)]}

if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
