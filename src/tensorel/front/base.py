"""What every chapter of the lazy array stands on: the holder of a node, and lowering helpers.

A lazy tensor holds one node of the calculus. Axes of a Lambda are named i0, i1, ..., its
reduction indices r0, r1, ...; Lambdas are closed, so names never clash and equal programs are
one node. Functions compose by reading the inner tensor: substituting is the planner's work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.engines.again import Form, brief, expect_programs, known_form, new_form
from tensorel.errors import IndexError_, ShapeError, TypeError_
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.front.array import Tensor

Shape = tuple[int, ...]
Exprs = tuple[ir.Expr, ...]

#: Indices and zero are kept alive, so that interning finds them.
_KEPT = tuple(ir.Index(f"i{k}") for k in range(64))
_SUMMED = tuple(ir.Index(f"r{k}") for k in range(64))
_NAMES = tuple(i.name for i in _KEPT)
ZERO = ir.const(0, ir.INT64)
MOST_FORMED = 24  # functions in a recipe: its nodes are made one inside the other
ONE = ir.const(1, ir.INT64)


class Recipe:
    """A formula over stored tensors: it is made into a node when somebody asks for that. ``size``:
    functions in it."""

    __slots__ = ("build", "form", "operands", "size", "stored")

    def __init__(self, form: Form, build: Callable[..., ir.Tensor], operands: tuple[Base, ...],
                 stored: list[Stored], size: int) -> None:
        self.form = form
        self.build = build
        self.operands = operands
        self.stored = stored
        self.size = size


class Base:
    """A node, and the stored result once it has been asked for. Without a node: one of stored
    data, or of a recipe."""

    __slots__ = ("__weakref__", "_node", "_recipe", "_stored")

    _node: ir.Tensor | None
    _stored: Stored | None
    _recipe: Recipe | None

    def __init__(self, node: ir.Tensor | None, stored: Stored | None = None,
                 recipe: Recipe | None = None) -> None:
        self._node = node
        self._stored = stored
        self._recipe = recipe

    @property
    def about(self) -> Form | ir.Tensor:
        """What knows the shape and the dtype, without making a node for that."""
        return self.node if self._node is not None or self._recipe is None else self._recipe.form

    @property
    def node(self) -> ir.Tensor:
        """The program."""
        found = self._node
        if found is None:
            if self._recipe is not None:
                found = self._recipe.build(*self._recipe.operands)
            else:
                data = self._stored
                assert data is not None
                found = ir.Source(data, data.shape, data.dtype, data.fill_const)
            self._node = found
        return found

    def get_node(self) -> ir.Tensor:
        return self.node

    @property
    def given(self) -> Stored | None:
        """The stored tensor that this is, None if it is a program."""
        is_data = self._recipe is None and (
            self._node is None or type(self._node) is ir.Source)
        return self._stored if is_data else None

    @property
    def shape(self) -> Shape:
        """Extents of the axes."""
        return self.about.shape

    @property
    def dtype(self) -> ops.DType:
        """The dtype of every entry."""
        return self.about.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.about.shape)

    @property
    def size(self) -> int:
        """Number of entries, stored or not."""
        size = 1
        for extent in self.about.shape:
            size *= extent
        return size


_classes: list[type[Tensor]] = []


def register(cls: type[Tensor]) -> type[Tensor]:
    """Say which class ``wrap`` makes; the chapters stand below it and cannot import it."""
    _classes[:] = [cls]
    return cls


def wrap(node: ir.Tensor) -> Tensor:
    """The lazy tensor of a node."""
    return _classes[0](node)


def from_stored(stored: Stored) -> Tensor:
    """The tensor of stored data."""
    expect_programs(stored)
    return _classes[0](None, stored)


def formed(about: tuple[object, ...], build: Callable[..., ir.Tensor], *operands: Base) -> Tensor:
    """The tensor of the node ``build(*operands)``, which follows from ``about`` and from shapes,
    dtypes, fills and formats of the operands. Where it was built before, it is not built now: what
    it would check was checked. Operands may be such formulas themselves."""
    key: list[object] = [about]
    seen: list[Stored] = []
    size = 1
    for t in operands:
        data, recipe = t.given, t._recipe
        if data is not None:
            key.append(_place(data, seen) if data in seen else brief(data))
            seen.append(data)
        elif recipe is not None and size + recipe.size <= MOST_FORMED:
            size += recipe.size
            key.append(recipe.form)
            for data in recipe.stored:  # which of them are the same tensor
                if data in seen:
                    key.append(_place(data, seen))
                seen.append(data)
        else:
            return _classes[0](build(*operands))
    whole_key = tuple(key)
    form = known_form(whole_key)
    if form is not None:
        return _classes[0](None, None, Recipe(form, build, operands, seen, size))
    node = build(*operands)
    return _classes[0](node, None, Recipe(new_form(whole_key, node), build, operands, seen, size))


def _place(data: Stored, seen: list[Stored]) -> tuple[int, int]:
    """Stands for a tensor that was seen before: which, and where it is met again."""
    return seen.index(data), len(seen)


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


def read(tensor: Base, at: Exprs, shape: Shape) -> ir.Expr:
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


def one_axis(axis: object, rank: int, name: str) -> int:
    """A checked axis number, negative ones counted from the end."""
    k = whole(axis, f"{name}: axis")
    if not -rank <= k < rank:
        raise IndexError_(
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
    return found
