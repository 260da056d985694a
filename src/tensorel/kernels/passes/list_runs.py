"""Runs of a coordinate list whose end need not be known before they are gone through.

A row's entries end where its coordinate does. To look for that end first takes two loops over each
row, and the processor guesses twice how long it is. Where the row is used by one loop over its
entries alone, this loop looks itself."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.ir.build import plus
from tensorel.ir.nodes import Expr, Local, postorder
from tensorel.kernels.loopir.queries import depth, expressions, is_indirect, statements
from tensorel.kernels.loopir.statements import Assign, Break, Continue, For, Stmt, While


def one_pass(body: tuple[Stmt, ...], q: Local, end: Local, more: Callable[[Local], Expr]
             ) -> tuple[Stmt, ...] | None:
    """``body``, which goes through the run from q to ``end``, without ``end``, and q moved behind
    the run; ``more(at)``: the run has an entry there. None where something else asks for the end,
    or the loop is better off with it: loops that read in order become vectors."""
    uses = [s for s in statements(body) for e in postorder(*expressions(s)) if e is end]
    if len(uses) != 1 or uses[0] not in body:
        return None
    loop = uses[0]
    if not isinstance(loop, For) or loop.hi is not end or loop.lo is not q or loop.checked \
            or depth(loop.body) or not is_indirect(loop.body) \
            or any(isinstance(s, Break | Continue) for s in loop.body):
        return None
    at, k = loop.target, body.index(loop)
    step = (*loop.body, Assign(at, plus(at, 1)))
    return (*body[:k], Assign(at, plus(q, 0)), While(more(at), step), *body[k + 1:],
            Assign(q, plus(at, 0)))
