"""Some rows, each stored as a whole, times a dense matrix: BLAS over the rows that are there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr

#: format of the left operand, its shape, program, shapes of the right one
CASES = {
    "rows": (";0;1", (40, 6), "ij,jk->ik", (6, 5)),
    "rows, result turned": (";0;1", (40, 6), "ij,jk->ki", (6, 5)),
    "right first": (";0;1", (40, 6), "ij,kj->ik", (5, 6)),
    "columns": (";1;0", (6, 40), "ji,jk->ik", (6, 5)),
    "columns, result turned": (";1;0", (6, 40), "ji,jk->ki", (6, 5)),
    "cube under rows": (";0;1,2", (30, 4, 5), "ijk,kl->ijl", (5, 3)),
    "cube under rows, middle summed": (";0;1,2", (30, 4, 5), "ijk,jl->ikl", (4, 3)),
    "cube under rows, both summed": (";0;1,2", (30, 4, 5), "ijk,jkl->il", (4, 5, 3)),
    "cube under rows, turned": (";0;1,2", (30, 4, 5), "ijk,kl->lji", (5, 3)),
    "vectors under pairs": (";0,1;2", (9, 8, 5), "ijk,kl->ijl", (5, 3)),
    "vectors under pairs, turned": (";1,0;2", (9, 8, 5), "ijk,kl->lij", (5, 3)),
}
#: Products that are not such: nothing is left below, an index of the rows is in both or summed.
OTHERS = {
    "vector": (";0;1", (40, 6), "ij,j->i", (6,)),
    "vectors under pairs": (";0,1;2", (9, 8, 5), "ijk,k->ij", (5,)),
    "rows in both": (";0;1", (40, 6), "ij,ijk->ik", (40, 6, 5)),
    "rows summed": (";0;1", (40, 6), "ij,ik->jk", (40, 5)),
    "all summed": (";0;1", (40, 6), "ij,jk->k", (6, 5)),
    "kept in both": (";0;1,2", (30, 4, 5), "ijk,jkl->ijl", (4, 5, 3)),
}


def rows_of(rng: np.random.Generator, format: str, shape: tuple[int, ...], share: float,
            dtype: str) -> np.ndarray:
    """Values at some positions of the sparse axes, with zeros among them."""
    sparse = [int(k) for k in format.split(";")[1].split(",")]
    there = rng.random([n if k in sparse else 1 for k, n in enumerate(shape)]) < share
    values = rng.standard_normal(shape) * (rng.random(shape) < 0.7)
    if dtype.startswith("complex"):
        values = values * (1 + 2j)
    return np.asarray(np.where(there, values, 0)).astype(dtype)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("name", [*CASES, *(f"other: {n}" for n in OTHERS)])
def test_products_of_rows(name: str, dtype: str, share: float) -> None:
    rng = np.random.default_rng(len(name))
    format, shape, spec, right = CASES[name] if name in CASES else OTHERS[name[7:]]
    a, b = rows_of(rng, format, shape, share, dtype), rng.standard_normal(right).astype(dtype)
    ta = tr.tensor(a, format=format)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    for tb in (tr.asarray(b), tr.asarray(np.asfortranarray(b))):
        program = tr.einsum(spec, ta, tb)
        if name in CASES:
            assert "blas -> ;" in str(program.explain()), name
        found = program.compute()
        np.testing.assert_allclose(
            found.to_numpy(), np.einsum(spec, a, b), rtol=tolerance, atol=tolerance)
        # what is kept can be read again
        np.testing.assert_allclose(
            (found * 2).to_numpy(), 2 * np.einsum(spec, a, b), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(
            complex(found.sum().to_numpy()), np.einsum(spec, a, b).sum(), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(
            found.to_format("coo").to_numpy(), np.einsum(spec, a, b), rtol=tolerance,
            atol=tolerance)


@pytest.mark.parametrize("fill", [0.0, 1.5])
def test_what_is_not_there_is_nothing_only_if_it_is_zero(fill: float) -> None:
    rng = np.random.default_rng(1)
    a = np.full((20, 4), fill)
    a[::3] = rng.random((7, 4))
    b = rng.random((4, 3))
    t = tr.tensor(a, format=";0;1", fill=fill)
    program = t @ tr.asarray(b)
    assert ("blas -> ;0;1" in str(program.explain())) == (fill == 0)
    np.testing.assert_allclose(program.to_numpy(), a @ b, rtol=1e-12)


def test_infinite_values_in_the_matrix_meet_the_rows_that_are_there_alone() -> None:
    a = np.zeros((6, 3))
    a[2], a[4] = [1.0, 0.0, 2.0], [0.0, 1.0, 0.0]
    b = np.array([[1.0, 2.0], [np.inf, 1.0], [3.0, np.nan]])
    found = (tr.tensor(a, format=";0;1") @ tr.asarray(b)).to_numpy()
    with np.errstate(invalid="ignore"):
        wanted = np.where(a.any(axis=1)[:, None], a @ b, 0.0)
    np.testing.assert_array_equal(found, wanted)


def test_the_memory_is_predicted() -> None:
    rng = np.random.default_rng(2)
    a = np.zeros((20000, 64))
    a[:2000] = rng.random((2000, 64))
    program = tr.tensor(a, format=";0;1") @ tr.asarray(rng.random((64, 32)))
    assert "blas -> ;0;1 (20000, 32) float64, fill 0.0, about 64,000 entries, 520 kB" in str(
        program.explain())


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("format", [";0;1", ";1;0"])
def test_formulas_over_rows(format: str, share: float) -> None:
    rng = np.random.default_rng(7)
    a, b = (rows_of(rng, format, (12, 10), share, "float64") for _ in "ab")
    c = rng.standard_normal((12, 10)) * (rng.random((12, 10)) < 0.3)
    v, w = rng.random(10), rng.random(12)
    ta, tb = (tr.tensor(x, format=format) for x in (a, b))
    tc, tv, tw = tr.tensor(c, format="csr"), tr.asarray(v), tr.asarray(w)
    programs = [
        (tr.maximum(ta, 0), np.maximum(a, 0)), (ta * tv * 2, a * v * 2),
        (ta * tw[:, None], a * w[:, None]), (tr.expm1(ta) + ta**2, np.expm1(a) + a**2),
        (ta + tb, a + b), (ta * tb, a * b), (ta + tc, a + c), (ta * tc, a * c),
        (tr.where(ta > 0, tb, tc), np.where(a > 0, b, c)),
        (ta.T + 1, a.T + 1), (ta[2:, ::2] * 3, a[2:, ::2] * 3),
        ((ta * tb).sum(axis=0), (a * b).sum(axis=0)), (ta.T @ tb, a.T @ b),
        ((ta + tb) @ tc.T, (a + b) @ c.T),
        (tr.maximum(ta, 0).sum(), np.maximum(a, 0).sum()), (ta == 0, a == 0),
    ]
    for k, (program, wanted) in enumerate(programs):
        np.testing.assert_allclose(program.to_numpy(), wanted, rtol=1e-12, atol=1e-12,
                                   err_msg=f"program {k}")


def test_few_rows_stay_rows() -> None:
    rng = np.random.default_rng(8)
    a, b = (rows_of(rng, ";0;1", (9000, 6), 0.02, "float64") for _ in "ab")
    ta, tb = (tr.tensor(x, format=";0;1") for x in (a, b))
    programs = [
        (tr.maximum(ta, 0), np.maximum(a, 0)), (ta * tr.asarray(np.arange(6.0)), a * np.arange(6)),
        (ta + tb, a + b), (ta * tb, a * b), (tr.expm1(ta) - tb, np.expm1(a) - b),
    ]
    for k, (program, wanted) in enumerate(programs):
        found = program.compute()
        assert found.format == ";0;1", k
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_the_memory_limit_holds() -> None:
    rng = np.random.default_rng(9)
    a = np.zeros((4000, 6))
    a[::50] = rng.random((80, 6))
    t, wide = tr.tensor(a, format=";0;1"), tr.asarray(rng.random((6, 40000)))  # 25.6 MB
    for limit in ("3MB", "10MB", "20MB"):
        with tr.options(memory=limit), pytest.raises(tr.errors.MemoryLimitError):
            (t @ wide).compute()
    rows = tr.tensor((rng.random(4000) < 0.5).astype(float), format="coo")  # half, not known
    with tr.options(memory="30MB"), pytest.raises(tr.errors.MemoryLimitError):
        ((rows[:, None] * tr.asarray(rng.random((1, 6)))) @ wide).compute(format=";0;1")
    with tr.options(memory="100MB"):
        assert (t @ wide).compute().shape == (4000, 40000)
