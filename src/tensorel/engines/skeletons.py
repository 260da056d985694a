"""Formulas of nodes: the node with its operands and numbers replaced by places.

Functions of the front end that make a node and declare no formula get theirs from it. So a node
that differs from an earlier one only by its operands and numbers needs no plan of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tensorel.engines.formulas import kind_of
from tensorel.engines.programs import MAX_FUNCTIONS, Program, formula, program_of
from tensorel.ir.nodes import Call, Const, Expr, Lambda, Local, Read, Reduce, Source, Tensor, const
from tensorel.storage.labelling import axes_of


def program_like(node: Tensor) -> Program:
    """A program that computes the node: a formula over what the node reads, where it is short."""
    if type(node) is not Lambda or not 0 < len(node.body.reads) <= MAX_FUNCTIONS:
        return Program(node)
    tensors, numbers = node.body.reads, dict[Const, Expr]()

    def number(c: Expr) -> Expr:
        if type(c) is not Const or kind_of(c) is c:
            return c
        found = numbers.get(c)
        if found is None:
            found = numbers[c] = Local(f"#{len(numbers)}", c.dtype)
        return found

    places = {t: _place(k, t) for k, t in enumerate(tensors)}
    skeleton = Lambda(node.axes, _mapped(node.body, places.__getitem__, number))
    values = tuple([c for c in numbers if type(c) is Const])
    made = formula((skeleton,), partial(_filled, skeleton), tuple(map(program_of, tensors)), values)
    made.is_written_as(node)
    made.is_labelled = made.is_labelled or axes_of(node) is not None
    return made


def _place(k: int, t: Tensor) -> Source:
    return Source(k, t.shape, t.dtype, const(0, t.dtype))


def _filled(skeleton: Lambda, *given: Program | Const) -> Tensor:
    """The node whose operands and numbers these are."""
    tensors = [q.node for q in given if isinstance(q, Program)]
    numbers = [c for c in given if isinstance(c, Const)]

    def tensor(place: Tensor) -> Tensor:
        assert isinstance(place, Source) and isinstance(place.data, int)
        return tensors[place.data]

    def number(e: Expr) -> Expr:
        return numbers[int(e.name[1:])] if isinstance(e, Local) else e

    return Lambda(skeleton.axes, _mapped(skeleton.body, tensor, number))


def _mapped(body: Expr, tensor: Callable[[Tensor], Tensor], leaf: Callable[[Expr], Expr]) -> Expr:
    """An expression with others for its tensors and for what has nothing below."""
    memo: dict[Expr, Expr] = {}

    def go(e: Expr) -> Expr:
        found = memo.get(e)
        if found is None:
            match e:
                case Read():
                    found = Read(tensor(e.tensor), every(e.indices))
                case Call():
                    found = Call(e.op, every(e.args))
                case Reduce():
                    found = Reduce(e.op, e.axes, go(e.body))
                case _:
                    found = leaf(e)
            memo[e] = found
        return found

    def every(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([go(e) for e in exprs])

    return go(body)
