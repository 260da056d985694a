"""From the tree to the calculus: each name stands for a thing, each comprehension for choices."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from tensorel.algebra import ops
from tensorel.comprehension import syntax as s
from tensorel.comprehension.functions import MONOIDS
from tensorel.comprehension.operators import (
    binary,
    choice,
    function,
    is_whole,
    negated,
    number,
    widened,
)
from tensorel.comprehension.scopes import AFTER_GROUP, MEMBERS, Scope
from tensorel.comprehension.things import (
    Array,
    Bag,
    Env,
    Group,
    Later,
    Span,
    Thing,
    kind_of,
    scalars_in,
)
from tensorel.comprehension.writing import Writer
from tensorel.errors import TensorelError
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, both, compare, convert, minus
from tensorel.ir.ranges import is_affine
from tensorel.language.builder import Builder
from tensorel.language.choices import (
    Choices,
    counted,
    reduced,
)
from tensorel.language.scalars import arithmetic, call, truth


class Lowering:
    """One program over the things that names stand for. ``writer``: how lists become tensors.
    ``strict``: an entry that equals the fill meets nothing, not even nan and inf."""

    def __init__(self, builder: Builder, writer: Writer, strict: bool = False) -> None:
        self.strict = strict
        self.build = builder
        self.indices = builder.indices
        self.writer = writer

    def fail(self, message: str, at: int, hint: str | None = None) -> NoReturn:
        self.build.fail(message, at, hint)

    # -- expressions -------------------------------------------------------------------------
    def of(self, e: s.Expr, env: Env) -> Thing:
        """What an expression says."""
        match e:
            case s.Number():
                value = np.bool_(e.value) if isinstance(e.value, (bool, np.bool_)) else e.value
                return ir.const(value, ir.INT64 if type(value) is int else None)
            case s.Name():
                if e.name not in env:
                    self.fail(f"{e.name!r} is not known", e.at,
                              "tensors and numbers are given by name; generators bind the others")
                found = env[e.name]
                scalar = isinstance(found, Array) and not found.node.shape
                return widened(ir.Read(found.node, ())) if scalar else found  # type: ignore[union-attr]
            case s.Tuple():
                return tuple([self.of(x, env) for x in e.items])
            case s.Range():
                return Span(self.whole(e.low, env), self.whole(e.high, env))
            case s.Comprehension():
                return Later(e, env)
            case s.Aggregate():
                return self.aggregate(e, env)
            case s.Access():
                return self.access(e, env)
            case s.Stored():
                return self.stored(e, env)
            case s.If():
                return self.chosen(e, self.scalar(e.test, env),
                                   self.of(e.then, env), self.of(e.otherwise, env))
        return self.checked(e, env)

    def checked(self, e: s.Expr, env: Env) -> ir.Expr:
        """An operator, which may refuse the dtypes."""
        try:
            match e:
                case s.Unary():
                    arg = self.scalar(e.arg, env)
                    return call(ops.logical_not, truth(arg)) if e.op == "!" else negated(arg)
                case s.Binary():
                    return binary(e.op, self.scalar(e.left, env), self.scalar(e.right, env))
                case s.Call():
                    return function(e.function, [self.scalar(a, env) for a in e.args])
        except (TensorelError, OverflowError) as error:
            if type(error).__name__ == "ParseError":
                raise
            self.fail(str(error), e.at)
        raise TypeError(type(e).__name__)

    def scalar(self, e: s.Expr, env: Env) -> ir.Expr:
        """The number that an expression says."""
        found = self.of(e, env)
        if not isinstance(found, ir.Expr):
            hint = AFTER_GROUP if isinstance(found, Bag) else (
                "draw its entries with a generator, or read a cell: V[i]"
                if isinstance(found, Array) else None)
            self.fail(f"a number is needed here, not {kind_of(found)}", e.at, hint)
        return found

    def whole(self, e: s.Expr, env: Env) -> ir.Expr:
        """A whole number."""
        found = self.scalar(e, env)
        if not is_whole(found):
            self.fail(f"a whole number is needed here, not one of dtype {found.dtype.name}", e.at,
                      "int(x) makes one")
        return number(found)

    def extent(self, e: s.Expr, env: Env) -> int:
        """A number that is known now."""
        found = self.whole(e, env)
        if not isinstance(found, ir.Const):
            self.fail("an extent is known before the program runs", e.at,
                      "give it as a number")
        size = int(found.value)
        if not 0 <= size < 2**62:
            self.fail(f"{size} is no extent", e.at)
        return size

    def chosen(self, e: s.Expr, test: ir.Expr, then: Thing, otherwise: Thing) -> Thing:
        if isinstance(then, tuple) and isinstance(otherwise, tuple) and len(then) == len(otherwise):
            return tuple([self.chosen(e, test, a, b) for a, b in zip(then, otherwise)])
        if not (isinstance(then, ir.Expr) and isinstance(otherwise, ir.Expr)):
            self.fail(f"a choice between {kind_of(then)} and {kind_of(otherwise)}", e.at)
        return choice(test, then, otherwise)

    def access(self, e: s.Access, env: Env) -> ir.Expr:
        """A cell, 0 outside of the shape."""
        target = self.of(e.target, env)
        if not isinstance(target, Array):
            self.fail(f"only tensors have cells, and this is {kind_of(target)}", e.at)
        shape = target.node.shape
        keys = [self.whole(k, env) for k in e.keys]
        if len(keys) != len(shape):
            self.fail(f"{target.name or 'the tensor'} has {len(shape)} axes, not {len(keys)}", e.at)
        inside: list[ir.Expr] = []
        for k, (key, n) in enumerate(zip(keys, shape)):
            tests = self.indices.inside(key, 0, n - 1)
            inside += tests
            if tests and is_affine(key) is None:
                keys[k] = call(ops.minimum, call(ops.maximum, key, as_expr(0)),
                               as_expr(max(n - 1, 0)))
        test = both(*inside)
        if 0 in shape:
            return widened(ir.const(0, target.node.dtype))
        entry = widened(ir.Read(target.node, tuple(keys)))
        if test is None or entry.dtype == ir.BOOL:
            return entry if test is None else call(ops.logical_and, test, entry)
        return choice(test, entry, ir.const(0, entry.dtype))

    def stored(self, e: s.Stored, env: Env) -> Array:
        """A list of keys and values as a tensor."""
        body = self.of(e.body, env)
        if isinstance(body, Array):
            rank = len(body.node.shape)
            names = tuple([s.Bind(f"k{d}") for d in range(rank)])
            key: s.AnyPattern = names[0] if rank == 1 else s.Pattern(names)
            whole = s.Pattern((key, s.Bind("v")))
            made = s.Comprehension(s.as_expr(whole), (s.Draw(whole, s.Name("_"), at=e.at),), e.at)
            body = Later(made, {"_": body})
        if not isinstance(body, Later):
            self.fail(f"a tensor is made of a list of keys and values, not of {kind_of(body)}",
                      e.at, "tensor(n)()[ (i, v) | (i, v) <- V ]")
        choices, inner = self.choose(body.made, body.env)
        head = self.of(body.made.head, inner)
        at = body.made.head.at
        if not isinstance(head, tuple) or len(head) != 2:
            self.fail(f"the head is a pair of key and value, not {kind_of(head)}", at)
        keys = []
        for k in scalars_in(head[0]):
            if not isinstance(k, ir.Expr) or not is_whole(k):
                found = kind_of(k) if not isinstance(k, ir.Expr) else k.dtype.name
                self.fail(f"a key is made of whole numbers, not of {found}", at,
                          AFTER_GROUP if isinstance(k, Bag) else None)
            keys.append(number(k))
        value = head[1]
        if not isinstance(value, ir.Expr):
            self.fail(f"a cell holds a number, not {kind_of(value)}", at,
                      AFTER_GROUP if isinstance(value, Bag) else None)
        sizes = [self.extent(d, env) for d in (*e.dense, *e.sparse)]
        # The parameters of a type map are the extents if there are as many; else the keys tell.
        shape = None if e.inferred or (e.mapping and len(sizes) != len(keys)) else sizes
        if shape is not None and len(shape) != len(keys):
            self.fail(f"keys have {len(keys)} parts, the tensor has {len(shape)} axes", at)
        node = self.writer.written(self.build, choices, keys, value, shape, at)
        return Array(node, ir.const(0, node.dtype))

    # -- lists -------------------------------------------------------------------------------
    def aggregate(self, e: s.Aggregate, env: Env) -> ir.Expr:
        """A monoid over a list, or over the members of a group."""
        body = e.body
        lifted = {n: b for n in sorted(s.free(body))
                  if isinstance(b := env.get(n), Bag)}
        members = env.get(MEMBERS)
        if isinstance(body, (s.Comprehension, s.Range)) or not lifted:
            made = self.of(body, env)
            if isinstance(made, ir.Expr) and isinstance(members, Bag):
                return self.combined(e, members.group, made)
            if isinstance(made, Span):
                draw = s.Draw(s.Bind("k"), s.Name("_"), at=body.at)
                made = Later(s.Comprehension(s.Name("k"), (draw,), body.at), {"_": made})
            if not isinstance(made, Later):
                self.fail(f"an aggregation is over a list or what a group has lifted, not over "
                          f"{kind_of(made)}", e.at, "+/[ v | (i, v) <- V ]")
            choices, inner = self.choose(made.made, made.env)
            group = Group(choices)
            return self.combined(e, group, self.scalar(made.made.head, inner))
        groups = {id(b.group): b.group for b in lifted.values()}
        if len(groups) > 1:
            self.fail("the names here are of members of two groups", e.at)
        (group,) = groups.values()
        member = {**env, **{n: b.thing for n, b in lifted.items()}}
        if isinstance(members, Bag):
            member[MEMBERS] = members.thing
        return self.combined(e, group, self.scalar(body, member))

    def combined(self, e: s.Aggregate, group: Group, value: ir.Expr) -> ir.Expr:
        """The aggregate of one value for each member, made once for a group."""
        if e.monoid == "count":
            value = ir.const(1, ir.INT64)
        key = e.monoid, value
        if key not in group.found:
            group.found[key] = self._combined(e, group, value)
        return group.found[key]

    def _combined(self, e: s.Aggregate, group: Group, value: ir.Expr) -> ir.Expr:
        match e.monoid:
            case "avg":
                value = value if value.dtype.kind in "fc" else convert(value, ops.FLOAT64)
                whole = self.combined(s.Aggregate("+", e.body, e.at), group, value)
                count = self.combined(s.Aggregate("count", e.body, e.at), group, value)
                return arithmetic(ops.divide, whole, convert(count, value.dtype))
            case "last":
                return self._last(group, value)
            case "count":
                found = counted(self.build, group.members)
                group.absent[found] = ir.const(0, ir.INT64)
                return found
        op = MONOIDS[e.monoid]
        assert op is not None
        value = truth(value) if e.monoid in ("&&", "||") else number(value)
        if value.dtype.kind == "c" and e.monoid in ("min", "max"):
            self.fail("complex numbers have no order", e.at)
        found = reduced(self.build, group.members, op, value)
        assert op.identity is not None
        if not isinstance(found, ir.Const):
            group.absent[found] = ir.const(op.identity(value.dtype), value.dtype)
        return found

    def _last(self, group: Group, value: ir.Expr) -> ir.Expr:
        """The value of the last member in the order of the generators: the only one where the
        first index is largest, of these the second, and so on."""
        members = group.members
        for n in members.over:
            low = self.indices.bounds[n][0]
            largest = reduced(self.build, members, ops.maximum, minus(ir.Index(n), low))
            members = members.tested(compare(ops.equal, minus(ir.Index(n), low), largest))
        op = ops.logical_or if value.dtype == ir.BOOL else ops.add
        found = reduced(self.build, members, op, value)
        if not isinstance(found, ir.Const):
            group.absent[found] = ir.const(0, value.dtype)
        return found

    # -- qualifiers --------------------------------------------------------------------------
    def choose(self, made: s.Comprehension, env: Env) -> tuple[Choices, Env]:
        """All choices of a comprehension, and what names stand for in one of them."""
        scope = Scope(self, env)
        for q in made.qualifiers:
            match q:
                case s.Draw():
                    scope.draw(q)
                case s.Let():
                    scope.match(q.pattern, self.of(q.value, scope.env), False)
                case s.Test():
                    scope.choices = scope.choices.tested(self.scalar(q.condition, scope.env))
                case s.Group():
                    scope.group(q)
        return scope.choices, scope.env
