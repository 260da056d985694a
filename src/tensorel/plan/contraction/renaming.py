"""Products up to the names of their indices.

In a product that reads one tensor several times, many sets of factors are the same but for names:
they have the same size, and the second one need not be estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product

from tensorel.plan.contraction.join_sizes import Factor, bits

MAX_RENAMED_INDICES = 5  # indices: beyond, telling products apart takes longer than estimating them


def has_repeats(factors: Sequence[Factor]) -> bool:
    """Some tensor is read twice."""
    read = [f.tensor for f in factors if f.tensor is not None]
    return len(set(read)) < len(read)


def may_exchange(factors: Sequence[Factor]) -> bool:
    """Some two indices are at the same places of the same tensors."""
    marks: dict[int, list[tuple[int, int]]] = {}
    for f in factors:
        for k, b in enumerate(f.order):
            marks.setdefault(b, []).append((id(f.tensor), k))
    return len({tuple(sorted(m)) for m in marks.values()}) < len(marks)


def shape_of(factors: Sequence[Factor], gone: int, extents: Mapping[int, float], last: int = 0,
             stored: bool = False) -> object:
    """The same for products that are equal but for the names of indices; ``gone`` are summed,
    ``last`` after the others. ``stored``: also in how the storage of each factor nests its
    indices. None where it is not looked for."""
    names = 0
    marks: dict[int, list[tuple[int, int]]] = {}
    reads: list[tuple[int, list[tuple[int, ...]]]] = []
    for f in factors:
        names |= f.free
        axes = f.order if stored else f.axes
        if f.tensor is None or not axes or names.bit_count() > MAX_RENAMED_INDICES:
            return None
        reads.append((id(f.tensor), [bits(a) for a in axes]))
        for k, axis in enumerate(axes):
            for b in bits(axis):
                marks.setdefault(b, []).append((id(f.tensor), k))
    alike: dict[tuple[object, ...], list[int]] = {}
    for b, mark in marks.items():
        kind = bool(b & gone), bool(b & last), extents[b], *sorted(mark)
        alike.setdefault(kind, []).append(b)
    kinds = sorted(alike)
    best: list[tuple[object, ...]] | None = None
    for some in product(*[permutations(alike[kind]) for kind in kinds]):
        place = {b: k for k, b in enumerate([b for group in some for b in group])}
        key = sorted([(tensor, *[tuple(sorted([place[b] for b in axis])) for axis in axes])
                      for tensor, axes in reads])
        if best is None or key < best:
            best = key
    return tuple([(kind, len(alike[kind])) for kind in kinds]), tuple(best or ())
