"""A storage mapping of a user as a format: levels, packer and reader that follow from it."""

from __future__ import annotations

import json
import math

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.base.records import cached_property, dataclass
from tensorel.errors import StorageError
from tensorel.ir.build import convert
from tensorel.ir.nodes import Expr as Calculus
from tensorel.ir.nodes import Read, const
from tensorel.sdql.syntax import Name, Number, free
from tensorel.storage.entries import Coo, distinguishable, make_fill
from tensorel.storage.format import Format, PhysicalArrays
from tensorel.storage.laws import UNKNOWN, Look, Violation
from tensorel.storage.levels import Arrays, Position
from tensorel.storage.mapped.layout import Layout
from tensorel.storage.mapped.packing import pack
from tensorel.storage.mapped.pieces import LENGTH, Physical, Piece, length_of
from tensorel.storage.mapped.reading import cells
from tensorel.storage.mapped.terms import Values, evaluate
from tensorel.storage.registry import MAPPING
from tensorel.storage.sorting import sort_coords
from tensorel.storage.stack import index_dtype


@dataclass(frozen=True, eq=False)
class Plan:
    """What a mapping was found to be; compared by its text, which all of it follows from."""

    text: str
    pieces: tuple[Piece, ...]
    layout: Layout
    physical: Physical

    @property
    def piece(self) -> Piece:
        """The first, which tells what all have in common."""
        return self.pieces[0]

    @cached_property
    def used(self) -> frozenset[str]:
        """The arrays and scalars that the mapping reads, but for the extents of the axes."""
        found: set[str] = set()
        for piece in self.pieces:
            terms = [t for c in piece.cursors for t in (c.low, c.high)]
            found = found.union(*map(free, (*terms, *piece.tests, *piece.keys, piece.value)))
            found -= {c.name for c in piece.cursors}
        return frozenset(found - {e.name for e in self.layout.extents if isinstance(e, Name)})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True, slots=True)
class Mapped(Format):
    """Levels derived from a mapping. The arrays have the names of the mapping; its scalars are
    arrays of one element."""

    plan: Plan

    @property
    def text(self) -> str:
        return f"{MAPPING}[{json.dumps(self.name)}, {self.plan.text}]"

    @property
    def value_array(self) -> str | None:
        return self.plan.piece.array

    def law(self, look: Look) -> None:
        """Arrays are as long as they are declared, where the scalars tell, and as their noted
        lengths say; every place that the cursors reach is inside of its array."""
        physical, array = self.plan.physical, self.plan.piece.array
        look.values(0 if array is None else UNKNOWN, array or "val")
        for name in self.plan.used - {array}:
            if name in physical.scalars or name.startswith(LENGTH):
                look.places(name, 1, "numbers")
            elif look.list(name).dtype.kind not in "iu":
                raise Violation(name, "indices are not whole numbers")
        known = with_extents(self, dict(look.arrays), look.shape)
        numbers = {n for n, a in known.items() if not a.ndim and not n.startswith(LENGTH)}
        for name, sizes in physical.extents.items():
            if sizes and name in look.arrays and free(sizes[0]) <= numbers:
                look.sized(name, max(int(evaluate(sizes[0], {}, known)), 0), "elements")
        for name in look.arrays:
            if length_of(name) in look.arrays:
                look.sized(name, int(known[length_of(name)]), "elements")
        if look.whole:
            try:
                check_content(self, dict(look.arrays), look.shape, look.dtype)
            except StorageError as error:
                raise Violation(None, error.message) from error

    def value(self, arrays: Arrays, position: Position) -> Calculus:
        piece = self.plan.piece
        if piece.array is None:
            assert isinstance(piece.value, Number)
            return convert(const(piece.value.value), arrays["val"].dtype)
        return Read(arrays[piece.array], (position[0],))

    def pack(self, coo: Coo) -> PhysicalArrays:
        plan = self.plan
        arrays = pack(coo, plan.pieces, plan.layout, plan.physical)
        check(self, coo, arrays)
        return physical_arrays(self, arrays, coo.values.dtype)

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        return read_back(self, arrays, shape, fill, dtype)[0]

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        if self.is_dense:
            return int(np.prod(shape, dtype=np.int64))
        return int(cells(self.plan.pieces, with_extents(self, arrays, shape))[2].size)


def physical_arrays(fmt: Mapped, arrays: dict[str, Values], dtype: DType) -> PhysicalArrays:
    """Those that kernels read: scalars as arrays of one element, extents are known anyway."""
    kept = {n: np.atleast_1d(a) for n, a in arrays.items() if n in fmt.plan.used}
    return kept if fmt.plan.piece.array is not None else {**kept, "val": np.empty(0, dtype)}


def with_extents(fmt: Mapped, arrays: PhysicalArrays, shape: tuple[int, ...]) -> dict[str, Values]:
    """All names of the mapping: arrays, scalars, lengths, extents."""
    found: dict[str, Values] = {
        n: a.reshape(()) if n in fmt.plan.physical.scalars or n.startswith(LENGTH) else a
        for n, a in arrays.items()}
    found |= {f"#{n}": np.asarray(a.size) for n, a in arrays.items() if f"#{n}" not in found}
    for axis, extent in enumerate(fmt.plan.layout.extents):
        if isinstance(extent, Name):
            found[extent.name] = np.asarray(shape[axis])
    return found


def read_back(
    fmt: Mapped, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType,
) -> tuple[Coo, np.ndarray]:
    """The entries that the mapping finds in the arrays, sorted, and their places; cells that equal
    the fill are left out."""
    coo, places = stored_cells(fmt, arrays, shape, fill, dtype)
    kept = distinguishable(coo.values, make_fill(fill, dtype))
    return coo.where(kept), places[kept]


def stored_cells(
    fmt: Mapped, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType,
) -> tuple[Coo, np.ndarray]:
    """All cells that the mapping finds in the arrays, sorted, and their places."""
    keys, values, places = cells(fmt.plan.pieces, with_extents(fmt, arrays, shape))
    values = values.astype(dtype, copy=False)
    inside = np.ones(places.size, dtype=bool)
    for n, key in zip(shape, keys):
        inside &= (key >= 0) & (key < n)
    coords = tuple(k[inside].astype(index_dtype(n)) for k, n in zip(keys, shape))
    values, places = values[inside], places[inside]
    perm = sort_coords(coords, fmt.order, shape)
    if perm is not None:
        coords, values, places = tuple(c[perm] for c in coords), values[perm], places[perm]
    return Coo(coords, values, shape, fill, fmt.order), places


def check_content(
    fmt: Mapped, arrays: PhysicalArrays, shape: tuple[int, ...], dtype: DType
) -> None:
    """Index arrays are those that the packer makes of the cells that they have: sorted, each cell
    once, every place inside of its array."""
    check_reach(fmt, arrays, shape)
    coo, places = stored_cells(fmt, arrays, shape, 0, dtype)
    refuse_twice(fmt, coo, places)
    plan = fmt.plan
    made = physical_arrays(fmt, pack(coo, plan.pieces, plan.layout, plan.physical), dtype)
    for name in plan.used - {plan.piece.array}:
        if not np.array_equal(made[name], arrays[name]):
            raise StorageError(f"{name} is not what the packer makes of the cells that it has")


def check(fmt: Mapped, coo: Coo, arrays: dict[str, Values]) -> None:
    """Refuse arrays that do not give the tensor back: a mapping that is not one-to-one, or does
    not reach all cells."""
    dtype = coo.values.dtype
    keep = distinguishable(coo.values, make_fill(coo.fill, dtype))
    wanted = coo.where(keep)
    held = physical_arrays(fmt, arrays, dtype)
    check_reach(fmt, held, coo.shape)
    given, places = read_back(fmt, held, coo.shape, coo.fill, dtype)
    if given.count == int(keep.sum()) and all(
            np.array_equal(a, b) for a, b in zip(given.coords, wanted.coords)) \
            and _equal(given.values, wanted.values):
        return
    refuse_clash(fmt, given, places)
    missing = _first_missing(wanted.coords, given.coords)
    raise StorageError(
        f"the mapping {fmt.name!r} cannot store this tensor: cell {missing} would not be read "
        f"back as it is", hint="cells outside of the mapping's reach must equal the fill")


def check_reach(fmt: Mapped, arrays: PhysicalArrays, shape: tuple[int, ...]) -> None:
    """A mapping that finds every cell without a question has every cell: kernels do not ask."""
    if not fmt.is_dense:
        return
    keys, _, _ = cells(fmt.plan.pieces, with_extents(fmt, arrays, shape))
    inside = np.ones(keys[0].size if keys else 1, dtype=bool)
    for n, key in zip(shape, keys):
        inside &= (key >= 0) & (key < n)
    if int(inside.sum()) < math.prod(shape):
        raise StorageError(
            f"the mapping {fmt.name!r} does not reach all cells of a tensor of shape {shape}",
            hint="the cursors end too early for it: check the sizes of the arrays")


def _equal(a: Values, b: Values) -> bool:
    return bool(np.all((a == b) | ((a != a) & (b != b))))


def refuse_clash(fmt: Mapped, found: Coo, places: np.ndarray) -> None:
    """Two cells in one place, or two places for one cell."""
    order = np.argsort(places, kind="stable")
    twice = np.flatnonzero(places[order][1:] == places[order][:-1])
    if twice.size and fmt.plan.piece.array is not None and not fmt.plan.piece.shared:
        k, m = order[twice[0]], order[twice[0] + 1]
        a, b = (tuple(int(c[x]) for c in found.coords) for x in (k, m))
        raise StorageError(
            f"the mapping {fmt.name!r} is not one-to-one: cells {a} and {b} both lie at "
            f"{fmt.plan.piece.array}({int(places[k])})",
            hint="correct the place; cells that share a place on purpose are marked @shared")
    refuse_twice(fmt, found, places)


def refuse_twice(fmt: Mapped, found: Coo, places: np.ndarray) -> None:
    """Two places for one cell."""
    if found.count > 1:
        same = np.ones(found.count - 1, dtype=bool)
        for c in found.coords:
            same &= c[1:] == c[:-1]
        if same.any():
            k = int(np.argmax(same))
            cell = tuple(int(c[k]) for c in found.coords)
            raise StorageError(
                f"the mapping {fmt.name!r} is not one-to-one: cell {cell} has two places, "
                f"{int(places[k])} and {int(places[k + 1])}", hint="give each cell one place")


def _first_missing(wanted: tuple[np.ndarray, ...], found: tuple[np.ndarray, ...]
                   ) -> tuple[int, ...]:
    """A cell of one that is not a cell of the other, or the first whose values differ."""
    ours, theirs = ({tuple(map(int, c)) for c in zip(*cs)} for cs in (wanted, found))
    unlike = sorted(ours ^ theirs) or sorted(ours)
    return unlike[0] if unlike else ()
