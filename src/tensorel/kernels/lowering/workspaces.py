"""Workspaces inside loops: one axis of values that is filled, read and forgotten in each
iteration of the loops around it (TACO's ``where``, the nested lets of Finch and Galley).

Values and marks lie at their coordinates, so that reading one takes a moment; a list of the marked
coordinates is walked, and forgetting takes time in proportion to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import convert, element, plus
from tensorel.ir.nodes import BOOL, INT64, Call, Const, DType, Expr, Local, Read, Source, const
from tensorel.kernels.loopir.statements import Assign, For, Stmt, Store
from tensorel.kernels.lowering.emission import Emission
from tensorel.kernels.lowering.nest import Assembly, Let, Nest, Slot
from tensorel.kernels.lowering.support import Analysis, Formula, conjunction, has, restrict
from tensorel.storage.format import Format
from tensorel.storage.levels import Arrays, Found, Level, Position, Walk
from tensorel.storage.stack import index_dtype


@dataclass(frozen=True, slots=True)
class Marked(Level):
    """The axis of the workspace ``name``; ``ascending``: it is filled in order."""

    name: str
    ascending: bool

    @property
    def count(self) -> Local:
        """How many coordinates are marked."""
        return Local(f"{self.name}_n", INT64)

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        listed = arrays["list"]
        return Walk(const(0, INT64), self.count, lambda q: element(listed, q),
                    lambda q: (element(listed, q),), ascending=self.ascending)

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        return Found(Read(arrays["mark"], (i,)), (i,))


def workspace(name: str, extent: int, dtype: DType, ascending: bool) -> Slot:
    """The slot of a workspace."""
    arrays = (("val", dtype.str), ("mark", BOOL.str), ("list", index_dtype(extent).str))
    return Slot(name, Format("workspace", (0,), (Marked(name, ascending),)), arrays)


def start(let: Let) -> object:
    """Values that are not marked, where they matter."""
    if let.op is None:
        return 0
    assert let.op.identity is not None
    return let.op.identity(let.body.dtype)


def speculative(nest: Nest) -> Nest:
    """The nest as it is tried first."""
    return replace(nest, speculative=True) if may_speculate(nest) else nest


def may_speculate(nest: Nest) -> bool:
    """A sum of products with workspaces that are zero where nothing is marked. A term that is not
    there then adds a zero, or a nan if a factor is infinite or nan, and nans stay in sums: a result
    without them is right."""
    if not nest.lets or nest.op is not ops.add or nest.output.assembly is not Assembly.DENSE \
            or nest.output.dtype.kind not in "fiu" or any(start(let) != 0 for let in nest.lets):
        return False
    stack, own = [nest.body], {let.slot for let in nest.lets}
    while stack:
        e = stack.pop()
        match e:
            case Call(op=ops.multiply):
                stack.extend(e.args)
            case Read(tensor=Source(data=slot, fill=fill)):
                if slot in own and fill.value != 0:
                    return False
            case Const():
                pass
            case _:
                return False
    return True


def level_of(slot: Slot) -> Marked:
    level = slot.format.levels[0]
    assert isinstance(level, Marked)
    return level


def is_marked(level: Level) -> bool:
    """Any coordinate may be read, marked or not: what is not marked is only not its value."""
    return isinstance(level, Marked)


def support_of(body: Expr, lets: Mapping[Slot, Let], analysis: Analysis,
               summed: bool = False, known: dict[Slot, Formula] | None = None) -> Formula:
    """Where a body has entries, for the loops around its workspaces too: these have some only
    where their own bodies do. ``known``: of the workspaces' bodies, kept between calls."""
    found = analysis.cover(body, summed).support
    if not lets:
        return found
    inside = {} if known is None else known

    def of(read: Read) -> Formula:
        let = lets.get(read.tensor.data)  # type: ignore[attr-defined]
        if let is None:
            return has(read)
        if let.slot not in inside:
            inside[let.slot] = support_of(let.body, lets, analysis, known=inside)
        return conjunction([has(read), inside[let.slot]])

    return restrict(found, of)


def add(low: Emission, let: Let, arrays: Arrays, at: Expr, value: Expr) -> None:
    """One value of the workspace's body, without branches."""
    count = level_of(let.slot).count
    mark, values, listed = (arrays[n] for n in ("mark", "val", "list"))
    new: Expr = const(1, INT64)
    if let.op is not None:
        new = low.let("new", convert(Call(ops.logical_not, (Read(mark, (at,)),)), INT64))
        value = convert(Call(let.op, (Read(values, (at,)), value)), values.dtype)
    low.emit(Store(values, at, value))
    low.emit(Store(mark, at, const(True)))
    low.emit(Store(listed, count, convert(at, listed.dtype)))
    low.emit(Assign(count, plus(count, new)))


def clear(low: Emission, let: Let, arrays: Arrays) -> None:
    """Forget all values: what is added up starts from the identity again."""
    count = level_of(let.slot).count
    q = low.fresh("q")
    at = element(arrays["list"], q)
    body: tuple[Stmt, ...] = (Store(arrays["mark"], at, const(False)),)
    if let.op is not None or low.nest.speculative:
        body += (Store(arrays["val"], at, const(start(let), arrays["val"].dtype)),)
    low.emit(For(q, const(0, INT64), count, body))
    low.emit(Assign(count, const(0, INT64)))
