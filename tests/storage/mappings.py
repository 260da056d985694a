"""Storage mappings for the tests: those of the paper, and layouts that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass

Array = npt.NDArray[np.float64]
EXAMPLES = Path(__file__).parents[2] / "examples" / "storage"


@dataclass(frozen=True)
class Case:
    """A mapping, what it fixes, which matrices it can store, and whether it is a known stack."""

    text: str
    fixed: dict[str, int]
    fit: Callable[[Array], Array] | None = None  # the nearest matrix that it can store
    square: bool = False
    power: bool = False  # of two
    stack: str | None = None


def _symmetric(a: Array) -> Array:
    return a + a.T


def _tridiagonal(a: Array) -> Array:
    return np.triu(np.tril(a, 1), -1)


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.sdql").read_text()


PAPER = {
    "dense": Case(
        "CREATE int SCALAR M, N; CREATE ARRAY V(M*N);"
        "CREATE TENSOR C AS sum (<i,> in 0:M, <j,> in 0:N) { (i,j) -> V(i*N+j) };",
        {}, stack="dense"),
    "column-major": Case(
        "sum (<i,> in 0:M, <j,> in 0:N) { (i,j) -> V(j*M+i) }", {}, stack="dense_f"),
    "csr": Case(
        "CREATE TENSOR C AS sum(<row,> in 0:C_len1)"
        "{ @unique row -> sum(<off,col> in C_idx2( C_pos2(row):C_pos2(row+1) ))"
        "  { @unique col -> C_val(off) } }", {}, stack="csr"),
    "csc": Case(
        "sum(<col,_> in 0:N) sum(<off,row> in idx(pos(col):pos(col+1)))"
        "{ (row, col) -> val(off) }", {}, stack="csc"),
    "dcsr": Case(
        """CREATE int ARRAY C_pos1(2);
        CREATE int ARRAY C_idx1(C_pos1(1));
        CREATE int ARRAY C_pos2(C_pos1(1)+1);
        CREATE int ARRAY C_idx2(C_pos2(C_pos1(1)));
        CREATE real ARRAY C_val(C_pos2(C_pos1(1)));
        CREATE TENSOR C AS
          sum (<i_pos, i> in C_idx1)
            let j_start = C_pos2(i_pos),
                j_end = C_pos2(i_pos+1)
            in sum (<j_pos, j> in C_idx2(j_start:j_end))
              { (i,j) -> C_val(j_pos) }""", {}, stack="dcsr"),
    "coo": Case("sum(<p,i> in idx1) { (i, idx2(p)) -> val(p) }", {}, stack="coo"),
    "hash map": Case(
        "CREATE real HASHMAP H(M,N); CREATE TENSOR C AS sum (<(i,j),v> in H) { (i,j) -> v };", {},
        stack="dok"),
    "trie": Case(
        "CREATE real TRIE T(M)(N);"
        "CREATE TENSOR C AS sum (<i,row> in T, <j,v> in row) { (i,j) -> v };", {}, stack="trie"),
    "lower triangular": Case(  # the paper prints i*(i-1)/2, which clashes
        "CREATE real ARRAY A_val(N*(N+1)/2);"
        "CREATE TENSOR A AS // lower triangular\n"
        "sum (<i,> in 0:N, <j,> in 0:(i+1)) { (i,j) -> A_val(i*(i+1)/2+j) }",
        {}, np.tril, square=True),
    "band": Case(  # the paper prints p < N, which reads behind the array
        "CREATE real ARRAY B_val(3*N-2);"
        "CREATE TENSOR B AS // band matrix\n"
        "sum (<p,> in 0:N) { (p,p) -> B_val(3*p) } +"
        "if (p < N-1) then { (p,p+1) -> B_val(3*p+1), (p+1,p) -> B_val(3*p+2) }",
        {}, _tridiagonal, square=True),
    "z-order": Case(
        "CREATE real ARRAY C_val(N*N);"
        "CREATE TENSOR C(N, N) AS sum (<d,v> in C_val)"
        "let i = even_bits(d), j = odd_bits(d) in { (i,j) -> v }", {}, square=True, power=True),
}
OWN = {
    "blocked csr": Case(example("blocked_csr"), {"R": 2, "C": 3}),
    "ell": Case(example("ell"), {}),
    "diagonal": Case(example("diagonal"), {}),
    "run-length": Case(example("run_length"), {}),
    "symmetric": Case(example("symmetric"), {}, _symmetric, square=True),
    "symmetric, two parts": Case(
        "sum(<i,_> in 0:N) ((sum(<j,_> in 0:i+1) {@shared (i,j) -> V(i*(i+1)/2+j)})"
        "+ sum(<j,_> in i+1:N) {@shared (i,j) -> V(j*(j+1)/2+i)})", {}, _symmetric, square=True),
    "flat": Case(
        "CREATE real ARRAY V(M*N); CREATE TENSOR A(M,N) AS sum(<p,v> in V) {(p/N, p%N) -> v}", {},
        stack="dense"),
    "padded ell": Case(
        "CREATE int ARRAY idx(M*K); CREATE real ARRAY val(M*K); CREATE TENSOR A(M,N) AS "
        "sum(<i,_> in 0:M, <s,_> in 0:K) if (idx(i*K+s) < N) then "
        "{(i, idx(i*K+s)) -> val(i*K+s)}", {}),
    "diagonal matrix": Case(
        "CREATE real ARRAY D(N); CREATE TENSOR A AS sum(<i,v> in D) {(i,i) -> v}", {},
        lambda a: np.diag(np.diag(a)), square=True),
}
ALL = PAPER | OWN
