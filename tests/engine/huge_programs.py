"""Random products of sparse tensors in random formats: whoever leads each loop, none runs through
an axis."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tensorel as tr

FORMATS = {
    1: ("coo", "csf", "dok", "trie", ";0"),
    2: ("coo", "csf", "csf(1,0)", "dcsr", "dcsc", "dok", "dok", "trie", "trie(1,0)", ";1,0"),
    3: ("coo", "csf(2,0,1)", "csf(1,2,0)", "dok", "dok", "trie", "trie(2,0,1)", ";2,0,1"),
}
COMBINED = (tr.add, tr.multiply, tr.maximum)


def _tensor(rng: random.Random, rank: int, n: int) -> Any:
    coords = [[c % n for c in rng.choices((1, 2, 5, -1), k=3)] for _ in range(rank)]
    values = np.array([rng.randint(1, 5) for _ in range(3)], float)
    return tr.from_coo(coords, values, (n,) * rank, duplicates="sum",
                       format=rng.choice(FORMATS[rank]))


def _product(rng: random.Random, letters: str, out: str | None, n: int) -> tuple[str, Any]:
    names = ["".join(rng.sample(letters, rng.randint(1, min(3, len(letters)))))
             for _ in range(rng.randint(1, 4))]
    used = sorted(set("".join(names)))
    if out is None:
        out = "".join(rng.sample(used, rng.randint(0, min(2, len(used)))))
    missing = "".join(c for c in out if c not in used)
    names += [missing] if missing else []
    made = tr.einsum(f"{','.join(names)}->{out}", *(_tensor(rng, len(x), n) for x in names))
    match rng.randrange(4):
        case 1 if out:
            made = made[::-1]
        case 2:
            made = abs(made) * 2
        case 3:
            made = made * (made > 1)
    return out, made


def random_program(seed: int, n: int) -> Any:
    """The same program for every extent."""
    rng = random.Random(seed)
    letters = "ijkl"[: rng.randint(2, 4)]
    out, made = _product(rng, letters, None, n)
    if rng.random() < 0.5:
        made = rng.choice(COMBINED)(made, _product(rng, letters, out, n)[1])
    return made
