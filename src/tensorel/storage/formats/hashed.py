"""dok: a hash map from whole keys to values. trie: a hash map per level, like nested
dictionaries. Both keep their entries sorted as well, so they can be walked in order."""

from __future__ import annotations

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.ir.build import element
from tensorel.ir.nodes import Expr
from tensorel.storage.entries import Coo
from tensorel.storage.format import Format, PhysicalArrays, named
from tensorel.storage.formats.compressed import check_order
from tensorel.storage.formats.hashing import are_found, build_table
from tensorel.storage.laws import Look, Violation
from tensorel.storage.levels import Arrays, Compressed, Listed, Position, Probe
from tensorel.storage.stack import Stack, index_dtype


@dataclass(frozen=True, slots=True)
class Dok(Stack):
    """A coordinate list with ``table``: the entry number of each key, by hash."""

    def pack(self, coo: Coo) -> PhysicalArrays:
        arrays = Stack.pack(self, coo)
        if self.levels:
            arrays["table"] = build_table(coo.coords, coo.count)
            arrays["slots"] = np.asarray([arrays["table"].size])
        return arrays

    def law(self, look: Look) -> None:
        Stack.law(self, look)
        if self.levels:
            keys = [look.arrays[f"idx{a}"] for a in range(self.rank)]
            look.table(("table", "slots"), keys[0].size,
                       lambda table: are_found(keys, table))  # type: ignore[arg-type]

    def lookup(self, arrays: Arrays, coords: tuple[Expr, ...]) -> Probe | None:
        if not self.levels:
            return None
        listed = [arrays[f"idx{a}"] for a in range(self.rank)]
        return Probe(
            arrays["table"], element(arrays["slots"], 0), coords,
            lambda e: tuple(element(idx, e) for idx in listed), lambda e: (e,),
        )


@dataclass(frozen=True, slots=True)
class Hashed(Compressed):
    """A compressed level with ``table``: the position of each (parent position, coordinate)."""

    @property
    def names(self) -> tuple[str, ...]:
        d = self.depth
        head = (f"pos{d}", f"idx{d}")
        return (*head, f"up{d}", f"table{d}", f"slots{d}") if d else (
            *head, f"table{d}", f"slots{d}"
        )

    def law(self, look: Look, axis: int, parents: int) -> int:
        d, count = self.depth, Compressed.law(self, look, axis, parents)
        keys = [look.arrays[f"idx{d}"]]
        if d:
            keys.insert(0, look.places(f"up{d}", count, "parents"))
            lengths = np.diff(look.arrays[f"pos{d}"]) if look.whole else ()
            if look.whole and not np.array_equal(keys[0], np.repeat(np.arange(parents), lengths)):
                raise Violation(f"up{d}", "parents are not those of the segments")
        look.table((f"table{d}", f"slots{d}"), count,
                   lambda table: are_found(keys, table))  # type: ignore[arg-type]
        return count

    def probe(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Probe | None:
        d = self.depth
        idx, table = arrays[f"idx{d}"], arrays[f"table{d}"]
        size = element(arrays[f"slots{d}"], 0)
        if d == 0:
            return Probe(table, size, (i,), lambda e: (element(idx, e),), lambda e: (e,))
        up = arrays[f"up{d}"]
        return Probe(
            table, size, (parent[0], i), lambda e: (element(up, e), element(idx, e)),
            lambda e: (e,),
        )


@dataclass(frozen=True, slots=True)
class Trie(Stack):
    """Compressed levels, each with a hash table keyed by parent position and coordinate."""

    def pack(self, coo: Coo) -> PhysicalArrays:
        arrays = Stack.pack(self, coo)
        for d in range(self.rank):
            idx = arrays[f"idx{d}"]
            keys = [idx]
            if d:
                lengths = np.diff(arrays[f"pos{d}"])
                parents = np.arange(lengths.size, dtype=index_dtype(lengths.size))
                arrays[f"up{d}"] = np.repeat(parents, lengths)
                keys = [arrays[f"up{d}"], idx]
            arrays[f"table{d}"] = build_table(keys, idx.size)  # type: ignore[arg-type]
            arrays[f"slots{d}"] = np.asarray([arrays[f"table{d}"].size])
        return arrays


@named
def dok(shape: tuple[int, ...], dtype: DType) -> Format:
    rank = len(shape)
    levels = tuple(Listed(d, runs=d < rank - 1) for d in range(rank))
    return Dok("dok", tuple(range(rank)), levels)


@named
def trie(shape: tuple[int, ...], dtype: DType, *order: int) -> Format:
    rank = len(shape)
    axes = check_order("trie", rank, order)
    name = "trie" if axes == tuple(range(rank)) else f"trie({','.join(map(str, axes))})"
    return Trie(name, axes, tuple(Hashed(d) for d in range(rank)))
