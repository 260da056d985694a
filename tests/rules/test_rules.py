"""Rules as text pairs: what fires, what must not, and both sides executed on hard values.

A file holds ``rule: name``, then ``before => after`` lines and ``no: expression`` lines, where the
precondition is violated and the rule must stay still.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tensorel as tr
from tensorel.algebra import ops
from tensorel.config import Config
from tensorel.errors import TypeError_
from tensorel.ir.nodes import Axis, Const, Expr, Lambda, Source, const
from tensorel.ir.parser import parse
from tensorel.ir.printer import show
from tensorel.plan.definitions import Definition, Program
from tensorel.plan.logical import flatten_reductions, repeat_constants
from tensorel.reference.interpret import evaluate_expr
from tensorel.rewrite.engine import Op, Rewriter, Rule, Var
from tensorel.rules import table as module

HERE = Path(__file__).parent
RULES = {r.name: r for r in tr.rules.all()}
PASSES = {"flatten_reductions": flatten_reductions, "repeat_constants": repeat_constants}
FLOATS = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e300, 5e-324]
PAIRS = list(itertools.product(FLOATS, FLOATS))
SIZE = len(PAIRS)


def _data() -> dict[str, np.ndarray]:
    x, y = (np.array(p) for p in zip(*PAIRS))
    rng = np.random.default_rng(0)
    z = np.empty(SIZE, complex)
    z.real, z.imag = x, y
    whole = rng.integers(-(2**63), 2**63 - 1, SIZE)
    small = rng.integers(-4, 5, SIZE)
    with np.errstate(all="ignore"):
        single = x.astype(np.float32)
    return {
        "x": x, "y": y, "z": z, "g": single, "u": np.arange(SIZE).astype(np.uint8),
        "n": np.where(rng.random(SIZE) < 0.5, whole, small), "m": small,
        "b": rng.random(SIZE) < 0.5, "c": rng.random(SIZE) < 0.1,
    }


DATA = _data()
NAMES = {k: Source(k, (SIZE,), v.dtype, const(0, v.dtype)) for k, v in DATA.items()}


class Case(NamedTuple):
    file: str
    stage: str
    rule: str
    before: str
    after: str | None

    @property
    def id(self) -> str:
        return f"{self.file}: {self.before}"


def cases() -> Iterator[Case]:
    for path in sorted(HERE.glob("*.txt")):
        stage = rule = ""
        for line in path.read_text().splitlines():
            if line.startswith("pass: "):
                stage = line.removeprefix("pass: ")
            elif line.startswith("rule: "):
                rule = line.removeprefix("rule: ")
            elif line.startswith("no: "):
                yield Case(path.stem, stage, rule, line.removeprefix("no: "), None)
            elif line and not line.startswith("#"):
                before, after = line.split(" => ")
                yield Case(path.stem, stage, rule, before, after)


CASES = list(cases())


def read(text: str) -> Expr:
    found = parse(text, NAMES)
    assert isinstance(found, Expr)
    return found


def rewritten(case: Case, e: Expr) -> tuple[Expr, dict[str, int]]:
    """The expression after the rule (or the pass that holds it) and what fired."""
    fired: dict[str, int] = {}
    if not case.stage:
        new = Rewriter([RULES[case.rule]], lambda n: fired.update({n: fired.get(n, 0) + 1})).run(e)
        return new, fired
    formula = Lambda(tuple(Axis(n, SIZE) for n in sorted(e.free)), e)
    program = Program([Definition("out", formula)], ["out"], {}, Config())
    PASSES[case.stage](program)
    found = program.definitions[0].tensor
    assert isinstance(found, Lambda)
    return found.body, dict(program.fired)


def value(e: Expr) -> np.ndarray:
    extents = {n: SIZE if n == "i" else 5 for n in sorted(e.free)}
    with np.errstate(all="ignore"):
        return evaluate_expr(e, extents, lambda s: DATA[str(s.data)])


def identical(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the last bit; all nans are one value."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return identical(a.real, b.real) and identical(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool((a == b).all())
    return bool(((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_pair(case: Case) -> None:
    before = read(case.before)
    new, fired = rewritten(case, before)
    if case.after is None:
        assert case.rule not in fired, f"must not fire, but gave {show(new)}"
    else:
        wanted = read(case.after)
        if isinstance(wanted, Const):  # nans differ in sign and payload
            assert isinstance(new, Const) and identical(value(new), value(wanted))
        else:
            assert show(new) == show(wanted)
        assert fired.get(case.rule, 0) > 0
    assert identical(value(before), value(new))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_all_rules_together_keep_the_value(case: Case) -> None:
    before = read(case.before)
    new = Rewriter(tr.rules.active(), lambda n: None).run(before)
    assert new.dtype == before.dtype
    assert identical(value(before), value(new)), f"{show(before)} became {show(new)}"
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


@pytest.fixture
def table() -> Iterator[None]:
    """The table of rules, put back afterwards."""
    kept, off = dict(module._rules), set(module._disabled)
    yield
    module._rules.clear()
    module._rules.update(kept)
    module._disabled.clear()
    module._disabled.update(off)
    module._version += 1


def test_disable_and_enable(table: None) -> None:
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


def test_a_rule_of_the_user(table: None) -> None:
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
