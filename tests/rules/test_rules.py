"""Rules as text pairs: what fires, what must not, and both sides executed on hard values.

A file holds ``rule: name``, then ``before => after`` lines and ``no: expression`` lines, where the
precondition is violated and the rule must stay still. ``facts: x finite, y positive`` says what is
known of tensors from there to the next rule. Rules that simplify are applied to the term; rules
that explore must make the two sides one class of an e-graph. Values are compared to the last bit,
with nan, inf, zeros of both signs and integers at their limits; laws that hold for real numbers
only are compared on tame floats, up to rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tensorel as tr
from tensorel.algebra import ops
from tensorel.config import Config
from tensorel.errors import ParseError, TypeError_
from tensorel.ir.nodes import Axis, Const, Expr, Lambda, Read, Source, const
from tensorel.ir.parser import parse
from tensorel.ir.printer import show
from tensorel.plan.definitions import Definition, Program
from tensorel.plan.logical.normalize import flatten_reductions, repeat_constants
from tensorel.reference.interpret import evaluate_expr
from tensorel.rewrite.egraph import EGraph
from tensorel.rewrite.engine import EXPLORE, Op, Rewriter, Rule, Var
from tensorel.rewrite.facts import Facts
from tensorel.rewrite.saturate import Limits, saturate
from tensorel.rules.text import rule as text_rule

HERE = Path(__file__).parent
RULES = {r.name: r for r in tr.rules.all()}
PASSES = {"flatten_reductions": flatten_reductions, "repeat_constants": repeat_constants}
FLOATS = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e300, 5e-324]
PAIRS = list(itertools.product(FLOATS, FLOATS))
SIZE = len(PAIRS)
Data = Mapping[str, np.ndarray]

#: Associative and not commutative, for the rule that needs it.
LEFT = ops.Operator("left", 2, lambda a, b: np.broadcast_arrays(a, b)[0], associative=True)


def _data() -> dict[str, np.ndarray]:
    x, y = (np.array(p) for p in zip(*PAIRS))
    rng = np.random.default_rng(0)
    z = np.empty(SIZE, complex)
    z.real, z.imag = x, y
    whole = rng.integers(-(2**63), 2**63 - 1, SIZE)
    small = rng.integers(-4, 5, SIZE)
    whole[:4] = [-(2**63), 2**63 - 1, 0, -1]
    with np.errstate(all="ignore"):
        single = x.astype(np.float32)
    return {
        "x": x, "y": y, "z": z, "g": single, "u": np.arange(SIZE).astype(np.uint8) * 3,
        "n": np.where(rng.random(SIZE) < 0.5, whole, small), "m": small,
        "b": rng.random(SIZE) < 0.5, "c": rng.random(SIZE) < 0.1,
    }


def _tame(data: Data) -> dict[str, np.ndarray]:
    """Floats on which laws of real numbers hold up to rounding."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0.25, 2, (2, SIZE)) * rng.choice([-1, 1], (2, SIZE))
    return {**data, "x": x, "y": y, "z": x + 1j * y, "g": x.astype(np.float32)}


def _drawn(seed: int, tame: bool) -> dict[str, np.ndarray]:
    """Random values of the same kinds: special floats among others, integers at their limits."""
    rng = np.random.default_rng(seed)

    def floats() -> np.ndarray:
        a = rng.normal(size=SIZE) * 10.0 ** rng.integers(-3, 4, SIZE)
        return a if tame else np.where(rng.random(SIZE) < 0.5, rng.choice(FLOATS, SIZE), a)

    limits = np.array([-(2**63), 2**63 - 1, 0, 1, -1, 2**62])
    x, y = floats(), floats()
    if tame:
        x, y = x % 2 + 0.25, -(y % 2) - 0.25
    z = np.empty(SIZE, complex)
    z.real, z.imag = x, y
    with np.errstate(all="ignore"):
        single = x.astype(np.float32)
    return {
        "x": x, "y": y, "z": z, "g": single, "u": rng.integers(0, 256, SIZE).astype(np.uint8),
        "n": np.where(rng.random(SIZE) < 0.3, rng.choice(limits, SIZE),
                      rng.integers(-(2**63), 2**63 - 1, SIZE)),
        "m": rng.integers(-4, 5, SIZE), "b": rng.random(SIZE) < 0.5, "c": rng.random(SIZE) < 0.5,
    }


#: What to put where a value does not have a fact.
SHAPED = {
    "finite": lambda v: np.where(np.isfinite(v), v, 7.0),
    "no_nan": lambda v: np.where(np.isnan(v), -3.0, v),
    "positive": lambda v: np.where(v > 0, v, 0.5),
    "bounded": lambda v: np.where(np.abs(v) <= 300, v, 300.0),
}
HARD = _data()
TAME = _tame(HARD)
DRAWN = {tame: [_drawn(seed, tame) for seed in range(3)] for tame in (False, True)}
NAMES = {k: Source(k, (SIZE,), v.dtype, const(0, v.dtype)) for k, v in HARD.items()}


class Case(NamedTuple):
    file: str
    stage: str
    rule: str
    before: str
    after: str | None
    facts: tuple[tuple[str, frozenset[str]], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.file}: {self.rule.split(':')[0]}: {self.before}"


def cases() -> Iterator[Case]:
    for path in sorted(HERE.glob("*.txt")):
        stage = rule = ""
        facts: tuple[tuple[str, frozenset[str]], ...] = ()
        for line in path.read_text().splitlines():
            if line.startswith("pass:"):
                stage = line.removeprefix("pass:").strip()
            elif line.startswith("rule: "):
                rule, facts = line.removeprefix("rule: "), ()
            elif line.startswith("facts: "):
                parts = [p.split() for p in line.removeprefix("facts: ").split(",")]
                facts = tuple((p[0], frozenset(p[1:])) for p in parts)
            elif line.startswith("no: "):
                yield Case(path.stem, stage, rule, line.removeprefix("no: "), None, facts)
            elif line and not line.startswith("#"):
                before, after = line.split(" => ")
                yield Case(path.stem, stage, rule, before, after, facts)


CASES = list(cases())


def read(text: str) -> Expr:
    found = parse(text, NAMES, {"left": LEFT})
    assert isinstance(found, Expr)
    return found


def facts_of(case: Case) -> Facts:
    known = dict(case.facts)

    def leaf(e: Expr) -> frozenset[str]:
        if isinstance(e, Read) and isinstance(e.tensor, Source):
            return known.get(str(e.tensor.data), frozenset())
        return frozenset()

    return Facts(leaf)


def data_of(case: Case, data: Data) -> dict[str, np.ndarray]:
    shaped = dict(data)
    for name, facts in case.facts:
        for fact in sorted(facts, reverse=True):
            shaped[name] = SHAPED[fact](shaped[name])
    return shaped


def rewritten(case: Case, e: Expr) -> tuple[Expr, dict[str, int]]:
    """The expression after the rule (or the pass that holds it) and what fired."""
    fired: dict[str, int] = {}
    if not case.stage:
        new = Rewriter([RULES[case.rule]], lambda n: fired.update({n: fired.get(n, 0) + 1}),
                       facts=facts_of(case)).run(e)
        return new, fired
    formula = Lambda(tuple(Axis(n, SIZE) for n in sorted(e.free)), e)
    program = Program([Definition("out", formula)], ["out"], {}, Config())
    PASSES[case.stage](program)
    found = program.definitions[0].tensor
    assert isinstance(found, Lambda)
    return found.body, dict(program.fired)


def value(e: Expr, data: Data, names: frozenset[str]) -> np.ndarray:
    extents = {n: SIZE if n == "i" else 5 for n in sorted(names)}
    with np.errstate(all="ignore"):
        return evaluate_expr(e, extents, lambda s: data[str(s.data)])


def identical(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the last bit; all nans are one value."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return identical(a.real, b.real) and identical(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool((a == b).all())
    return bool(((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))).all())


def close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind not in "fc":
        return identical(a, b)
    eps = 1e-4 if a.dtype.itemsize // (1 + (a.dtype.kind == "c")) == 4 else 1e-9
    return a.dtype == b.dtype and np.allclose(a, b, rtol=eps, atol=eps, equal_nan=True)


def check_values(case: Case, before: Expr, after: Expr, loose: bool) -> None:
    """Both sides on the data that the facts allow."""
    same = close if loose and before.dtype.kind in "fc" else identical
    for given in (TAME if same is close else HARD, *DRAWN[same is close]):
        data = data_of(case, given)
        one, other = (value(e, data, before.free) for e in (before, after))
        assert same(one, other), f"{show(before)} and {show(after)} differ"


PAIRS_TREE = [c for c in CASES if c.stage or RULES[c.rule].family != EXPLORE]
PAIRS_GRAPH = [c for c in CASES if not c.stage and RULES[c.rule].family == EXPLORE]


@pytest.mark.parametrize("case", PAIRS_TREE, ids=lambda c: c.id)
def test_pair(case: Case) -> None:
    before = read(case.before)
    new, fired = rewritten(case, before)
    if case.after is None:
        assert case.rule not in fired, f"must not fire, but gave {show(new)}"
    else:
        wanted = read(case.after)
        if isinstance(wanted, Const):  # nans differ in sign and payload
            assert isinstance(new, Const)
            assert identical(value(new, HARD, frozenset()), value(wanted, HARD, frozenset()))
        else:
            assert show(new) == show(wanted)
        assert fired.get(case.rule, 0) > 0
    check_values(case, before, new, case.rule in RULES and RULES[case.rule].reassociates)


@pytest.mark.parametrize("case", PAIRS_GRAPH, ids=lambda c: c.id)
def test_pair_is_one_class(case: Case) -> None:
    before, rule = read(case.before), RULES[case.rule]
    graph = EGraph(facts_of(case))
    root = graph.add(before)
    report = saturate(graph, [rule], limits=Limits(rounds=1))
    if case.after is None:
        assert rule.name not in report.fired
        return
    after = read(case.after)
    assert graph.find(graph.add(after)) == graph.find(root)
    check_values(case, before, after, rule.reassociates)
    if rule.reassociates and before.dtype.kind in "fc":
        strict = EGraph(facts_of(case), strict=True)
        strict.add(before)
        assert not saturate(strict, [rule]).fired, "strict leaves it out"


@pytest.mark.parametrize("case", [c for c in CASES if not c.facts], ids=lambda c: c.id)
def test_all_rules_together_keep_the_value(case: Case) -> None:
    before = read(case.before)
    new = Rewriter(tr.rules.active(), lambda n: None).run(before)
    assert new.dtype == before.dtype
    check_values(case, before, new, False)
    again = Rewriter(tr.rules.active(), lambda n: None).run(new)
    assert again is new, "not a fixed point"


def test_every_rule_has_cases_both_ways() -> None:
    fires = {c.rule for c in CASES if c.after is not None}
    still = {c.rule for c in CASES if c.after is None}
    for name in RULES:
        assert name in fires, f"no pair for {name}"
        assert name in still, f"no violated precondition for {name}"
    for rule in tr.rules.all():
        assert rule.law, "a rule states its law"


# -- the table -------------------------------------------------------------------------------

ONE = "identity: f(a, e) -> a"


def test_disable_and_enable(own_rules: None) -> None:
    a = tr.tensor(np.eye(4), format="csr")
    assert ONE in (a * 1).explain().rules
    before = str((a * 1).explain())
    tr.rules.disable(ONE)
    assert ONE not in (a * 1).explain().rules
    assert ONE in [r.name for r in tr.rules.all()]
    assert ONE not in [r.name for r in tr.rules.active()]
    assert (a * 1).sum().item() == 4
    tr.rules.disable(ONE)
    tr.rules.enable(ONE)
    assert str((a * 1).explain()) == before


def test_unknown_names() -> None:
    for call in (tr.rules.disable, tr.rules.enable):
        with pytest.raises(TypeError_, match="nonsense"):
            call("nonsense")
    with pytest.raises(TypeError_):
        tr.rules.add("not a rule")


def test_a_rule_of_the_user(own_rules: None) -> None:
    name = "sqrt of a square: sqrt(square(a)) -> |a|"
    pattern = Op(ops.sqrt, (Op(ops.square, (Var("a"),)),))
    tr.rules.add(Rule(
        name, pattern, lambda m: parse("absolute(a)", {"a": m["a"]}), "for real a",
        when=lambda m: m["a"].dtype.kind == "f"))
    x = np.array([[0.0, -3.0], [2.0, 0.0]])
    a = tr.tensor(x, format="csr")
    program = np.sqrt(np.square(a))
    assert program.explain().rules == {name: 1}
    np.testing.assert_array_equal(program.to_numpy(), np.abs(x))
    z = tr.asarray(np.array([1j, 2.0]))
    assert name not in np.sqrt(np.square(z)).explain().rules
    tr.rules.disable(name)
    assert name not in np.sqrt(np.square(a + 0)).explain().rules


def test_families() -> None:
    simplify, explore = tr.rules.all("simplify"), tr.rules.all("explore")
    assert tr.rules.active() == simplify
    assert set(simplify) | set(explore) == set(tr.rules.all())
    assert tr.rules.active("simplify", "explore") == tr.rules.all()
    strict = tr.rules.active("explore", strict=True)
    assert strict and not any(r.reassociates for r in strict)
    with pytest.raises(TypeError_, match="nonsense"):
        tr.rules.active("nonsense")
    with pytest.raises(TypeError_, match="nonsense"):
        tr.rules.add(text_rule("-(-a) -> a", law="involution", family="nonsense"))


def test_a_rule_in_text(own_rules: None) -> None:
    rule = text_rule(
        "sqrt(square(a)) -> absolute(a)", law="for real a",
        when=lambda m: m["a"].dtype.kind == "f")
    before = tr.rules.version()
    tr.rules.add(rule)
    assert tr.rules.version() != before
    x = np.array([[0.0, -3.0], [2.0, 0.0]])
    program = np.sqrt(np.square(tr.tensor(x, format="csr")))
    assert program.explain().rules == {rule.name: 1}
    np.testing.assert_array_equal(program.to_numpy(), np.abs(x))


def test_literals_in_text_take_the_dtype_of_the_match() -> None:
    rule = text_rule("a * 3 -> (a + a) + a", law="repetition", family="explore",
                         reassociates=True)
    for text, wanted in (("n[i] * 3", "(n[i] + n[i]) + n[i]"),
                         ("3.0:float32 * g[i]", "(g[i] + g[i]) + g[i]")):
        graph = EGraph()
        graph.add(read(text))
        saturate(graph, [rule])
        assert graph.equal(read(text), read(wanted))
    assert Rewriter([rule], lambda n: None).run(read("n[i] * 4")) is read("n[i] * 4")


@pytest.mark.parametrize("text", ["a", "a + b", "a -> b -> c", "a + ->", "a -> a", "f(a) -> a"])
def test_bad_rules_in_text(text: str) -> None:
    with pytest.raises((ParseError, TypeError_)):
        text_rule(text, law="none")


def test_rules_only_say_names_of_the_left_side() -> None:
    with pytest.raises(TypeError_, match="only on the right"):
        text_rule("-a -> b", law="none")
    with pytest.raises(TypeError_, match="operators, names and literals"):
        text_rule("(sum(k in 3) a) * 2 -> a", law="none")


def test_rules_that_fire_are_named_in_their_order() -> None:
    fired: list[str] = []
    assert Rewriter(tr.rules.active(), fired.append).run(read("-(-x[i]) * 1.0")) is read("x[i]")
    assert fired == ["double negation: -(-a) -> a", "identity: f(a, e) -> a"]
