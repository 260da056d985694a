"""Programs as flat lists of lines, for pickles and hashes.

A line is a node: its kind, what it is made of, and the numbers of the lines below it. Nothing is
nested, so that a program of any length is written and read without recursion; reading makes nodes
by calling their classes, which finds those that exist already."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorel.algebra.bulk import bulk_operator
from tensorel.algebra.ops import Operator, operator
from tensorel.ir.monoids import user_operator
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Index,
    Lambda,
    Local,
    Node,
    Read,
    Reduce,
    Source,
    Tensor,
    children,
    postorder,
)

Line = tuple[Any, ...]


def to_lines(root: Node, data: Callable[[Any], object] = lambda d: d) -> list[Line]:
    """The program, the root last; ``data`` gives what stands for the data of a source."""
    numbers: dict[Node, int] = {}
    found: list[Line] = []
    for node in postorder(root):
        below = tuple([numbers[k] for k in children(node)])
        numbers[node] = len(found)
        found.append((type(node).__name__, below, *_about(node, data)))
    return found


def _about(node: Node, data: Callable[[Any], object]) -> Line:
    """What a node is made of, in objects of their own."""
    match node:
        case Call():
            return (_written(node.op),)
        case Reduce():
            return _written(node.op), _pairs(node.axes)
        case Lambda():
            return (_pairs(node.axes),)
        case Const():
            return node.bits, node.dtype.str
        case Index():
            return (node.name,)
        case Local():
            return node.name, node.dtype.str
        case Bulk():
            return node.op.name, _fresh(node.params)
        case Source():
            fill = node.fill
            return data(node.data), list(node.shape), node.dtype.str, fill.bits, fill.dtype.str
    assert isinstance(node, Read), "programs of users hold no variables of kernels"
    return ()


def _written(op: Operator) -> object:
    """An operator: its name, or the content of a user's."""
    make, about = op.__reduce__()
    return about if make is user_operator else op.name


def _operator(about: Any) -> Operator:
    return operator(about) if isinstance(about, str) else user_operator(*about)


def _fresh(params: tuple[object, ...]) -> tuple[object, ...]:
    return tuple([_fresh(p) if type(p) is tuple else p for p in params])


def _pairs(axes: tuple[Axis, ...]) -> list[list[object]]:
    return [[a.name, a.extent] for a in axes]


def from_lines(lines: list[Line], data: Callable[[Any], object] = lambda d: d) -> Tensor:
    """The program that ``to_lines`` wrote."""
    root = _made(lines, data)
    assert isinstance(root, Tensor)
    return root


def _made(lines: list[Line], data: Callable[[Any], object] = lambda d: d) -> Any:
    made: list[Any] = []
    for kind, below, *about in lines:
        made.append(_MAKE[kind](tuple([made[k] for k in below]), *about, *(
            (data,) if kind == "Source" else ())))
    return made[-1]


def _axes(pairs: list[list[Any]]) -> tuple[Axis, ...]:
    return tuple([Axis(name, extent) for name, extent in pairs])


def _source(below: tuple[Any, ...], held: object, shape: list[int], dtype: str, bits: bytes,
            kind: str, data: Callable[[Any], object]) -> Source:
    return Source(data(held), tuple(shape), np.dtype(dtype), Const(bits, np.dtype(kind)))


_MAKE: dict[str, Callable[..., Node]] = {
    "Read": lambda below: Read(below[0], below[1:]),
    "Call": lambda below, op: Call(_operator(op), below),
    "Reduce": lambda below, op, axes: Reduce(_operator(op), _axes(axes), below[0]),
    "Lambda": lambda below, axes: Lambda(_axes(axes), below[0]),
    "Const": lambda below, bits, dtype: Const(bits, np.dtype(dtype)),
    "Index": lambda below, name: Index(name),
    "Local": lambda below, name, dtype: Local(name, np.dtype(dtype)),
    "Bulk": lambda below, op, params: Bulk(bulk_operator(op), below, params),
    "Source": _source,
}


def _pickled(node: Node) -> tuple[object, ...]:
    return _made, (to_lines(node),)


for _kind in (Read, Call, Reduce, Lambda, Const, Index, Local, Bulk, Source):
    copyreg.pickle(_kind, _pickled)  # type: ignore[arg-type]
