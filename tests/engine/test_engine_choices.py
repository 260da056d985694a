"""Plans that agree with each other, and tensors kept in several storages."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr
from tensorel import config as settings
from tensorel.engines import checking
from tensorel.engines.registry import DEFAULT
from tensorel.errors import EngineError, ShapeError, TypeError_

rng = np.random.default_rng(5)


def _sparse(*shape: int) -> np.ndarray:
    return np.where(rng.random(shape) < 0.2, rng.random(shape), 0.0)


PROGRAMS = {
    "product": lambda a, b, u, v: a @ b,
    "sum of product": lambda a, b, u, v: (a @ b).sum(),
    "batax": lambda a, b, u, v: 2.0 * (a.T @ (a @ u[:, 0])),
    "sampled": lambda a, b, u, v: a * (u @ v.T),
    "loss": lambda a, b, u, v: ((a - u @ v.T) ** 2).sum(),
    "quotient": lambda a, b, u, v: u.T @ (a / (u @ v.T)),
    "pieces": lambda a, b, u, v: tr.concat([u, a @ v], axis=1).T @ u,
    "cube": lambda a, b, u, v: tr.einsum("ij,jk,kl->il", a, b, a),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_plans_agree(name: str) -> None:
    a, b = (tr.tensor(_sparse(30, 30), format="csr") for _ in range(2))
    u, v = (tr.asarray(rng.random((30, 4)) + 0.5) for _ in range(2))
    program = PROGRAMS[name](a, b, u, v)
    np.testing.assert_allclose(program.compute(check=True).to_numpy(), program.to_numpy())


def test_a_wrong_result_is_found() -> None:
    a = tr.tensor(_sparse(20, 20), format="csr")
    program, other = a @ a, a @ a + a
    wrong = other.compute().stored
    with pytest.raises(EngineError, match="two plans of one program disagree"):
        checking.check(DEFAULT, [program.node], [wrong], settings.current())


def test_several_storages_spare_the_conversion() -> None:
    x = _sparse(40, 30)
    rows = tr.tensor(x, format="csr")
    both = tr.alternatives(rows, rows.to_format("csc"))
    assert both.format == "csr" or both.format.name == "csr"
    program = tr.einsum("ij,ik->jk", both, both)
    np.testing.assert_allclose(program.to_numpy(), x.T @ x)
    text = str(program.explain())
    assert "which is stored too" in text or " as csc" not in text


def test_alternatives_must_be_one_tensor() -> None:
    a = tr.tensor(_sparse(4, 5), format="csr")
    with pytest.raises(ShapeError):
        tr.alternatives(a, a.T)
    with pytest.raises(TypeError_):
        tr.alternatives(a, (a + 1).compute())
    with pytest.raises(TypeError_):
        tr.alternatives()
    with pytest.raises(ShapeError):
        tr.alternatives(a, 3)
    same = tr.alternatives(a, a.to_numpy())
    np.testing.assert_array_equal(same.to_numpy(), a.to_numpy())
