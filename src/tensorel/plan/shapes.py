"""Products up to the names of their indices.

In a product that reads one tensor several times, many sets of factors are the same but for names:
they have the same size, and the second one need not be estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product

from tensorel.plan.sizes import Factor, bits

MOST = 5  # indices: beyond, telling products apart takes longer than estimating them


def has_repeats(factors: Sequence[Factor]) -> bool:
    """Some tensor is read twice."""
    read = [f.tensor for f in factors if f.tensor is not None]
    return len(set(read)) < len(read)


def shape_of(factors: Sequence[Factor], gone: int, extents: Mapping[int, float]) -> object:
    """The same for products that are equal but for the names of indices; ``gone`` are summed.
    None where it is not looked for."""
    names = 0
    marks: dict[int, list[tuple[int, int]]] = {}
    reads: list[tuple[int, list[tuple[int, ...]]]] = []
    for f in factors:
        names |= f.free
        if f.tensor is None or names.bit_count() > MOST:
            return None
        reads.append((id(f.tensor), [bits(a) for a in f.axes]))
        for k, axis in enumerate(f.axes):
            for b in bits(axis):
                marks.setdefault(b, []).append((id(f.tensor), k))
    alike: dict[tuple[object, ...], list[int]] = {}
    for b, mark in marks.items():
        alike.setdefault((bool(b & gone), extents[b], *sorted(mark)), []).append(b)
    kinds = sorted(alike)
    best: list[tuple[object, ...]] | None = None
    for some in product(*[permutations(alike[kind]) for kind in kinds]):
        place = {b: k for k, b in enumerate([b for group in some for b in group])}
        key = sorted([(tensor, *[tuple(sorted([place[b] for b in axis])) for axis in axes])
                      for tensor, axes in reads])
        if best is None or key < best:
            best = key
    return tuple([(kind, len(alike[kind])) for kind in kinds]), tuple(best or ())
