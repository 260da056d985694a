"""Every program and mapping that Schleich, Shaikhha, Suciu print, on every storage of its inputs.

Misprints are corrected here; docs/reference/sdqlite.md lists them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import ParseError

rng = np.random.default_rng(2)
FORMATS = {0: (None,), 1: ("dense", "coo", "dok"), 3: ("dense", "csf", "coo"),
           2: ("dense", "csr", "csc", "coo", "dcsr", "trie")}


def sparse(*shape: int) -> Any:
    return np.where(rng.random(shape) < 0.4, rng.integers(-4, 5, shape), 0).astype(float)


A, B, C, D = sparse(5, 4), sparse(4, 6), sparse(4, 3), sparse(3, 6)
T, M, U, V = sparse(5, 4, 6), sparse(4, 4), sparse(6), sparse(6)
X = sparse(4)

PROGRAMS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "figure 1a": (
        "CREATE TENSOR A AS\nsum(<(i,k,l), B_v> in B, <(k,j), C_v> in C, <(j,l), D_v> in D)\n"
        "{ (i, j) -> B_v * C_v * D_v }",
        {"B": T, "C": C, "D": D}, np.einsum("ikl,kj,jl->ij", T, C, D)),
    "filter": ("sum(<i, v> in V)\n if v > 0 then { i -> 5 * v }", {"V": V},
               np.where(V > 0, 5 * V, 0)),
    "dot": ("sum(<i, u> in U, <i, v> in V) { () -> u * v }", {"U": U, "V": V}, U @ V),
    "elementwise": ("sum(<i, u> in U, <i, v> in V) { i -> u * v }", {"U": U, "V": V}, U * V),
    "scaled": ("sum(<i, v> in V) { i -> a * v }", {"V": V, "a": 2.5}, 2.5 * V),
    "scaled, short": ("a * V", {"V": V, "a": 2.5}, 2.5 * V),
    "sum of matrices": ("M + N", {"M": M, "N": M.T.copy()}, M + M.T),
    "product of matrices": ("M * N", {"M": M, "N": M.T.copy()}, M * M.T),
    "example 3.1": ("sum(<<i, j>, a> in A, <<j, k>, b> in B) { (i, k) -> a * b }",
                    {"A": A, "B": B}, A @ B),
    "example 3.1, core": (
        "sum(<i, rowA> in A) sum(<j_1, a> in rowA)\n"
        "sum(<j_2, rowB> in B) sum(<k, b> in rowB)\n"
        "if (j_1 == j_2) then { i -> { k -> a * b } }", {"A": A, "B": B}, A @ B),
    "example 3.1, ranges": (
        "sum(<i, _> in 0 : m, <j, _> in 0 : n, <k, _> in 0 : p)\n"
        "{ (i, k) -> A(i, j) * B(j, k) }", {"A": A, "B": B, "m": 5, "n": 4, "p": 6}, A @ B),
    "example 5.1": ("sum(<i, a> in A, <i, b> in B) { () -> a * b }", {"A": U, "B": V}, U @ V),
    "example 5.1, core": ("sum(<i, a> in A) sum(<j, b> in B) if(i==j) then { () -> a * b }",
                          {"A": U, "B": V}, U @ V),
    "example 5.1, by look-up": ("sum(<i, a> in A) let k = i, v = B(k) in a * v",
                                {"A": U, "B": V}, U @ V),
    "section 5.5": ("sum(<i, v> in A) if (v==25) then {i -> i*3}",
                    {"A": np.array([0.0, 25, 3, 25])}, np.array([0, 3, 0, 9])),
    "section 5.6": ("sum(<i, vb> in b) {i -> a*vb}", {"a": 2.0, "b": U}, 2 * U),
    "merge": ("merge(<k1, k2, v> in <P, Q>) { (k1, k2) -> v }",
              {"P": np.array([3.0, 5, 7]), "Q": np.array([2.0, 3, 7, 9])},
              np.array([[0, 3, 0, 0], [0, 0, 0, 0], [0, 0, 7, 0]])),
    "MMM": ("sum(<(i,k), a> in A, <(k,j), b> in B) { (i,j) -> a * b }", {"A": A, "B": B}, A @ B),
    "sum MMM": ("sum(<(i,k), a> in A, <(k,j), b> in B) { () -> a * b }", {"A": A, "B": B},
                (A @ B).sum()),
    "BATAX": (
        "sum(<i, Ai> in A)\n sum(<j, Aij> in Ai)\n  sum(<k, Aik> in Ai)\n"
        "   { j -> beta * Aij * Aik * x(k) }", {"A": A, "x": X, "beta": 0.5},
        0.5 * A.T @ (A @ X)),
    "BATAX, one factor out": (
        "sum(<i, Ai> in A)\n sum(<j, Aij> in Ai)\n  { j -> sum(<k, Aik> in Ai)\n"
        "   beta * Aij * Aik * x(k) }", {"A": A, "x": X, "beta": 0.5}, 0.5 * A.T @ (A @ X)),
    "BATAX, two factors out": (
        "sum(<i, Ai> in A)\n let t = (sum(<k, Aik> in Ai) Aik * x(k))\n"
        " in (sum(<j, Aij> in Ai) { j -> beta * Aij * t })", {"A": A, "x": X, "beta": 0.5},
        0.5 * A.T @ (A @ X)),
    "TTM": ("sum(<(i,j,l), a> in A, <(k,l), b> in B) { (i,j,k) -> a * b }", {"A": T, "B": D},
            np.einsum("ijl,kl->ijk", T, D)),
    "MTTKRP": ("sum(<(i,k,l), a> in A, <(k,j), b> in B, <(l,j), c> in C) { (i,j) -> a*b*c }",
               {"A": T, "B": C, "C": D.T.copy()}, np.einsum("ikl,kj,jl->ij", T, C, D)),
}


@pytest.mark.parametrize("turn", range(6))
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, turn: int) -> None:
    text, arrays, expected = PROGRAMS[name]
    given = {}
    for k, (n, a) in enumerate(arrays.items()):
        names = FORMATS[np.ndim(a)]
        given[n] = tr.tensor(a, names[(turn * (k + 1) + k) % len(names)])
    found = tr.sdql(text, **given).to_numpy()
    whole = np.zeros(np.shape(expected))
    whole[tuple(slice(n) for n in np.shape(found))] = found
    assert np.allclose(whole, expected)


# -- storage mappings -----------------------------------------------------------------------------
def csr(a: Any) -> dict[str, Any]:
    rows, cols = np.nonzero(a)
    pos = np.concatenate([[0], np.cumsum(np.count_nonzero(a, axis=1))])
    return {"pos": pos, "idx": cols, "val": a[rows, cols]}


def dcsr(a: Any, name: str) -> dict[str, Any]:
    kept = np.flatnonzero(a.any(axis=1))
    inner = csr(a[kept])
    return {f"{name}_pos1": np.array([0, len(kept)]), f"{name}_idx1": kept,
            f"{name}_pos2": inner["pos"], f"{name}_idx2": inner["idx"],
            f"{name}_val": inner["val"]}


E = np.array([[6.0, 0, 9, 8], [0, 0, 0, 0], [5, 0, 0, 7]])  # figure 1b
_csr = {f"C_{n}": a for n, a in zip(("pos2", "idx2", "val"), csr(E).values())}
SQUARE = np.arange(16.0).reshape(4, 4) + 1
LOWER = np.tril(SQUARE)
BAND = SQUARE * (np.abs(np.subtract.outer(np.arange(4), np.arange(4))) <= 1)

MAPPINGS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "figure 1c": (
        "CREATE int SCALAR C_len1; CREATE int ARRAY C_pos2(C_len1 + 1);\n"
        "CREATE int ARRAY C_idx2(C_pos2(C_len1)); CREATE ARRAY C_val(C_pos2(C_len1));\n"
        "CREATE TENSOR C AS sum(<row,> in 0:C_len1)\n{ row ->\n"
        "  sum(<off,col> in C_idx2( C_pos2(row):C_pos2(row+1) ))\n  { col -> C_val(off) }\n}",
        _csr | {"C_len1": 3}, E),
    "figure 1c, unique": (
        "CREATE TENSOR C AS sum(<row, > in 0:C_len1)\n  { @unique row ->\n"
        "    sum(<off, col> in C_idx2(C_pos2(row):C_pos2(row+1)))\n"
        "    { @unique col -> C_val(off) }\n  }", _csr | {"C_len1": 3}, E),
    "example 4.1": (
        "CREATE int SCALAR M, N; CREATE ARRAY V(M*N);\nCREATE TENSOR C AS\n"
        "  sum (<i,> in 0:M, <j,> in 0:N) { (i,j) -> V(i*N+j) };",
        {"M": 3, "N": 4, "V": E.ravel()}, E),
    "example 4.2": (
        "CREATE int ARRAY C_pos1(2);\nCREATE int ARRAY C_idx1(C_pos1(1));\n"
        "CREATE int ARRAY C_pos2(C_pos1(1)+1);\nCREATE int ARRAY C_idx2(C_pos2(C_pos1(1)));\n"
        "CREATE real ARRAY C_val(C_pos2(C_pos1(1)));\nCREATE TENSOR C AS\n"
        "  sum (<i_pos, i> in C_idx1)\n    let j_start = C_pos2(i_pos),\n"
        "        j_end = C_pos2(i_pos+1)\n    in sum (<j_pos, j> in C_idx2(j_start:j_end))\n"
        "      { (i,j) -> C_val(j_pos) }", dcsr(E, "C"), E),
    "example 4.3, hash map": (
        "CREATE int SCALAR M, N;\nCREATE real HASHMAP H(M,N);\n"
        "CREATE TENSOR C AS sum (<<i,j>,v> in H) { (i,j) -> v };",
        {"M": 3, "N": 4, "H": tr.tensor(E, "dok")}, E),
    "example 4.3, trie": (
        "CREATE int SCALAR M, N;\nCREATE real TRIE T(M)(N);\nCREATE TENSOR C AS\n"
        "  sum (<i,row> in T, <j,v> in row) { (i,j) -> v };",
        {"M": 3, "N": 4, "T": tr.tensor(E, "trie")}, E),
    "lower triangular": (  # printed: i*(i-1)/2+j, which clashes
        "CREATE int SCALAR N; CREATE real ARRAY A_val(N*(N+1)/2);\n"
        "CREATE TENSOR A AS // lower triangular\n  sum (<i,> in 0:N, <j,> in 0:(i+1))\n"
        "    { (i,j) -> A_val(i*(i+1)/2+j) }", {"N": 4, "A_val": SQUARE[np.tril_indices(4)]},
        LOWER),
    "band": (  # printed: p < N
        "CREATE int SCALAR N; CREATE real ARRAY B_val(3*N-2);\n"
        "CREATE TENSOR B AS // band matrix\n  sum (<p,> in 0:N)\n"
        "    { (p,p) -> B_val(3*p) } +\n  if (p < N - 1)\n    then { (p,p+1) -> B_val(3*p+1),\n"
        "          (p+1,p) -> B_val(3*p+2) }",
        {"N": 4, "B_val": np.array([SQUARE[p] for p in (
            (0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3))])},
        BAND),
    "Z-order": (
        "CREATE int SCALAR N; CREATE real ARRAY C_val(N*N); // N is power of 2\n"
        "CREATE TENSOR C AS // Z-order curve\n  sum (<d,v> in C_val)\n"
        "    let i = even_bits(d), // even bits of d\n        j = odd_bits(d) // odd bits of d\n"
        "    in { (i,j) -> v }",
        {"N": 4, "C_val": np.array([SQUARE[i, j] for i, j in (
            (0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0), (2, 1), (3, 1),
            (0, 2), (1, 2), (0, 3), (1, 3), (2, 2), (3, 2), (2, 3), (3, 3))])}, SQUARE),
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_mappings(name: str) -> None:
    text, given, expected = MAPPINGS[name]
    found = tr.sdql(text, **given)
    assert found.shape == expected.shape
    assert np.array_equal(found.to_numpy(), expected)


@pytest.mark.parametrize("name", MAPPINGS)
def test_programs_over_mappings(name: str) -> None:
    """The naive plan: the definition, then the program over its name."""
    text, given, expected = MAPPINGS[name]
    tensor = text[text.index("TENSOR") + 7]
    use = f"sum(<(i,j), v> in {tensor}, <j, x> in W) {{ i -> v * x }}"
    program = f"{text.rstrip().rstrip(';')};\n{use}"
    w = np.arange(1.0, expected.shape[1] + 1)
    assert np.allclose(tr.sdql(program, W=w, **given).to_numpy(), expected @ w)


def test_figure_1d() -> None:
    """The optimized MTTKRP over the arrays of B (CSF), C (CSR) and D (CSC)."""
    b, c, d = (T != 0) * T, C, D
    kept = np.flatnonzero(b.any(axis=(1, 2)))
    fibres = [(i, k) for i in kept for k in np.flatnonzero(b[i].any(axis=1))]
    counts = [int(b[i].any(axis=1).sum()) for i in kept]
    inner = csr(np.array([b[i, k] for i, k in fibres]))
    arrays = {
        "B_idx1": kept, "B_pos2": np.concatenate([[0], np.cumsum(counts)]),
        "B_idx2": np.array([k for _, k in fibres]), "B_pos3": inner["pos"],
        "B_idx3": inner["idx"], "B_val": inner["val"],
        **{f"C_{n}": a for n, a in csr(c).items()}, **{f"D_{n}": a for n, a in csr(d).items()},
    }
    declared = "".join(
        f"CREATE {'real' if n.endswith('val') else 'int'} ARRAY {n}({len(a)});\n"
        for n, a in arrays.items())
    text = declared + """
    sum(<i_pos, i> in B_idx1)
    { i ->
      sum(<k_pos, k> in
        B_idx2( B_pos2(i_pos):B_pos2(i_pos+1) ))
      sum(<j_pos, j> in
        C_idx( C_pos(k):C_pos(k+1) ))
      {
        j ->
        C_val(j_pos) * (
          merge(<l_posB,l_posD,l> in
            <B_idx3( B_pos3(k_pos):B_pos3(k_pos+1) ),
              D_idx( D_pos(j):D_pos(j+1) )>)
            B_val(l_posB) * D_val(l_posD)
          )
        }
    }"""
    expected = np.einsum("ikl,kj,jl->ij", b, c, d)
    found = tr.sdql(text, **arrays).to_numpy()
    whole = np.zeros(expected.shape)
    whole[: found.shape[0], : found.shape[1]] = found
    assert np.allclose(whole, expected)


def test_the_printed_band_guard_is_harmless_here() -> None:
    """p < N reads B_val(3*N-2) and B_val(3*N-1), which are outside and therefore 0."""
    text, given, expected = MAPPINGS["band"]
    found = tr.sdql(text.replace("p < N - 1", "p < N"), **given)
    assert np.array_equal(found.to_numpy(), expected)


def test_the_printed_triangular_formula_clashes() -> None:
    text, given, expected = MAPPINGS["lower triangular"]
    found = tr.sdql(text.replace("(i+1)/2+j) }", "(i-1)/2+j) }"), **given).to_numpy()
    assert found[1, 0] == found[0, 0] and not np.array_equal(found, expected)


def test_a_missing_then_is_said() -> None:
    with pytest.raises(ParseError, match="expected 'then'"):
        tr.sdql("sum(<j_1, a> in A) sum(<j_2, b> in A) if (j_1 == j_2) { j_1 -> a * b }", A=U)
