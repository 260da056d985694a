"""Laws that users add to explore are used where they make a program cheaper."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr
from tensorel.rewrite.engine import Rule
from tensorel.rules.text import rule

rng = np.random.default_rng(2)
N = 3000
U, V = rng.random(N), rng.random(N)


@pytest.fixture
def law(own_rules: None) -> Rule:
    """exp of a sum; ours asks for bounded arguments, which a user may know."""
    made = rule("exp(a + b) -> exp(a) * exp(b)", law="exp is a homomorphism", name="split exp",
                family="explore", reassociates=True)
    tr.rules.add(made)
    return made


def _program() -> tr.Tensor:
    u, v = tr.asarray(U), tr.asarray(V)
    return tr.exp(u[:, None] + v[None, :]).sum()


def test_a_users_law_turns_a_square_into_two_lines(law: Rule) -> None:
    t = _program()
    assert "split exp" in t.explain().rules
    np.testing.assert_allclose(float(t.compute()), np.exp(U).sum() * np.exp(V).sum(), rtol=1e-10)
    fast = t.explain().to_dict()
    tr.rules.disable(law.name)
    slow = t.explain().to_dict()
    assert "split exp" not in slow["rules"]
    assert fast["cost"] * 20 < slow["cost"]


def test_not_in_strict_mode_and_not_where_it_costs_more(law: Rule) -> None:
    u = tr.asarray(U)
    assert "split exp" not in tr.exp(u + tr.asarray(V)).explain().rules
    with tr.options(strict=True):
        assert "split exp" not in _program().explain().rules
