"""A user's storage mapping: read, checked, made into formats for tensors of a shape."""

from __future__ import annotations

import json
from collections.abc import Mapping as AbstractMapping
from functools import lru_cache

import numpy as np

from tensorel.algebra.ops import DType, check_dtype
from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.sdql.desugar import desugar
from tensorel.sdql.printer import show_script
from tensorel.sdql.script import parse_script
from tensorel.sdql.syntax import (
    Apply,
    CreatePhysical,
    CreateTensor,
    Expr,
    Name,
    Slice,
    Sum,
    free,
    walk,
)
from tensorel.storage.convert import pack as store
from tensorel.storage.format import Format
from tensorel.storage.formats.hashed import dok, trie
from tensorel.storage.lending import lend
from tensorel.storage.mapped.canonical import Standard, standard
from tensorel.storage.mapped.derive import derive
from tensorel.storage.mapped.format import Mapped, Plan, physical_arrays, read_back, refuse_clash
from tensorel.storage.mapped.layout import Layout
from tensorel.storage.mapped.pieces import Hashed, Physical, pieces
from tensorel.storage.mapped.reading import check_places
from tensorel.storage.mapped.terms import Values, evaluate, literal, number, substitute
from tensorel.storage.registry import MAPPING
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

#: Names of the pseudo arrays that kernels read besides a tensor's own.
RESERVED = frozenset({"shape", "count"})
#: Sizes at which a mapping without index arrays is tried when it is defined: of the first scalar,
#: and how much more each further one has.
TRIALS = ((1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (2, 1), (1, 3), (6, -1))


@dataclass(frozen=True, eq=False)
class StorageMapping:
    """How tensors of one rank lie in memory, written in SDQLite.

    ``tr.tensor(x, format=mapping)`` packs into it; ``mapping.tensor(...)`` reads arrays that lie
    so already. ``given``: scalars that the mapping fixes, arrays that it is about.
    """

    name: str
    text: str
    rank: int
    physical: Physical
    found: Hashed | Plan
    standard: Standard | None
    given: dict[str, Values]

    def __repr__(self) -> str:
        return f"<storage mapping {self.name!r} of {self.rank} axes: {self.text}>"

    def __call__(self, shape: tuple[int, ...], dtype: DType) -> Format:
        """The format of tensors with this shape."""
        if len(shape) != self.rank:
            raise StorageError(
                f"the mapping {self.name!r} has {self.rank} axes; the tensor has {len(shape)}, "
                f"shape {shape}")
        if isinstance(self.found, Hashed):
            if self.physical.form(self.found.name) == "TRIE":
                return trie(shape, dtype, *self.found.axes)
            return dok(shape, dtype)
        check_extents(self.found.layout, shape, self.name)
        if self.standard is not None:
            return Stack(self.name, self.standard.order, self.standard.levels)
        layout = self.found.layout
        return Mapped(self.name, layout.order, layout.levels, self.found)

    # -- arrays of the user ---------------------------------------------------------------------

    def arrays(self, stored: Stored) -> dict[str, Values]:
        """The physical arrays of a tensor in this storage, by the names of the mapping."""
        if stored.format != self(stored.shape, stored.dtype):
            raise StorageError(
                f"the tensor is stored as {stored.format.name!r}, not as {self.name!r}",
                hint="pack it first: tr.tensor(x, format=mapping)")
        if self.standard is None:
            return dict(stored.arrays)
        return {own: stored.arrays[role] for role, own in self.standard.roles.items()}

    def stored(self, arrays: AbstractMapping[str, object], shape: tuple[int, ...] | None,
               fill: object) -> Stored:
        """The tensor that lies in these arrays. They are used as they are where they are what the
        packer makes of the tensor; else (unsorted, with cells that equal the fill) packed anew."""
        if isinstance(self.found, Hashed):
            raise StorageError("a hash map is filled by packing: tr.tensor(x, format=mapping)")
        piece, layout = self.found.piece, self.found.layout
        known = {n: lend(a) for n, a in (self.given | dict(arrays)).items()}
        self._complete(known)
        whole = shape if shape is not None else self._shape(known)
        if len(whole) != self.rank or min(whole, default=0) < 0:
            raise StorageError(f"{whole} is no shape of a tensor in {self.name!r}, which has "
                               f"{self.rank} axes", hint="check shape=... and the scalars given")
        check_extents(layout, whole, self.name, known)
        values = known[piece.array] if piece.array is not None else np.asarray(piece.value.value)  # type: ignore[attr-defined]
        dtype = check_dtype(values.dtype)
        fmt = Mapped(self.name, layout.order, layout.levels, self.found)
        held = physical_arrays(fmt, known, dtype)
        coo, places = read_back(fmt, held, whole, fill, dtype)
        refuse_clash(fmt, coo, places)
        made = store(coo, self(whole, dtype))
        roles = self.standard.roles if self.standard is not None else {n: n for n in made.arrays}
        shared = {
            role: theirs.reshape(-1) for role, own in roles.items()
            if (theirs := known.get(own)) is not None
            and np.array_equal(made.arrays[role], theirs.reshape(-1))}
        return Stored(made.format, made.shape, made.dtype, made.fill, made.arrays | shared)

    def _complete(self, known: dict[str, Values]) -> None:
        """Every name has a value; lengths of arrays are values too."""
        assert isinstance(self.found, Plan)
        wanted = set(self.physical.forms)
        missing = sorted(wanted - set(known) - {"#" + n for n in wanted})
        if missing:
            raise StorageError(
                f"the mapping {self.name!r} also needs {', '.join(missing)}",
                hint="give every array and scalar of the mapping")
        unknown = sorted(set(known) - wanted)
        if unknown:
            raise StorageError(f"the mapping {self.name!r} has no array {unknown[0]!r}",
                               hint=f"its arrays and scalars are {', '.join(sorted(wanted))}")
        for name in wanted:
            if self.physical.form(name) == "SCALAR":
                if known[name].size != 1 or known[name].dtype.kind not in "iu":
                    raise StorageError(f"{name} is a scalar of the mapping {self.name!r}: it takes "
                                       f"one whole number, not {known[name].tolist()}")
                known[name] = known[name].reshape(())
            else:
                known[name] = np.ascontiguousarray(known[name]).reshape(-1)
                known[f"#{name}"] = np.asarray(known[name].size)

    def _shape(self, known: dict[str, Values]) -> tuple[int, ...]:
        """The extents that the mapping says, else one more than the largest key."""
        assert isinstance(self.found, Plan)
        found = []
        keys: list[np.ndarray] | None = None
        for axis, extent in enumerate(self.found.layout.extents):
            if extent is not None:
                found.append(int(evaluate(extent, {}, known)))
                continue
            if keys is None:
                keys = check_places(self.found.pieces, known)[0]
            found.append(int(keys[axis].max(initial=-1)) + 1)
        return tuple(found)


def check_extents(layout: Layout, shape: tuple[int, ...], name: str,
                  known: AbstractMapping[str, Values] | None = None) -> None:
    """The axes of a tensor are as long as the mapping says."""
    sizes: dict[str, int] = {n: int(a) for n, a in (known or {}).items() if a.ndim == 0}
    for axis, (extent, n) in enumerate(zip(layout.extents, shape)):
        if isinstance(extent, Expr) and literal(extent) not in (None, n):
            raise StorageError(
                f"axis {axis} of a tensor in {name!r} has {literal(extent)} coordinates; this "
                f"tensor has shape {shape}")
        if isinstance(extent, Name) and sizes.setdefault(extent.name, n) != n:
            raise StorageError(
                f"axis {axis} of a tensor in {name!r} has {extent.name} = {sizes[extent.name]} "
                f"coordinates; this tensor has shape {shape}")


def define(text: str, name: str | None = None, given: AbstractMapping[str, object] = {}
           ) -> StorageMapping:
    """The mapping of ``text``: an expression, or CREATE statements with one CREATE TENSOR."""
    script = parse_script(text)
    tensors = [s for s in script.statements if isinstance(s, CreateTensor)]
    if len(tensors) + (script.result is not None) != 1:
        raise StorageError(
            "a storage mapping is one expression, or one CREATE TENSOR after the CREATEs of its "
            "arrays", hint="CREATE real ARRAY V(M*N); CREATE TENSOR T AS sum(...) ...")
    definition = tensors[0].definition if tensors else script.result
    assert definition is not None
    extents = tensors[0].extents if tensors else None
    values = {n: np.asarray(a) for n, a in given.items()}
    for n, a in values.items():
        if a.dtype.kind not in "iufcb" or (a.ndim == 0 and a.dtype.kind not in "iu"):
            raise StorageError(f"{n} = {given[n]!r} is neither a whole number nor an array of "
                               f"numbers", hint="scalars of a mapping are whole numbers")
    fixed: dict[str, Expr] = {
        n: number(int(a)) for n, a in values.items() if a.ndim == 0 and a.dtype.kind in "iu"}
    core = desugar(definition)
    physical = _physical(core, [s for s in script.statements if isinstance(s, CreatePhysical)],
                         fixed)
    found = pieces(core, physical, fixed)
    called = name or (tensors[0].name if tensors else "storage")
    if isinstance(found, Hashed):
        return StorageMapping(
            called, text, len(found.axes), physical, found, None, values)
    declared = None if extents is None else tuple(substitute(e, fixed) for e in extents)
    layout = derive(found, physical, declared)
    numbers = {n: int(values[n]) for n in sorted(fixed)}
    plan = Plan(json.dumps([show_script(script), numbers]), found, layout, physical)
    mapping = StorageMapping(
        called, text, len(found[0].keys), physical, plan,
        standard(found[0], layout, physical) if len(found) == 1 else None,
        {n: a for n, a in values.items() if n not in fixed})
    _try(mapping)
    return mapping


@lru_cache(maxsize=256)
def restored(text: str) -> StorageMapping:
    """The mapping that a format with this text came from (``Mapped.text``)."""
    try:
        name, (script, fixed) = json.loads(text.removeprefix(MAPPING))
        whole = isinstance(name, str) and isinstance(script, str) and all(
            type(n) is int for n in fixed.values())
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(f"{text[:40]!r} is not the text of a storage mapping") from error
    if not whole:
        raise StorageError(f"{text[:40]!r} is not the text of a storage mapping")
    return define(script, name, fixed)


def _physical(core: Expr, statements: list[CreatePhysical], fixed: dict[str, Expr]) -> Physical:
    """Declared names, and those that the mapping only uses: what is read or walked is an array."""
    forms = {d.name: s.form for s in statements for d in s.declared}
    sizes = {d.name: tuple(substitute(desugar(e), fixed) for e in d.extents)
             for s in statements for d in s.declared}
    walked: set[str] = set()
    for node in walk(core):
        match node:
            case Apply(target=Name(name=n)) | Slice(target=Name(name=n)):
                walked.add(n)
            case Sum(generators=gs):
                walked |= {g.source.name for g in gs if isinstance(g.source, Name)}
    for n in free(core):
        forms.setdefault(n, "ARRAY" if n in walked else "SCALAR")
    for ends in sizes.values():
        for n in set().union(*map(free, ends)) if ends else ():
            forms.setdefault(n, "SCALAR")
    taken = sorted(RESERVED & set(forms))
    if taken:
        raise StorageError(f"the name {taken[0]!r} is reserved in storage mappings")
    return Physical({n: f for n, f in forms.items() if n not in fixed}, sizes)


def _try(mapping: StorageMapping) -> None:
    """A mapping whose places follow from the coordinates alone is tried at small sizes: one that
    is not one-to-one is refused before anything is stored in it."""
    plan = mapping.found
    assert isinstance(plan, Plan)
    if plan.piece.shared or plan.piece.array is None:
        return
    scalars = [n for n, f in mapping.physical.forms.items() if f == "SCALAR"]
    arrays = {n for n, f in mapping.physical.forms.items() if f != "SCALAR"}
    if arrays - {plan.piece.array}:
        return
    for size, step in TRIALS:
        known: dict[str, Values] = {
            n: np.asarray(size + step * k) for k, n in enumerate(scalars)}
        known[f"#{plan.piece.array}"] = np.asarray(size * size)
        keys, places = check_places(plan.pieces, known)
        order = np.argsort(places, kind="stable")
        twice = np.flatnonzero(places[order][1:] == places[order][:-1])
        if twice.size:
            a, b = (tuple(int(k[order[twice[0] + d]]) for k in keys) for d in (0, 1))
            sizes = ", ".join(f"{n} = {int(known[n])}" for n in scalars)
            raise StorageError(
                f"the mapping {mapping.name!r} is not one-to-one: with {sizes}, cells {a} and {b} "
                f"both lie at {plan.piece.array}({int(places[order[twice[0]]])})",
                hint="correct the place; cells that share a place on purpose are marked @shared")
