"""Logical passes: from nested definitions to one sum of products each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from tensorel import rules
from tensorel.ir.build import repeated
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Node,
    Read,
    Reduce,
    Source,
    Tensor,
    children,
    is_gather,
    postorder,
    reads_in,
)
from tensorel.ir.replacing import substitute, with_parts
from tensorel.plan.definitions import (
    Definition,
    Program,
    factors_of,
    inner_reductions,
    product,
    product_of,
    replace_exprs,
)
from tensorel.plan.logical.inlining import revisited
from tensorel.plan.logical.selections import push_selections
from tensorel.plan.logical.split_pieces import is_choice
from tensorel.rewrite.engine import Rewriter
from tensorel.rewrite.names import rename_bound

# -- simplify ----------------------------------------------------------------------------------


def simplify(program: Program) -> None:
    """Apply the active rules to every body."""
    rewriter = Rewriter(rules.active(), program.fire, strict=program.config.strict)
    program.map_bodies(lambda lam: rewriter.run(lam.body))


# -- split_definitions: Nested -> Flat ------------------------------------------------------------


def split_definitions(program: Program) -> None:
    """Give a definition of its own to what must be stored; inline the rest.

    Stored are: results, bulk operators and what they read, formulas with a reduction that are
    read from more than one place (common subexpressions), and formulas of a chain once they are
    deep or large: passes walk through bodies by recursion, longer kernels gain nothing, and what
    is read at two places by each next one would be computed twice as often each time; formulas
    over dense tensors that are read in windows."""
    pushed = push_selections([d.tensor for d in program.definitions])
    if pushed is not None:
        program.fire("push-selection: op(x)[rows] -> op(x[rows])")
        program.definitions = [
            d.rewritten(t)  # type: ignore[arg-type]
            for d, t in zip(program.definitions, pushed)]
    _Splitter(program).run()


#: Calls and reductions inside one another in a body: a product of a hundred matrices has 198.
MAX_DEPTH = 200
#: From this depth on, a formula with several readers is stored, and so is a body without a sum
#: that reads tensors at so many more places than one.
MIN_SHARED_DEPTH, MAX_FURTHER_READS = 20, 8


#: Reads that one choice by an index is made among: each is a loop of its own in the kernel.
MAX_CHOICE_READS = 64


class _Splitter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.depths: dict[Node, int] = {}
        self.sources: dict[Tensor, Source] = {}
        self.done: list[Definition] = []
        self.inlined: dict[Lambda, Expr] = {}
        self.renamed: dict[Lambda, Expr] = {}
        self.reads: dict[Tensor, int] = {}  # at different places
        self.readers = Counter[Tensor]()  # formulas that do
        self.revisited: set[Tensor] = set()  # formulas whose cells windows read many times
        self.counter = 0

    def run(self) -> None:
        roots = [d.tensor for d in self.program.definitions]
        for node in postorder(*roots):
            if isinstance(node, Read):
                self.reads[node.tensor] = self.reads.get(node.tensor, 0) + 1
            elif isinstance(node, Lambda):
                self.readers.update(node.body.reads)
                self.revisited.update(revisited(node))
        given: dict[Node, list[Definition]] = {}  # one tensor may be asked for in several formats
        for d in self.program.definitions:
            given.setdefault(d.tensor, []).append(d)
        for node in postorder(*roots):
            self.depths[node] = max([self.depths[c] for c in children(node)], default=0) \
                + (isinstance(node, (Call, Reduce)) or is_gather(node))
            if isinstance(node, Lambda):
                self.inlined[node] = self._narrow(node)
            if node in given:
                for d in given[node]:
                    self._define(node, d)  # type: ignore[arg-type]
            elif isinstance(node, Bulk) or (isinstance(node, Lambda) and (
                    self._is_long(node) or self._is_shared(node)
                    or node in self.revisited)):
                self._define(node, Definition(self.program.fresh(), node))
                self.depths[node] = 0
        named = {d.name: d for d in self.done}
        self.program.definitions = list(named.values())

    def _is_long(self, node: Lambda) -> bool:
        depth = self.depths[node]
        if depth <= MIN_SHARED_DEPTH or depth > MAX_DEPTH:
            return depth > MAX_DEPTH
        body = self.inlined[node]
        further = len(reads_in(body)) - len(body.reads)
        return self.readers[node] > 1 or (
            further > MAX_FURTHER_READS and not inner_reductions(body))

    def _narrow(self, node: Lambda) -> Expr:
        """The formula with those that it reads inlined; of pieces with too many reads, those that
        have several themselves are stored first."""
        body = self._flat(node.body)
        if is_choice(body) and len(reads_in(body)) > MAX_CHOICE_READS:
            for t in node.body.reads:
                if isinstance(t, Lambda) and t not in self.sources and len(
                        reads_in(self.inlined[t])) > 1:
                    self._define(t, Definition(self.program.fresh(), t))
            body = self._flat(node.body)
        return body

    def _is_shared(self, node: Lambda) -> bool:
        body = self.inlined[node]
        if is_choice(body):
            return False  # pieces, to be taken apart where they are used
        return self.reads.get(node, 0) > 1 and bool(inner_reductions(body))

    def _define(self, tensor: Tensor, given: Definition) -> None:
        fill = given.source().fill
        flat: Lambda | Bulk | Source
        match tensor:
            case Lambda():
                flat = Lambda(tensor.axes, self.inlined[tensor])
            case Bulk():
                args = tuple(self._stored(a) for a in tensor.args)
                flat = Bulk(tensor.op, args, tensor.params)
            case _:
                assert isinstance(tensor, Source)
                flat = tensor
        done = replace(given, tensor=flat, fill=fill, whole=given.ref.whole, origin=tensor)
        self.done.append(done)
        if not isinstance(tensor, Source):
            self.sources[tensor] = done.source()

    def _stored(self, tensor: Tensor) -> Source:
        if isinstance(tensor, Source):
            return tensor
        if tensor not in self.sources:
            assert isinstance(tensor, Lambda)
            self._define(tensor, Definition(self.program.fresh(), tensor))
        return self.sources[tensor]

    def _flat(self, body: Expr) -> Expr:
        """``body`` with reads of formulas replaced by the formulas; reductions get new names."""
        memo: dict[Expr, Expr] = {}

        def go(e: Expr) -> Expr:
            found = memo.get(e)
            if found is None:
                found = memo[e] = self._read(e.tensor, tuple(map(go, e.indices))) \
                    if isinstance(e, Read) else with_parts(e, go)
            return found

        return go(body)

    def _read(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        if tensor in self.sources:
            return Read(self.sources[tensor], indices)
        if isinstance(tensor, Source):
            return Read(tensor, indices)
        assert isinstance(tensor, Lambda), tensor
        return substitute(
            self._to_inline(tensor), {a.name: i for a, i in zip(tensor.axes, indices)})

    def _to_inline(self, tensor: Lambda) -> Expr:
        """The body with names of its own for what it binds, the same wherever it is inlined: that
        captures nothing, and a formula that is read at several places stays one expression."""
        found = self.renamed.get(tensor)
        if found is None:
            body = self._rename(tensor.body)
            found = self.renamed[tensor] = self.inlined[tensor] if body is tensor.body \
                else self._flat(body)
        return found

    def _rename(self, e: Expr) -> Expr:
        """New names for bound indices."""
        memo: dict[Expr, Expr] = {}

        def go(x: Expr) -> Expr:
            found = memo.get(x)
            if found is None:
                if isinstance(x, Reduce):
                    axes = []
                    for a in x.axes:
                        self.counter += 1
                        axes.append(Axis(f"k{self.counter}", a.extent))
                    body = substitute(go(x.body), {
                        old.name: Index(new.name) for old, new in zip(x.axes, axes)})
                    found = Reduce(x.op, tuple(axes), body)
                else:
                    found = with_parts(x, go)
                memo[x] = found
            return found

        return go(e)


# -- flatten_reductions: Flat -> SumProduct -------------------------------------------------------


def is_infinite(e: Node) -> bool:
    """A literal that is infinite or nan: inf * (2 - 1) is inf, inf*2 - inf*1 is nan."""
    return isinstance(e, Const) and e.dtype.kind in "fc" and not np.isfinite(e.value)


def flatten_reductions(program: Program) -> None:
    """Pull reductions out of products and merge nested ones.

    a * sum_k b = sum_k a*b where * distributes over the monoid and no dtype changes on the way;
    sum_k sum_l b = sum_{k,l} b; sum_k b = repeat(b, n) where b does not mention k. A reduction that
    is used twice stays a value: pulled out of x*x it would be computed again for each k."""

    def flatten(lam: Lambda) -> Expr:
        body, fired = _flatten(lam.body)
        for name, times in fired.items():
            program.fire(name, times)
        return body

    program.map_bodies(flatten)


def _flatten(e: Expr) -> tuple[Expr, dict[str, int]]:
    fired: dict[str, int] = {}
    memo: dict[Expr, Expr] = {}
    kept: set[Expr] = set()

    def fire(name: str) -> None:
        fired[name] = fired.get(name, 0) + 1

    def go(x: Expr) -> Expr:
        found = memo.get(x)
        if found is None:
            match x:
                case Call():
                    found = pull(Call(x.op, tuple([go(a) for a in x.args])))
                case Reduce():
                    found = merge(Reduce(x.op, x.axes, go(x.body)))
                case _:
                    found = x
            memo[x] = found
            if x in again:
                kept.add(found)
        return found

    def pull(x: Call) -> Expr:
        """op(a, reduce(m, k, b)) -> reduce(m, k, op(a, b))"""
        if len(x.args) != 2 or not x.op.commutative:
            return x
        for k, arg in enumerate(x.args):
            if (
                isinstance(arg, Reduce) and arg not in kept and x.op.distributes(arg.op, x.dtype)
                and all(a.extent for a in arg.axes) and arg.dtype == x.dtype
                and all(a.dtype == x.dtype for a in x.args)
                and not any(a.name in x.args[1 - k].free for a in arg.axes)
                and not is_infinite(x.args[1 - k])
            ):
                fire("pull-reduction: a*sum(b) -> sum(a*b)")
                other = x.args[1 - k]
                inner = (arg.body, other) if k == 0 else (other, arg.body)
                return merge(Reduce(arg.op, arg.axes, pull_again(Call(x.op, inner))))
        return x

    def pull_again(x: Expr) -> Expr:
        return pull(x) if isinstance(x, Call) else x

    def merge(x: Reduce) -> Expr:
        body = x.body
        if isinstance(body, Reduce) and body.op is x.op and not (
                {a.name for a in x.axes} & {a.name for a in body.axes}):  # else one hides the other
            fire("merge-reductions: sum(i, sum(j, e)) -> sum(i, j, e)")
            return Reduce(x.op, x.axes + body.axes, body.body)
        return x

    if len(inner_reductions(e.body if isinstance(e, Reduce) else e)) > 1:
        e = rename_bound(e)  # equal ones become one
    again = _used_again(e)
    return go(e), fired


def _used_again(e: Expr) -> set[Expr]:
    """The reductions that stand in several places."""
    once: set[Expr] = set()
    again: set[Expr] = set()
    for x in postorder(e):
        below = x.args if isinstance(x, Call) else (x.body,) if isinstance(x, Reduce) else ()
        for y in below:
            if isinstance(y, Reduce):
                (again if y in once else once).add(y)
    return again


# -- drop_unused_indices ------------------------------------------------------------------------


def repeat_constants(program: Program) -> None:
    """sum over an index that the body does not mention: n copies of the body, combined at once."""

    def change(lam: Lambda) -> Expr:
        table: dict[Expr, Expr] = {}
        for r in inner_reductions(lam.body):
            unused = [a for a in r.axes if a.name not in r.body.free]
            if not unused or any(a.extent == 0 for a in r.axes):
                continue
            value: Expr = Reduce(r.op, tuple(a for a in r.axes if a not in unused), r.body)
            if value.axes == ():  # type: ignore[attr-defined]
                value = r.body
            copies = repeated(r.op, value, product_of(tuple(unused)))
            if copies is not None:
                table[r] = copies
                program.fire("repeat: sum(k in n, e) -> n*e, k not in e")
        return replace_exprs(lam.body, table) if table else lam.body

    program.map_bodies(change)


__all__ = ["factors_of", "flatten_reductions", "product", "repeat_constants", "split_definitions"]
