"""The rule table, exported to egglog, reaches the same equalities as our engine.

Patterns become egglog patterns; right-hand sides are what the rules' own builders make of
variables. Operators that a pattern leaves open are filled in from a fixed list, literals from a
few numbers, each kept where the rule's guard holds. What a guard asks of free indices becomes a
condition ``lacks(a, i)``, which egglog derives by itself. Everything is float64 and nothing is
known of values. Reductions are over one index at a time here; ``merge`` becomes an exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from rewrite_support import equal, sources

import tensorel as tr
from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Const, Expr, Index, Read, Reduce, const
from tensorel.ir.parser import parse
from tensorel.rewrite.egraph import EGraph as OurGraph
from tensorel.rewrite.engine import Given, Lit, Match, Op, Pattern, Red, Rule, Var
from tensorel.rewrite.facts import Handle
from tensorel.rewrite.saturate import Limits, saturate

egg = pytest.importorskip("egglog")

D = np.dtype("float64")
NAMES = sources("float64")
RULES = tr.rules.active("simplify", "explore")
OPERATORS = (ops.add, ops.subtract, ops.multiply, ops.negative, ops.square, ops.minimum,
             ops.maximum, ops.divide, ops.exp)
NUMBERS = tuple(const(v) for v in (1.0, 2.0, -1.0, 0.0, 4.0))
EXTENT = 4
ROW, COLUMN = Axis("i", EXTENT), Axis("j", EXTENT)

EQUAL = [
    # STOREL: factorization of sum(MMM), BATAX, MTTKRP; A2, D1-D3
    ("sum(i in 4) sum(j in 4) sum(k in 4) A[i, k] * B[k, j]",
     "sum(k in 4) (sum(i in 4) A[i, k]) * (sum(j in 4) B[k, j])"),
    ("sum(k in 4) sum(l in 4) A[k, j] * (A[k, l] * u[l])",
     "sum(k in 4) A[k, j] * (sum(l in 4) A[k, l] * u[l])"),
    ("sum(k in 4) sum(l in 4) A[i, k] * (B[k, l] * C[l, j])",
     "sum(l in 4) (sum(k in 4) A[i, k] * B[k, l]) * C[l, j]"),
    ("u[i] * (v[i] * w[i])", "(u[i] * v[i]) * w[i]"),
    ("u[i] * v[i] + u[i] * w[i]", "u[i] * (v[i] + w[i])"),
    ("sum(k in 4) u[i] * v[k]", "u[i] * (sum(k in 4) v[k])"),
    # MatRel: eqs. 1-8 over sums, rows, columns
    ("sum(k in 4) A[i, k] + B[i, k]", "(sum(k in 4) A[i, k]) + (sum(k in 4) B[i, k])"),
    ("sum(k in 4) 2.0 * A[i, k]", "2.0 * (sum(k in 4) A[i, k])"),
    ("sum(k in 4) A[i, k] + 2.0", "(sum(k in 4) A[i, k]) + 2.0 * 4.0"),
    ("sum(j in 4) sum(k in 4) A[i, k] * B[k, j]", "sum(k in 4) A[i, k] * (sum(j in 4) B[k, j])"),
    ("sum(k in 4) sum(j in 4) A[j, k]", "sum(j in 4) sum(k in 4) A[j, k]"),
    ("max(k in 4) 2.0 + A[i, k]", "2.0 + (max(k in 4) A[i, k])"),
    # SystemDS: X - Y*X, A@B + A@C, sums of differences
    ("u[i] - v[i] * u[i]", "u[i] * (1.0 - v[i])"),
    ("(sum(k in 4) A[i, k] * B[k, j]) + (sum(k in 4) A[i, k] * C[k, j])",
     "sum(k in 4) A[i, k] * (B[k, j] + C[k, j])"),
    ("sum(k in 4) u[k] - v[k]", "(sum(k in 4) u[k]) - (sum(k in 4) v[k])"),
    # sums of products
    ("square(u[i] - v[i])", "(u[i] * u[i] - 2.0 * (u[i] * v[i])) + v[i] * v[i]"),
    ("u[i] + u[i]", "u[i] * 2.0"),
    ("u[i] - v[i]", "u[i] + v[i] * -1.0"),
    ("-(u[i] * v[i])", "-u[i] * v[i]"),
    ("(u[i] + v[i]) / w[i]", "u[i] * (1.0 / w[i]) + v[i] / w[i]"),
    ("minimum(u[i], maximum(v[i], w[i]))", "maximum(minimum(u[i], v[i]), minimum(u[i], w[i]))"),
    ("u[i] + maximum(v[i], w[i])", "maximum(u[i] + v[i], w[i] + u[i])"),
]
UNEQUAL = [
    ("sum(k in 4) u[k] * v[k]", "(sum(k in 4) u[k]) * (sum(k in 4) v[k])"),
    ("sum(k in 4) A[i, k] + 2.0", "(sum(k in 4) A[i, k]) + 2.0"),  # MatRel eq. 4 as printed
    ("u[i] - u[i]", "0.0"),  # STOREL's e - e -> 0
    ("u[i] * 0.0", "0.0"),
    ("u[i] / u[i]", "1.0"),
    ("max(k in 4) u[i] * v[k]", "u[i] * (max(k in 4) v[k])"),
    ("maximum(u[i], minimum(u[i], v[i]))", "u[i]"),
    ("u[i] - v[i]", "v[i] - u[i]"),
    ("sum(k in 4) square(u[k])", "square(sum(k in 4) u[k])"),
    ("exp(u[i] + v[i])", "exp(u[i]) * v[i]"),
    ("u[i] * (v[i] + w[i])", "u[i] * v[i] + w[i]"),
    ("sum(k in 4) A[i, k] * B[k, j]", "sum(k in 4) B[i, k] * A[k, j]"),
]


# -- terms of egglog -----------------------------------------------------------------------------


class E(egg.Expr):  # type: ignore[misc,name-defined]
    """An expression of the calculus."""


@egg.function
def leaf(text: egg.StringLike) -> E: ...
@egg.function
def number(value: egg.f64Like) -> E: ...
@egg.function
def unary(op: egg.StringLike, a: E) -> E: ...
@egg.function
def binary(op: egg.StringLike, a: E, b: E) -> E: ...
@egg.function
def reduced(op: egg.StringLike, index: egg.StringLike, a: E) -> E: ...


lacks = egg.relation("lacks", E, egg.String)


def term(e: Expr, indices: dict[str, object], handles: dict[Expr, object]) -> object:
    """``e`` in egglog; indices and handles as variables where given."""
    match e:
        case Handle():
            return handles[e]
        case Const():
            return number(float(e.value))
        case Call(op, (a,)):
            return unary(op.name, term(a, indices, handles))
        case Call(op, (a, b)):
            return binary(op.name, term(a, indices, handles), term(b, indices, handles))
        case Reduce():
            found = term(e.body, indices, handles)
            for a in e.axes:
                found = reduced(e.op.name, indices.get(a.name, a.name), found)
            return found
        case _:
            return leaf(repr(e))


# -- the export ----------------------------------------------------------------------------------


def variables(p: Pattern, kind: type) -> list[str]:
    """Names of a kind in a pattern, in order."""
    match p:
        case Var(name) | Lit(name):
            return [name] if isinstance(p, kind) else []
        case Op(_, args):
            return list(dict.fromkeys(n for a in args for n in variables(a, kind)))
        case Red(_, _, body):
            return variables(body, kind)


def open_operators(p: Pattern) -> list[str]:
    below = p.args if isinstance(p, Op) else (p.body,) if isinstance(p, Red) else ()
    own = [p.op] if isinstance(p, (Op, Red)) and isinstance(p.op, str) else []
    return list(dict.fromkeys([*own, *(n for b in below for n in open_operators(b))]))


def axes_names(p: Pattern) -> list[str]:
    match p:
        case Red(_, axes, body):
            return [axes, *axes_names(body)]
        case Op(_, args):
            return [n for a in args for n in axes_names(a)]
        case _:
            return []


def instance(p: Pattern, m: Match) -> Expr | None:
    """The left side with everything filled in; None if the operators do not fit."""
    match p:
        case Var(name) | Lit(name):
            return m[name]  # type: ignore[return-value]
        case Op(op, args):
            f = m[op] if isinstance(op, str) else op
            kids = tuple(instance(a, m) for a in args)
            if f not in OPERATORS or not fits(p, f, m) or f.arity != len(args) or None in kids:
                return None
            return Call(f, kids)
        case Red(op, axes, body):
            f = m[op] if isinstance(op, str) else op
            inner = instance(body, m)
            if f not in OPERATORS or not fits(p, f, m) or not f.is_monoid or inner is None:
                return None
            return Reduce(f, m[axes], inner)  # type: ignore[arg-type]


def fits(p: Op | Red, f: ops.Operator, m: Match) -> bool:
    return (p.when is None or p.when(f)) and (p.under is None or p.under(m["root"], f))  # type: ignore[arg-type]


def matches(rule: Rule) -> Iterator[Match]:
    """Every way to fill the open operators, literals and axes of a rule."""
    p = rule.pattern
    names, literals, spans = open_operators(p), variables(p, Lit), axes_names(p)
    for chosen in product(OPERATORS, repeat=len(names)):
        for numbers in product(NUMBERS, repeat=len(literals)):
            for axes in product(((ROW,), (COLUMN,)), repeat=len(spans)):
                m: Match = {"given": Given(), "dtype": D, **dict(zip(names, chosen)),
                            **dict(zip(literals, numbers)), **dict(zip(spans, axes))}
                m["root"] = m[p.op] if isinstance(p.op, str) else p.op
                yield m


def exported(rule: Rule) -> Iterator[tuple[Expr, Expr, list[tuple[str, str]], Match]]:
    """(before, after, conditions that a name lacks an index) for each filling that holds; of the
    fillings that differ in free indices only the least conditions are kept."""
    names = variables(rule.pattern, Var)
    every = frozenset((ROW.name, COLUMN.name))
    for m in matches(rule):
        kept: list[set[tuple[str, str]]] = []
        used = {a.name for n in axes_names(rule.pattern) for a in m[n]}  # type: ignore[attr-defined]
        if used == {COLUMN.name}:
            continue  # the same as with i
        options = [(n, x) for n in names for x in sorted(used)]
        for flags in sorted(product((False, True), repeat=len(options)), key=sum):
            missing = {o for o, flag in zip(options, flags) if flag}
            if any(k <= missing for k in kept):
                continue
            full = dict(m)
            for k, n in enumerate(names):
                free = every - {x for name, x in missing if name == n}
                full[n] = Handle(k, D, free, frozenset())
            before = instance(rule.pattern, full)
            if before is None or before.dtype != D or not rule.when(full):
                continue
            after = rule.build(full)
            if after is None or after.dtype != D or after is before:
                continue
            kept.append(missing)
            yield before, after, sorted(missing), full


def ruleset() -> tuple[list[object], set[str]]:
    """All rules of the table in egglog, with commutativity and the analysis of free indices."""
    a, b = egg.vars_("a b", E)
    c, x = egg.var("c", E), egg.var("x", egg.f64)
    f, i, j = egg.vars_("f i j", egg.String)
    found: list[object] = [
        egg.rule(lacks(a, i), egg.eq(b).to(unary(f, a))).then(lacks(b, i)),
        egg.rule(lacks(a, i), lacks(b, i), egg.eq(c).to(binary(f, a, b))).then(lacks(c, i)),
        egg.rule(lacks(a, i), egg.eq(b).to(reduced(f, j, a))).then(lacks(b, i)),
        egg.rule(egg.eq(b).to(reduced(f, i, a))).then(lacks(b, i)),
        egg.rule(egg.eq(a).to(number(x)), egg.eq(b).to(reduced(f, i, c))).then(lacks(a, i)),
    ]
    found += [egg.rewrite(binary(op.name, a, b)).to(binary(op.name, b, a))
              for op in OPERATORS if op.commutative]
    used: set[str] = set()
    for rule in RULES:
        for before, after, missing, m in exported(rule):
            names = variables(rule.pattern, Var)
            handles = {m[n]: egg.var(f"v_{n}", E) for n in names}
            indices = {ROW.name: egg.var("x_i", egg.String),
                       COLUMN.name: egg.var("x_j", egg.String)}
            left, right = (term(e, indices, handles) for e in (before, after))
            conditions = [lacks(handles[m[n]], indices[x]) for n, x in missing]
            found.append(egg.rewrite(left).to(right, *conditions))
            used.add(rule.name)
    return found, used


@pytest.fixture(scope="module")
def exported_rules() -> tuple[list[object], set[str]]:
    return ruleset()


# -- the comparison ------------------------------------------------------------------------------


def read(text: str) -> Expr:
    found = parse(text, NAMES)
    assert isinstance(found, Expr)
    return found


def facts(e: Expr) -> Iterator[object]:
    """Which leaves lack which of the bound indices."""
    leaves: set[Expr] = set()
    bound: set[str] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        match x:
            case Call():
                stack.extend(x.args)
            case Reduce():
                bound.update(a.name for a in x.axes)
                stack.append(x.body)
            case Read() | Const() | Index():
                leaves.add(x)
    for x in sorted(leaves, key=repr):
        for name in sorted(bound - x.free):
            yield lacks(term(x, {}, {}), egg.String(name))


def egglog_says(a: Expr, b: Expr, rules: list[object]) -> bool:
    graph = egg.EGraph()
    one, other = (term(x, {}, {}) for x in (a, b))
    graph.register(one, other, *facts(a), *facts(b))
    the_rules = egg.ruleset(*rules)
    for _ in range(4):
        graph.run(the_rules)
        try:
            graph.check(egg.eq(one).to(other))
            return True
        except egg.EggSmolError:
            continue
    return False


def we_say(a: Expr, b: Expr) -> bool:
    graph = OurGraph()
    graph.add(a)
    graph.add(b)
    saturate(graph, RULES, limits=Limits(nodes=1500))
    return graph.equal(a, b)


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_both_reach(a: str, b: str, exported_rules: tuple[list[object], set[str]]) -> None:
    assert we_say(read(a), read(b))
    assert egglog_says(read(a), read(b), exported_rules[0])
    assert equal(read(a), read(b))


@pytest.mark.parametrize(("a", "b"), UNEQUAL)
def test_neither_reaches(a: str, b: str, exported_rules: tuple[list[object], set[str]]) -> None:
    assert not we_say(read(a), read(b))
    assert not egglog_says(read(a), read(b), exported_rules[0])
    assert not equal(read(a), read(b))


def test_the_laws_are_exported(exported_rules: tuple[list[object], set[str]]) -> None:
    """Every law over real numbers; left out are laws on truth values, conditions, and those that
    need facts or several indices at once."""
    _, used = exported_rules
    for name in (
        "associate: f(f(a, b), c) -> f(a, f(b, c))", "distribute: a*(b+c) -> a*b + a*c",
        "factor: a*b + a*c -> a*(b+c)", "pull out: sum(a*b) -> a*sum(b)",
        "pull in: a*sum(b) -> sum(a*b)", "merge: sum(i, sum(j, a)) -> sum(i, j, a)",
        "repeat: sum(k in n, a) -> a*n, k not in a", "subtract: a - b -> a + -b",
        "split reduction: sum(a + b) -> sum(a) + sum(b)", "identity: f(a, e) -> a",
        "join reductions: sum(a) + sum(b) -> sum(a + b)",
    ):
        assert name in used
    assert not any("annihilate" in n or "cancel" in n for n in used), "these need facts"
