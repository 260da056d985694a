"""Kernels that users name: operators, products, einsum texts, functions of lazy tensors or of NumPy
arrays. What is a program of the calculus runs on stored blocks, so that sparse ones stay sparse."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from tensorel import config as settings
from tensorel.algebra import ops
from tensorel.blocks.relations.kernels import Kernel, Outline
from tensorel.blocks.relations.tiles import Shape, constant, is_same
from tensorel.engines.annihilation import is_finite
from tensorel.engines.evaluation import evaluate
from tensorel.engines.programs import Program
from tensorel.errors import NonFiniteWarning, ShapeError, TypeError_, ValueError_
from tensorel.front.array.base import Base, as_shape, from_stored, indices
from tensorel.front.array.convert import asarray
from tensorel.front.array.tensor import Tensor
from tensorel.front.functions import diagonals, elementwise, products, shaping
from tensorel.front.functions.einsum import einsum, find_operator, parse
from tensorel.ir import analysis
from tensorel.ir import nodes as ir
from tensorel.storage import convert as storage
from tensorel.storage.stored import Stored

Function = Callable[..., Any]
#: Kernels by name beside the operators.
_UNARY: dict[str, Function] = {
    "diag": diagonals.diag, "diagonal": shaping.diagonal, "trace": shaping.trace,
    "transpose": shaping.transpose, "matrix_transpose": shaping.matrix_transpose,
    "ravel": shaping.ravel, "tril": diagonals.tril, "triu": diagonals.triu,
}
_BINARY: dict[str, Function] = {
    "matmul": products.matmul, "dot": products.dot, "inner": products.inner,
    "outer": products.outer, "kron": products.kron, "tensordot": products.tensordot,
    "vecdot": products.vecdot,
}


def as_kernel(given: object, arity: int, dtype: object = None, shape: object = None) -> Kernel:
    """The kernel that a name, an einsum text, an operator or a function means. ``dtype`` and
    ``shape`` declare the result of a function of NumPy arrays."""
    if isinstance(given, str):
        if "->" in given or "," in given:
            return _of_einsum(given, arity)
        return _of_name(given, arity)
    found = find_operator(given)
    if found is not None and found.arity == arity:
        return _of_operator(found)
    if not callable(given):
        raise TypeError_(f"{given!r} is no kernel",
                         hint="a kernel is a name such as 'matmul', an einsum text, or a function")
    return _Function(given, None if dtype is None else ops.check_dtype(dtype),
                     None if shape is None else as_shape(shape, "kernel: shape"), arity).kernel


def _of_name(name: str, arity: int) -> Kernel:
    table = _UNARY if arity == 1 else _BINARY
    if name in table:
        return _of_program(name, arity, table[name])
    op = find_operator(name)
    if op is not None and op.arity == arity:
        return _of_operator(op)
    known = sorted({*table, *[o.name for o in ops.operators() if o.arity == arity]})
    near = difflib.get_close_matches(name.lower(), known, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError_(
        f"there is no kernel {name!r} of {arity} block{'s' if arity > 1 else ''}",
        hint=f"{guess}kernels are {', '.join(sorted(table))}, the operators by their names, an "
        "einsum text such as 'ij,jk->ik', or a function")


def _of_einsum(text: str, arity: int) -> Kernel:
    terms = len(parse(text).inputs)
    if terms != arity:
        raise ValueError_(f"kernel {text!r} has {terms} terms for {arity} "
                          f"block{'s' if arity > 1 else ''}", hint="one term for each block")
    return _of_program(text, arity, lambda *given: einsum(text, *given))


def _of_operator(op: ops.Operator) -> Kernel:
    def function(*given: Tensor) -> Tensor:
        return elementwise.unary(op, *given) if op.arity == 1 else elementwise.binary(op, *given)

    return _of_program(op.name, op.arity, function, lambda *outlines: op)


def _of_program(name: str, arity: int, function: Function,
                operator: Callable[..., ops.Operator | None] | None = None) -> Kernel:
    """The kernel of a function of lazy tensors."""

    def run(*given: Stored) -> Stored:
        # Of the program alone: nobody will ask for the result again who does not hold it.
        program = _program(function, given)
        return program.data or evaluate([program], settings.current(), [None])[0]

    def outline(*given: Outline) -> Outline:
        if all(o.constant is not None for o in given):
            return outline_of(run(*[constant(o.shape, o.dtype, o.constant) for o in given]))
        node = sketched(function, given)
        return Outline(node.shape, node.dtype, _decided(node))

    def entrywise(*given: Outline) -> ops.Operator | None:
        return _entrywise(sketched(function, given))

    return Kernel(name, arity, run, outline, operator or entrywise, _warn_of_unread)


def _warn_of_unread(given: Sequence[Stored]) -> None:
    """Say so if there is nan or inf in blocks that are multiplied with absent ones."""
    if not all(map(is_finite, given)):
        warnings.warn(
            "a relation holds nan or inf and is multiplied with absent blocks: they annihilate it, "
            "where NumPy has nan; strict=True computes as NumPy does", NonFiniteWarning,
            stacklevel=2)


def _program(function: Function, given: Sequence[Stored]) -> Program:
    return asarray(function(*map(from_stored, given))).program


class _Sketch:
    """Stands for the data of a block of which only the outline is known. ``whole``: every entry is
    stored."""

    __slots__ = ("whole",)

    def __init__(self, whole: bool) -> None:
        self.whole = whole


def sketched(function: Function, given: Iterable[Outline]) -> ir.Tensor:
    """The program that a function of lazy tensors makes of blocks without their entries."""
    sources = [ir.Source(_Sketch(o.constant is None), o.shape, o.dtype,
                         ir.const(0 if o.constant is None else o.constant, o.dtype))
               for o in given]
    found = function(*map(Tensor, sources))
    if not isinstance(found, Base):
        raise TypeError_(f"a kernel gave {type(found).__name__}, which is no tensor")
    return found.node


def _decided(node: ir.Tensor) -> np.generic | None:
    """The value of all entries, whatever is stored, if absent operands make it one value. As in all
    programs what is not stored annihilates, a literal does not; strict programs do without."""
    found: dict[ir.Node, ir.Const | None] = {}
    for n in ir.postorder(node):
        match n:
            case ir.Const():
                value: ir.Const | None = n
            case ir.Source():
                value = None if getattr(n.data, "whole", True) else n.fill
            case ir.Read():
                value = found[n.tensor]
            case ir.Lambda():
                value = found[n.body]
            case ir.Reduce():
                value = _folded(n, found[n.body])
            case ir.Call():
                value = _called(n, [found[a] for a in n.args])
            case _:
                value = None
        found[n] = value
    last = None if settings.current().strict else found[node]
    return None if last is None else last.value


def _folded(node: ir.Reduce, body: ir.Const | None) -> ir.Const | None:
    if body is None:
        return None
    count = prod([a.extent for a in node.axes])
    return ir.const(analysis.repeat(node.op, body.value, count), node.dtype)


def _called(node: ir.Call, args: list[ir.Const | None]) -> ir.Const | None:
    laws = node.op.annihilators
    for given, arg, zero in zip(node.args, args, laws):
        if arg is not None and None not in laws and not isinstance(given, ir.Const) \
                and arg.value == zero:
            return ir.const(next(z for z in laws if z is not None), node.dtype)
    values = [a.value for a in args if a is not None]
    if len(values) < len(args):
        return None
    try:
        return ir.const(analysis.apply(node.op, *values), node.dtype)
    except (ValueError, TypeError_):  # NumPy refuses, e.g. integers to negative powers
        return None


def _entrywise(node: ir.Tensor) -> ops.Operator | None:
    """The operator of two blocks that a program is, if it is nothing else."""
    if not isinstance(node, ir.Lambda) or not isinstance(node.body, ir.Call):
        return None
    at, args = indices(len(node.shape)), node.body.args
    own = len(args) == 2 and all(
        isinstance(a, ir.Read) and isinstance(a.tensor, ir.Source) and a.indices == at
        for a in args)
    return node.body.op if own and args[0] is not args[1] else None


def outline_of(stored: Stored) -> Outline:
    """The outline of a block that is there."""
    value: np.generic | None = None
    if not stored.format.is_dense:
        value = stored.fill if stored.count == 0 else None
    else:
        view = storage.to_dense(stored)
        first = view.reshape(-1)[0] if view.size else stored.fill
        if not view.size or all(is_same(v, first) for v in np.unique(view)):
            value = first
    return Outline(stored.shape, stored.dtype, value)


class _Function:
    """A user's function as a kernel: of lazy tensors if it gives one for sketches of the first
    blocks, else of NumPy arrays."""

    def __init__(self, function: Function, dtype: ops.DType | None, shape: Shape | None,
                 arity: int) -> None:
        self.function, self.dtype, self.shape = function, dtype, shape
        self.name = getattr(function, "__name__", type(function).__name__)
        self.kernel = Kernel(self.name, arity, self.run, self.outline, self.operator,
                             _warn_of_unread)
        self._program: Kernel | None = None
        self._is_tried = dtype is not None or shape is not None

    def program(self, *given: Outline) -> Kernel | None:
        """The kernel of lazy tensors that it is."""
        if not self._is_tried:
            self._is_tried = True
            try:
                sketched(self.function, [Outline(o.shape, o.dtype) for o in given])
            except Exception:  # whatever a function of arrays does with what is none
                return None
            self._program = _of_program(self.name, len(given), self.function)
        return self._program

    def run(self, *given: Stored) -> Stored:
        program = self.program(*[Outline(s.shape, s.dtype) for s in given])
        if program is not None:
            return program.run(*given)
        found = np.array(self.function(*[np.array(storage.to_dense(s)) for s in given]))
        if self.dtype is not None and found.dtype != self.dtype:
            if not np.can_cast(found.dtype, self.dtype, "same_kind"):
                raise TypeError_(f"kernel {self.name!r} gave dtype {found.dtype}; declared is "
                                 f"{self.dtype}", hint="dtype= says what the function gives")
            found = found.astype(self.dtype)
        if self.shape is not None and found.shape != self.shape:
            raise ShapeError(f"kernel {self.name!r} gave shape {found.shape}; declared is "
                             f"{self.shape}", hint="shape= says what the function gives")
        return storage.from_dense(found, 0)

    def outline(self, *given: Outline) -> Outline | None:
        program = self.program(*given)
        if program is not None:
            return program.outline(*given)
        if all(o.constant is not None for o in given):
            return outline_of(self.run(*[constant(o.shape, o.dtype, o.constant) for o in given]))
        if self.dtype is not None and self.shape is not None:
            return Outline(self.shape, self.dtype)
        return None

    def operator(self, *given: Outline) -> ops.Operator | None:
        program = self.program(*given)
        return None if program is None else program.operator(*given)
