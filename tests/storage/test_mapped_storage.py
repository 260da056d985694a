"""Storage mappings of users: packed and read back, computed with, refused."""

from __future__ import annotations

import mappings
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorel as tr
from tensorel.errors import StorageError

NAMES = sorted(mappings.ALL)


def matrix(name: str, rng: np.random.Generator, m: int, n: int, density: float,
           dtype: str = "float64") -> np.ndarray:
    case = mappings.ALL[name]
    if case.power:
        n = 1 << max(n - 1, 0).bit_length()
    if case.square:
        m = n
    a = np.where(rng.random((m, n)) < density, rng.integers(1, 5, (m, n)), 0).astype(dtype)
    return a if case.fit is None else case.fit(a).astype(dtype)


def storage(name: str) -> tr.Tensor:
    case = mappings.ALL[name]
    return tr.storage(case.text, name.replace(" ", "_"), **case.fixed)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), m=st.integers(0, 9), n=st.integers(0, 9),
       density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
       dtype=st.sampled_from(["float64", "int32", "complex64", "bool"]))
def test_packed_and_read_back(name, seed, m, n, density, dtype):
    a = matrix(name, np.random.default_rng(seed), m, n, density, dtype)
    t = tr.tensor(a, format=storage(name))
    assert np.array_equal(t.to_numpy(), a)
    assert t.dtype == a.dtype and t.nnz == np.count_nonzero(a)
    back = t.to_format("csr")
    assert np.array_equal(back.to_numpy(), a) and back.format == "csr"


@pytest.mark.parametrize("name", NAMES)
def test_fill_and_conversions_between_mappings(name):
    rng = np.random.default_rng(5)
    a = matrix(name, rng, 8, 8, 0.3)
    first = storage(name)
    t = tr.tensor(a, format=first)
    for other in ("csr", "blocked csr", "run-length", "ell"):
        made = t.to_format(storage(other))
        assert np.array_equal(made.to_numpy(), a)
        assert np.array_equal(made.to_format(first).to_numpy(), a)


PROGRAMS = {
    "A @ x": lambda a, b, x: a @ x,
    "A.T @ x": lambda a, b, x: a.T @ x,
    "A @ B": lambda a, b, x: a @ b,
    "A + B": lambda a, b, x: a + b,
    "A * B": lambda a, b, x: a * b,
    "A + A.T": lambda a, b, x: a + a.T,
    "rows": lambda a, b, x: a[2:6],
    "columns": lambda a, b, x: a[:, 1:7],
    "strided": lambda a, b, x: a[:, ::2],
    "reversed": lambda a, b, x: a[::-1],
    "shifted": lambda a, b, x: a[:, 1::2] + b[:, ::2],
    "sums": lambda a, b, x: a.sum(axis=0),
    "max": lambda a, b, x: a.max(axis=1),
    "BATAX": lambda a, b, x: 2.0 * (a.T @ (a @ x)),
    "triangles": lambda a, b, x: ((a @ a) * a).sum(),
    "masked": lambda a, b, x: (a + b) * a,
    "plus one": lambda a, b, x: a + 1,
    "row": lambda a, b, x: a[3],
    "column": lambda a, b, x: a[:, 5],
}


@pytest.mark.parametrize("name", NAMES)
def test_programs(name):
    rng = np.random.default_rng(7)
    a, x = matrix(name, rng, 8, 8, 0.4), rng.random(8)
    b = np.where(rng.random((8, 8)) < 0.3, rng.random((8, 8)), 0)
    t = tr.tensor(a, format=storage(name))
    for text, f in PROGRAMS.items():
        for other in ("csr", "csc"):
            got = f(t, tr.tensor(b, format=other), tr.asarray(x)).to_numpy()
            assert np.allclose(got, f(a, b, x)), (text, other)


@pytest.mark.parametrize("name", [n for n in NAMES if mappings.ALL[n].stack])
def test_known_layouts_are_the_formats_themselves(name):
    a = matrix(name, np.random.default_rng(3), 6, 5, 0.4)
    own = tr.tensor(a, format=storage(name)).stored
    known = tr.tensor(a, format=mappings.ALL[name].stack).stored
    assert own.format.levels == known.format.levels and own.format.order == known.format.order
    assert all(np.array_equal(own.arrays[n], known.arrays[n]) for n in known.arrays)


def test_arrays_of_the_user_are_taken_as_they_are():
    csr = storage("csr")
    pos, idx = np.array([0, 2, 2, 3], np.int32), np.array([0, 3, 1], np.int32)
    val = np.array([6.0, 9.0, 5.0])
    t = csr.tensor(C_len1=3, C_pos2=pos, C_idx2=idx, C_val=val)
    assert t.shape == (3, 4) and t.to_numpy().tolist() == [[6, 0, 0, 9], [0] * 4, [0, 5, 0, 0]]
    assert csr.arrays(t)["C_val"] is val or np.shares_memory(csr.arrays(t)["C_val"], val)
    wide = csr.tensor(shape=(3, 9), C_len1=3, C_pos2=pos, C_idx2=idx, C_val=val)
    assert wide.shape == (3, 9)
    given = tr.storage(csr.text, C_len1=3, C_pos2=pos, C_idx2=idx, C_val=val)
    assert tr.asarray(given).shape == (3, 4)


def test_unsorted_arrays_are_sorted():
    coo = storage("coo")
    t = coo.tensor(idx1=[2, 0, 1], idx2=[1, 2, 0], val=[1.0, 2.0, 3.0])
    assert t.to_numpy().tolist() == [[0, 0, 2], [3, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("text", [
    "sum (<i,> in 0:N, <j,> in 0:(i+1)) { (i,j) -> A_val(i*(i-1)/2+j) }",  # as printed
    "sum (<i,> in 0:M, <j,> in 0:N) { (i,j) -> V(i*M+j) }",
    "sum (<i,> in 0:M, <j,> in 0:N) { (i,j) -> V(i+j) }",
    "sum (<i,> in 0:N, <j,> in 0:N) { (i,j) -> V(max(i,j)*(max(i,j)+1)/2+min(i,j)) }",
    "sum (<d,v> in V) { (even_bits(d), d / 2) -> v }",
    "sum (<i,> in 0:N) { (i, i) -> V(i) } + { (i, i) -> V(i) }",
])
def test_what_is_not_one_to_one_is_refused(text):
    with pytest.raises(StorageError) as refused:
        mapping = tr.storage(text)
        tr.tensor(np.arange(1.0, 17).reshape(4, 4), format=mapping)
    assert "one-to-one" in str(refused.value) or "cannot" in str(refused.value)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_places(data):
    """i*a + j*b + c with random coefficients: stored right, or refused."""
    a, b, c = (data.draw(st.sampled_from(["M", "N", "1", "2", "3", "N+1"])) for _ in range(3))
    text = f"sum(<i,_> in 0:M, <j,_> in 0:N) {{ (i,j) -> V(i*({a})+j*({b})+({c})) }}"
    m, n = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    x = np.arange(1.0, m * n + 1).reshape(m, n)
    sizes = {"M": m, "N": n, "1": 1, "2": 2, "3": 3, "N+1": n + 1}
    places = [i * sizes[a] + j * sizes[b] for i in range(m) for j in range(n)]
    try:
        t = tr.tensor(x, format=tr.storage(text))
    except StorageError:
        pairs = [(p, q) for p in range(1, 7) for q in range(1, 7)]
        all_sizes = [{"M": p, "N": q, "1": 1, "2": 2, "3": 3, "N+1": q + 1} for p, q in pairs]
        assert any(len({i * s[a] + j * s[b] for i in range(s["M"]) for j in range(s["N"])})
                   < s["M"] * s["N"] for s in all_sizes)
        return
    assert len(set(places)) == m * n and np.array_equal(t.to_numpy(), x)
    assert np.allclose((t @ np.ones(n)).to_numpy(), x.sum(axis=1))


@pytest.mark.parametrize(("text", "word"), [
    ("sum(<i,_> in 0:N) { i -> V(i) * 2 }", "one element"),
    ("sum(<i,_> in 0:N, <k,_> in 0:2) { i -> V(i) }", "several places"),
    ("sum(<i,_> in 0:N) { exp(i) -> V(i) }", "whole numbers"),
    ("{ 1 -> V(0) } + { (1, 2) -> V(1) }", "numbers of keys"),
    ("CREATE int SCALAR N;", "one expression"),
    ("sum(<i,_> in 0:shape) { i -> V(i) }", "reserved"),
])
def test_what_is_no_mapping_says_why(text, word):
    with pytest.raises(StorageError, match=word):
        tr.storage(text)


def test_wrong_tensors_and_arrays_say_why():
    lower = storage("lower triangular")
    with pytest.raises(StorageError, match=r"cell \(0, 1\)"):
        tr.tensor(np.ones((3, 3)), format=lower)
    with pytest.raises(StorageError, match="axes"):
        tr.tensor(np.ones(3), format=lower)
    csr = storage("csr")
    with pytest.raises(StorageError, match="also needs C_len1"):
        csr.tensor(C_pos2=[0], C_idx2=[], C_val=[])
    with pytest.raises(StorageError, match="has no array"):
        csr.tensor(C_len1=0, C_pos2=[0], C_idx2=[], C_val=[], other=1)
    with pytest.raises(StorageError, match="reads C_idx2"):
        csr.tensor(C_len1=1, C_pos2=[0, 2], C_idx2=[0], C_val=[1.0, 2.0])
    with pytest.raises(StorageError, match=r"differ|read back"):
        tr.tensor(np.arange(9.0).reshape(3, 3), format=storage("symmetric"))


def test_higher_ranks():
    rng = np.random.default_rng(11)
    x = np.where(rng.random((4, 5, 6)) < 0.3, rng.random((4, 5, 6)), 0)
    texts = {
        "csf": "sum(<p,i> in idx0) sum(<q,j> in idx1(pos1(p):pos1(p+1)))"
               " sum(<r,k> in idx2(pos2(q):pos2(q+1))) { (i,j,k) -> val(r) }",
        "coo": "sum(<p,i> in idx0) { (i, idx1(p), idx2(p)) -> val(p) }",
        "matrix of rows": "sum(<i,_> in 0:M, <j,_> in 0:N)"
                          " sum(<p,k> in idx(pos(i*N+j):pos(i*N+j+1))) { (i,j,k) -> val(p) }",
        "dense": "sum(<i,_> in 0:M, <j,_> in 0:N, <k,_> in 0:K) { (i,j,k) -> V((k*M+i)*N+j) }",
        "last first": "sum(<k,_> in 0:K) sum(<p,i> in idx(pos(k):pos(k+1)))"
                      " sum(<j,_> in 0:N) { (i,j,k) -> val(p*N+j) }",
    }
    b, c = rng.random((5, 3)), rng.random((6, 3))
    want = np.einsum("ijk,jr,kr->ir", x, b, c)
    for name, text in texts.items():
        t = tr.tensor(x, format=tr.storage(text))
        assert np.array_equal(t.to_numpy(), x), name
        assert np.allclose(tr.einsum("ijk,jr,kr->ir", t, b, c).to_numpy(), want), name
        assert np.allclose(t.sum(axis=1).to_numpy(), x.sum(axis=1)), name
    v = rng.random(7)
    one = tr.tensor(v, format=tr.storage("sum(<p,i> in idx) { i -> val(p) }"))
    assert np.array_equal(one.to_numpy(), v)


def test_patterns_without_values():
    text = "sum(<i,_> in 0:M) sum(<p,j> in idx(pos(i):pos(i+1))) { (i,j) -> 1 }"
    a = (np.random.default_rng(2).random((6, 7)) < 0.3).astype(float)
    t = tr.tensor(a, format=tr.storage(text))
    assert np.array_equal(t.to_numpy(), a)
    assert np.allclose((t @ np.arange(7.0)).to_numpy(), a @ np.arange(7.0))
    with pytest.raises(StorageError):
        tr.tensor(2 * a, format=tr.storage(text))


def test_alternatives_take_mappings():
    rng = np.random.default_rng(4)
    a = np.where(rng.random((50, 50)) < 0.1, rng.random((50, 50)), 0)
    both = tr.alternatives(tr.tensor(a, format=storage("csr")), tr.tensor(a, format=storage("csc")))
    assert np.allclose((both.T @ both).to_numpy(), a.T @ a)


@pytest.mark.parametrize("name", NAMES)
def test_kept_in_files(name, tmp_path):
    """A database and an .npz keep the mapping with the tensor."""
    a = matrix(name, np.random.default_rng(5), 8, 8, 0.4)
    t = tr.tensor(a, format=storage(name))
    with tr.connect(tmp_path / "db") as db:
        db["A"] = t
    db = tr.connect(tmp_path / "db")
    tr.write(tmp_path / "a.npz", db["A"])
    for found in (db["A"], tr.read(tmp_path / "a.npz")):
        np.testing.assert_array_equal(found.to_numpy(), a)
        np.testing.assert_array_equal((found @ np.ones(8)).to_numpy(), a.sum(1))
        stored = found.stored
        assert stored.format.levels == t.stored.format.levels
        assert [x.tolist() for x in stored.arrays.values()] == [
            x.tolist() for x in t.stored.arrays.values()]
    db.verify()
    db.close()


@pytest.mark.parametrize("text", ["", "3", "[]", '["x"]', '["x", [3, {}]]', '["x", ["0", 3]]',
                                  "[" * 9999,
                                  '["x", ["sum(", {}]]', '["x", ["V(0)", {"V": "x"}]]'])
def test_damaged_texts_are_refused(text):
    with pytest.raises(ValueError) as caught:
        tr.tensor([[1.0]], format=f"storage {text}")
    assert isinstance(caught.value, tr.errors.TensorelError)


def test_figure_1_of_the_paper():
    """MTTKRP over CSF, CSR and CSR as mappings: one nest over B's levels, a merge inside, no
    other operand is made but D by its other axis."""
    rng = np.random.default_rng(0)

    def some(shape, count):
        coords = [rng.integers(0, n, count) for n in shape]
        return tr.from_coo(coords, rng.random(count) + 0.5, shape, duplicates="sum")

    csf = tr.storage(
        "sum(<i_pos, i> in B_idx1) sum(<k_pos, k> in B_idx2(B_pos2(i_pos):B_pos2(i_pos+1)))"
        "sum(<l_pos, l> in B_idx3(B_pos3(k_pos):B_pos3(k_pos+1))) { (i,k,l) -> B_val(l_pos) }")
    b = some((300, 400, 500), 60_000).to_format(csf)
    c, d = (some(shape, shape[0] * shape[1] // 32).to_format(storage("csr"))
            for shape in ((400, 50), (50, 500)))
    program = tr.sdql(
        "sum(<(i,k,l), B_v> in B, <(k,j), C_v> in C, <(j,l), D_v> in D)"
        "{ (i, j) -> B_v * C_v * D_v }", B=b, C=c, D=d)
    steps = program.explain().to_dict()["steps"]
    kernels = [s for s in steps if s["kind"] == "kernel"]
    assert len(kernels) == 1 and len(steps) <= 2
    want = np.einsum("ikl,kj,jl->ij", b.to_numpy(), c.to_numpy(), d.to_numpy())
    assert np.allclose(program.to_numpy(), want)


def test_sizes_and_numbers_that_do_not_fit():
    two = tr.storage("sum(<i,_> in 0:M,<j,_> in 0:N) {(i,j) -> V(i*N+j)}", N=2)
    with pytest.raises(StorageError, match="has 2 coordinates"):
        tr.tensor([[1.0, 2.0, 3.0]], format=two)
    lower = storage("lower triangular")
    for wrong in ({"N": -3}, {"N": [1, 2]}, {"N": 2.5}, {"N": 1, "shape": (2,)}):
        with pytest.raises(StorageError):
            lower.tensor(**({"A_val": [1.0, 2.0]} | wrong))
    for wrong in ("x", 2.5, None):
        with pytest.raises(StorageError, match="whole number"):
            tr.storage(two.text, N=wrong)
    with pytest.raises(TypeError):
        tr.storage(3)
    with pytest.raises(MemoryError), tr.options(memory="8GB"):
        tr.from_coo([[0, 10**9], [0, 5]], [1.0, 2.0], (10**9 + 1, 10**9 + 1), format=tr.storage(
            "sum(<i,_> in 0:N, <j,_> in 0:i+1) { (i,j) -> V(i*(i+1)/2+j) }"))


def test_taken_from_a_known_layout_with_a_name_of_its_own():
    """Fuzz 55001:4490: the result was asked for by the name of the user's storage."""
    text = ("sum(<p,j> in idx0) sum(<q,i> in idx1(pos1(p):pos1(p+1)))"
            " sum(<r,k> in idx2(pos2(q):pos2(q+1))) { (i,j,k) -> val(r) }")
    x = np.arange(24.0).reshape(2, 3, 4) % 5
    t = tr.tensor(x, format=tr.storage(text, "own"))
    for axis in range(3):
        for at in ([0, 0, 0], [1], []):
            index = np.array(at, dtype=np.int64)
            assert np.array_equal(
                tr.take(t, index, axis=axis).to_numpy(), np.take(x, index, axis=axis))
