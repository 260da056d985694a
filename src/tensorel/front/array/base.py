"""What every chapter of the lazy array stands on: the holder of a program, and lowering helpers.

A lazy tensor holds one program (``engines.programs``), which becomes a node of the calculus when
somebody asks for that. Axes of a Lambda are named i0, i1, ..., its reduction indices r0, r1, ...;
Lambdas are closed, so names never clash and equal programs are one node. Functions compose by
reading the inner tensor: substituting is the planner's work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from tensorel import config
from tensorel.algebra import ops
from tensorel.engines.evaluation import expect_programs
from tensorel.engines.programs import Program, formula
from tensorel.engines.skeletons import program_like
from tensorel.errors import AxisError, ShapeError, TypeError_
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.ir.extents import check_extents
from tensorel.storage.lending import freeze
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Shape = tuple[int, ...]
Exprs = tuple[ir.Expr, ...]

#: Indices and zero are kept alive, so that interning finds them.
_KEPT = tuple(ir.Index(f"i{k}") for k in range(64))
_SUMMED = tuple(ir.Index(f"r{k}") for k in range(64))
_NAMES = tuple(i.name for i in _KEPT)
ZERO = ir.const(0, ir.INT64)
ONE = ir.const(1, ir.INT64)


class Base:
    """A name for a program. The result that was asked for is kept with the program, as long as
    somebody names it or reads it."""

    __slots__ = ("__weakref__", "program")

    def __init__(self, node: ir.Tensor | None, stored: Stored | None = None,
                 program: Program | None = None) -> None:
        self.program = Program(node, stored) if program is None else program
        if stored is None:
            self.program.holder = ref(self)

    @property
    def node(self) -> ir.Tensor:
        """The program as it was written."""
        return self.program.node

    def get_node(self) -> ir.Tensor:
        return self.program.node

    @property
    def given(self) -> Stored | None:
        """The stored tensor that this is, None if it is a program."""
        return self.program.data

    @property
    def known(self) -> Stored | None:
        """The stored tensor, given or computed; None if these settings ask for values that nobody
        asked for yet, or others can write to what it is computed from."""
        program = self.program
        return program.data or (program.result and program.result_under(config.current()))

    @property
    def shape(self) -> Shape:
        """Extents of the axes."""
        return self.program.shape

    @property
    def dtype(self) -> ops.DType:
        """The dtype of every entry."""
        return self.program.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.program.shape)

    @property
    def size(self) -> int:
        """Number of entries, stored or not."""
        size = 1
        for extent in self.program.shape:
            size *= extent
        return size


_classes: list[type[Tensor]] = []


def register(cls: type[Tensor]) -> type[Tensor]:
    """Say which class ``wrap`` makes; the chapters stand below it and cannot import it."""
    _classes[:] = [cls]
    return cls


def wrap(node: ir.Tensor) -> Tensor:
    """The lazy tensor of a node."""
    return _classes[0](None, None, program_like(node))


def from_stored(stored: Stored) -> Tensor:
    """The tensor of stored data."""
    expect_programs(stored)
    for form in (stored, *stored.alternatives):
        freeze(form.arrays.values())
    return _classes[0](None, stored)


def formed(about: tuple[object, ...], build: Callable[..., ir.Tensor], *operands: Base,
           values: tuple[ir.Const, ...] = (), takes_extents: bool = False) -> Tensor:
    """The tensor of the node ``build(*programs, *values)``, which follows from ``about``, from
    shapes, dtypes, fills and formats of the operands, and from the values. ``takes_extents``:
    ``build`` knows no extents but theirs."""
    return _classes[0](None, None, formula(
        about, build, tuple([t.program for t in operands]), values, takes_extents))


# -- names --------------------------------------------------------------------------------------
def indices(rank: int) -> Exprs:
    """The axes' indices of a Lambda of that rank."""
    return _KEPT[:rank] if rank <= 64 else tuple(ir.Index(f"i{k}") for k in range(rank))


def summed(count: int) -> Exprs:
    """The reduction indices r0, r1, ..."""
    return _SUMMED[:count] if count <= 64 else tuple(ir.Index(f"r{k}") for k in range(count))


def axes_of(shape: Sequence[int]) -> tuple[ir.Axis, ...]:
    """The axes of a Lambda of that shape."""
    if len(shape) <= 64:
        return tuple(map(ir.Axis, _NAMES, shape))
    return tuple(ir.Axis(f"i{k}", n) for k, n in enumerate(shape))


def reduce_axes(shape: Sequence[int]) -> tuple[ir.Axis, ...]:
    """The axes of a reduction over extents of that shape."""
    return tuple(ir.Axis(f"r{k}", n) for k, n in enumerate(shape))


def lift(shape: Shape, body: Callable[[Exprs], ir.Expr]) -> Tensor:
    """The tensor of that shape with the entries ``body(indices)``."""
    check_extents(shape)
    return wrap(ir.Lambda(axes_of(shape), body(indices(len(shape)))))


# -- expressions --------------------------------------------------------------------------------
def call(op: ops.Operator, *args: ir.Expr) -> ir.Expr:
    """``op(args)`` with the conversions that NumPy would make, written out."""
    into, _ = op.resolve(*[a.dtype for a in args])
    return ir.Call(op, tuple([convert(a, d) for a, d in zip(args, into)]))


def choose(condition: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """``a`` where the condition holds, else ``b``, in the common dtype."""
    dtype = a.dtype if a.dtype == b.dtype else np.result_type(a.dtype, b.dtype)
    test = condition if condition.dtype == ir.BOOL else convert(condition, ir.BOOL)
    return ir.Call(ops.where, (test, convert(a, dtype), convert(b, dtype)))


def zero_of(dtype: ops.DType) -> ir.Const:
    """The zero of a dtype."""
    return ir.const(0, dtype)


def read(tensor: Base | Program, at: Exprs, shape: Shape) -> ir.Expr:
    """The entry of ``tensor`` at the indices of a result of ``shape`` that it broadcasts to."""
    node = tensor.node
    own = node.shape
    if own == shape:
        return ir.Read(node, at)
    skip = len(shape) - len(own)
    return ir.Read(
        node,
        tuple(
            ZERO if n == 1 and shape[skip + k] != 1 else at[skip + k] for k, n in enumerate(own)
        ),
    )


# -- shapes -------------------------------------------------------------------------------------
def broadcast(name: str, *shapes: Shape) -> Shape:
    """NumPy's broadcast of shapes; a clash names the operation and the shapes."""
    first = shapes[0]
    for shape in shapes:
        if shape != first:
            break
    else:
        return first
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for k, n in enumerate(shape, rank - len(shape)):
            if n != 1 and result[k] != n:
                if result[k] != 1:
                    listed = " and ".join(map(str, shapes))
                    raise ShapeError(
                        f"{name}: shapes {listed} do not broadcast: axis {k - rank} has "
                        f"{result[k]} and {n} entries",
                        hint="extents must be equal or 1, aligned at the last axis",
                    )
                result[k] = n
    return tuple(result)


def whole(value: object, what: str) -> int:
    """A whole number from a Python or NumPy integer."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    index = getattr(value, "__index__", None)
    if index is None or isinstance(value, (bool, np.bool_)):
        raise TypeError_(f"{what} must be a whole number, not {value!r}")
    return int(index())


def within(offset: int, rows: int, columns: int) -> int:
    """An offset of diagonals, cut where all of them are outside of the matrix anyway."""
    return max(-rows, min(offset, columns))


def one_axis(axis: object, rank: int, name: str) -> int:
    """A checked axis number, negative ones counted from the end."""
    k = whole(axis, f"{name}: axis")
    if not -rank <= k < rank:
        raise AxisError(
            f"{name}: axis {k} does not exist in a tensor of {rank} axes",
            hint=f"axes are {-rank} to {rank - 1}" if rank else "the tensor is a scalar",
        )
    return k % rank


def some_axes(axis: object, rank: int, name: str) -> Shape:
    """Checked axis numbers from None (all), a number or a sequence of them; ascending."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, (tuple, list)):
        found = sorted(one_axis(a, rank, name) for a in axis)
        if len(set(found)) != len(found):
            raise ShapeError(f"{name}: axis {axis} names an axis twice")
        return tuple(found)
    return (one_axis(axis, rank, name),)


def as_shape(shape: object, name: str) -> Shape:
    """A shape from a number or a sequence of non-negative numbers."""
    if isinstance(shape, (tuple, list, np.ndarray)):
        found = tuple(whole(n, f"{name}: extent") for n in shape)
    else:
        found = (whole(shape, f"{name}: extent"),)
    for n in found:
        if n < 0:
            raise ShapeError(f"{name}: negative extent in shape {found}")
    check_extents(found, name)
    return found
