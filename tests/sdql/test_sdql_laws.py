"""What programs mean: zeros, total dictionaries, kinds, extents, and fusion without its faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sdql_programs import fuzz_sdql

import tensorel as tr
from tensorel.errors import ParseError
from tensorel.ir import nodes as ir
from tensorel.sdql.desugar import desugar
from tensorel.sdql.meaning import dense, meaning, table
from tensorel.sdql.parser import parse
from tensorel.sdql.typing import Type, Types

A = np.array([[0.0, 2, 0], [0, 0, 0], [1, 0, 3]])
V = np.array([0.0, 4, 0, 5, 0, 0])
KINDS = {"b": "bool", "i": "int", "f": "real"}


def both(text: str, **given: Any) -> Any:
    """The result, which is the same by the interpreter and for every storage."""
    core = desugar(parse(text))
    arrays = {n: np.asarray(a) for n, a in given.items()}
    types = Types(core, {n: Type(KINDS[a.dtype.kind], a.ndim) for n, a in arrays.items()}, text)
    lazy = tr.sdql(text, **given)
    found = np.asarray(lazy.to_numpy())
    value = meaning(core, {n: table(a) for n, a in arrays.items()}, types)
    assert np.allclose(found, dense(value, found.shape)), text
    for name in ("coo", "csf"):
        stored = {n: tr.tensor(a, name) if a.ndim else a for n, a in arrays.items()}
        assert np.array_equal(found, tr.sdql(text, **stored).to_numpy()), (text, name)
    return found.tolist()


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_random_programs_mean_what_they_say(first: int) -> None:
    refused, wrong = fuzz_sdql(11, range(first, first + 60))
    assert not wrong, wrong[0][1]
    assert refused < 12


# -- zeros and total dictionaries -----------------------------------------------------------------
def test_a_sum_visits_what_is_not_zero() -> None:
    assert both("sum(<i, v> in V) 1", V=V) == 2
    assert both("sum(<i, v> in V) { i -> cos(v - v) }", V=V) == [0, 1, 0, 1, 0, 0]
    assert both("sum(<i, row> in A) { i -> 1 }", A=A) == [1, 0, 1]
    assert both("sum(<(i, j), v> in A) 1", A=A) == 3
    assert both("sum(<k, v> in { 0 -> 3, 0 -> -3, 2 -> 1 }) 1") == 1


def test_a_range_and_a_sub_array_are_total() -> None:
    assert both("sum(<k, v> in 0:n) 1", n=4) == 4
    assert both("sum(<k, v> in V(0:3)) 1", V=V) == 3
    assert both("sum(<k, v> in V(4:8)) { k -> v + 1 }", V=V) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert both("sum(<k, row> in A(0:2)) 1", A=A) == 2
    assert both("sum(<k, v> in 5:2) 1") == 0
    assert both("sum(<k, v> in if (n > 3) then 0:n) 1", n=3) == 0
    assert tr.sdql("CREATE ARRAY V(6); sum(<k, v> in V) 1", V=V).item() == 6


def test_a_tensor_is_not_total_whatever_it_is_made_of() -> None:
    text = "CREATE ARRAY V(6); CREATE TENSOR T AS V; CREATE TENSOR R AS 0:4; "
    assert tr.sdql(text + "sum(<k, v> in T) 1", V=V).item() == 2
    assert tr.sdql(text + "sum(<k, v> in R) 1", V=V).item() == 3


def test_a_key_without_a_value_reads_as_zero() -> None:
    assert both("V(17) + V(-1) + V(3)", V=V) == 5
    assert both("A(7)(0) + A(2, 2)", A=A) == 3
    assert both("(2:5)(3) + (2:5)(5)") == 3


# -- fusion with its preconditions violated -------------------------------------------------------
def test_f1_needs_a_body_that_is_zero_with_the_value() -> None:
    assert both("sum(<k, v> in V) if (k == 2) then 1", V=V) == 0  # rewritten as printed: 1
    assert both("sum(<k, v> in V) if (k == 3) then 1", V=V) == 1
    assert both("sum(<k, v> in V) if (k == 9) then v + 1", V=V) == 0  # outside the range
    assert both("sum(<i, w> in W) sum(<k, v> in V) if (k == w) then 1", V=V,
                W=np.array([3, 2, 8, -1])) == 1


def test_f2_and_f3_need_values_that_are_not_zero() -> None:
    inner = "sum(<k2, v2> in V) { k2 -> v2 - 4 }"
    assert both(f"sum(<k1, v1> in {inner}) 1", V=V) == 1  # fused as printed: 2
    inner = "sum(<k2, v2> in V) { @unique k2 + 1 -> v2 - 4 }"
    assert both(f"sum(<k1, v1> in {inner}) k1", V=V) == 4


def test_f3_needs_distinct_keys() -> None:
    inner = "sum(<k2, v2> in V) { k2 / 4 -> v2 }"  # both values at key 0
    assert both(f"sum(<k1, v1> in {inner}) v1 * v1", V=V) == 81  # fused: 16 + 25
    assert both(f"sum(<k1, v1> in {inner}) 1", V=V) == 1


COO = """
CREATE int ARRAY rows(4), cols(4); CREATE ARRAY vals(4);
CREATE TENSOR C(3, 3) AS sum(<p, i> in rows) { @unique (i, cols(p)) -> vals(p) };
"""
CSR = """
CREATE int ARRAY pos(4), cols(4); CREATE ARRAY vals(4);
CREATE TENSOR C(3, 3) AS sum(<i,> in 0:3)
  { i -> sum(<p, j> in cols(pos(i):pos(i + 1))) { @unique j -> vals(p) } };
"""
ENTRIES = {"rows": [0, 0, 2, 2], "pos": [0, 2, 2, 4], "cols": [1, 0, 2, 0],
           "vals": [2.0, 0.0, 3.0, -1.0]}
MATRIX = np.array([[0.0, 2, 0], [0, 0, 0], [-1, 0, 3]])


@pytest.mark.parametrize("mapping", [COO, CSR])
@pytest.mark.parametrize(("text", "expected"), [
    ("sum(<(i, j), c> in C, <j, x> in X) { i -> c * x }", MATRIX @ [1, 2, 3]),
    ("sum(<(i, j), c> in C) { i -> c * c }", (MATRIX**2).sum(axis=1)),
    ("sum(<(i, j), c> in C) { j -> 1 }", (MATRIX != 0).sum(axis=0)),
    ("sum(<(i, j), c> in C, <(j, k), d> in C) { (i, k) -> c * d }", MATRIX @ MATRIX),
    ("sum(<(i, j), c> in C) { (j, i) -> if (c > 0) then cos(c) }",
     np.where(MATRIX.T > 0, np.cos(MATRIX.T), 0)),
])
def test_f3_leaves_no_trace_of_a_mapping(mapping: str, text: str, expected: Any) -> None:
    """One formula over the arrays: no dictionary between, and entries that are zero not visited."""
    given = {n: np.array(a) for n, a in ENTRIES.items() if f"{n}(" in mapping}
    found = tr.sdql(mapping + text, X=np.array([1.0, 2, 3]), **given)
    assert np.allclose(found.to_numpy(), expected)
    assert found.shape == expected.shape
    lambdas = [n for n in ir.postorder(found.node) if isinstance(n, ir.Lambda)]
    assert len(lambdas) == 1


def test_f4_merges_unsorted_values_with_duplicates() -> None:
    p, q = np.array([7.0, 3, 3]), np.array([3.0, 7, 3])
    assert both("merge(<a, b, v> in <P, Q>) v", P=p, Q=q) == 7 + 4 * 3


def test_ranges_are_as_their_definition_says() -> None:
    """T4 and T5 as printed are off by the start of the range."""
    assert both("sum(<k, v> in 2:5) { k -> v }") == [0, 0, 2, 3, 4]


# -- kinds ----------------------------------------------------------------------------------------
def test_division_of_whole_numbers_is_their_floor() -> None:
    assert both("n * (n + 1) / 2 + 0 / n", n=4) == 10
    assert both("(0 - 7) / 2") == -4
    assert both("real(7) / 2") == 3.5
    assert both("sum(<i, v> in W) { i -> v / 2 }", W=np.array([3, 4, 5])) == [1, 2, 2]
    assert both("(V + V) / 0.0", V=V)[:2] == [0, float("inf")]  # no key, no value


def test_truth_values_are_a_semiring() -> None:
    assert both("sum(<i, v> in V) (v > 4)", V=V) is True
    assert both("{ 1 -> V(1) > 3 } * { 1 -> V(3) > 3 }", V=V) == [False, True]
    assert both("(V(1) > 3) + (V(3) > 9)", V=V) is True
    assert both("sum(<i, v> in V) 2 * (v > 4)", V=V) == 2


@pytest.mark.parametrize(("text", "wanted"), [
    ("(sum(<i, b> in B) b) + 1", 2),
    ("2 * (sum(<i, b> in B) b)", 2),
    ("(sum(<i, b> in B) { i % 2 -> b }) + { 0 -> 1 }", [2, 1]),
    ("-(sum(<i, b> in B) { i % 2 -> b })", [-1, -1]),
    ("(sum(<i, b> in B) { i % 2 -> b }) / 2.0", [0.5, 0.5]),
    ("if (B(0)) then sum(<i, b> in B) { i % 2 -> b } else { 0 -> 2.5 }", [1, 1]),
    ("let D = sum(<i, b> in B) { i % 2 -> b } in sum(<k, v> in D) { k -> v * 2 }", [2, 2]),
    ("sum(<k, v> in sum(<i, b> in B) { i % 2 -> b }) { 0 -> -v }", [-2]),
    ("sum(<k, v> in sum(<i, b> in B) { i % 2 -> b }) (if (k > 0) then v else 3)", 4),
])
def test_truth_values_are_added_before_they_are_numbers(text: str, wanted: object) -> None:
    assert both(text, B=np.array([True, True, True, False])) == wanted


def test_shortest_paths() -> None:
    text = "sum(<(i,j), a> in A, <(j,k), b> in A) { (i,k) -> promote[mnsm](a) * promote[mnsm](b) }"
    found = tr.sdql(text, A=A).to_numpy()
    inf = float("inf")
    lengths = np.where(A == 0, inf, A)
    assert np.array_equal(found, np.min(lengths[:, :, None] + lengths[None], axis=1))
    assert found[0, 0] == inf


def test_kinds_and_dtypes() -> None:
    single = np.ones(3, np.float32)
    assert tr.sdql("2 * X + 1.5 * X", X=single).dtype == np.float32
    assert tr.sdql("sum(<i, x> in X) x", X=np.ones(3, np.int8)).dtype == np.int64
    assert tr.sdql("sum(<i, x> in X) x * x", X=np.ones(3) * 1j).item() == -3


def test_bits() -> None:
    assert both("sum(<k, _> in 0:20) { k -> even_bits(k) * 100 + odd_bits(k) }")[19] == 501
    assert tr.sdql("sum(<k, _> in 0:16) { (even_bits(k), odd_bits(k)) -> 1 }").shape == (4, 4)


# -- extents --------------------------------------------------------------------------------------
def test_extents_follow_from_the_keys() -> None:
    assert tr.sdql("sum(<i, v> in V) { 2 * i + 1 -> v }", V=V).shape == (12,)
    assert tr.sdql("sum(<i, v> in V) if (i < n - 2) then { i + 1 -> v }", V=V, n=4).shape == (3,)
    assert tr.sdql("sum(<(i, j), a> in A) if (i < j) then { (i, j) -> a }", A=A).shape == (3, 3)
    assert tr.sdql("sum(<k, _> in -3:5) if (k >= 0) then { k -> 1 }").shape == (5,)
    assert tr.sdql("sum(<p, i> in I(0:3)) { i -> p }", I=np.array([4, 0, 7])).shape == (8,)
    assert tr.sdql("CREATE TENSOR T(9) AS sum(<i, v> in V) { i -> v }", V=V).shape == (9,)
    assert tr.sdql("CREATE TENSOR T(2) AS V; T", V=V).to_numpy().tolist() == [0, 4]


REFUSED = [
    ("sum(<i, v> in V) { i - 1 -> v }", "keys may be negative", 1),
    ("sum(<i, v> in V) { int(v) -> i }", "no bounds that can be seen", 1),
    ("W", "unknown name 'W'", 1),
    ("V + 1", "one depth", 3),
    ("V * A", "one depth or a scalar", 3),
    ("exp(V)", "exp takes scalars", 5),
    ("V(1.5)", "a key is a scalar of kind int", 3),
    ("sum(<i, v> in 3) v", "a dictionary is needed", 15),
    ("promote[min_plus](V(1)) + 1", "do not mix", 25),
    ("if (V) then 1", "a test takes scalars", 5),
    ("0:sum(<i, v> in V) i", "bounds of the range are not known", 2),
    ("CREATE int ARRAY V(6); V", "has 1 axes and dtype float64", 18),
    ("CREATE ARRAY V(5); V", "has shape (6,), declared is (5,)", 14),
    ("CREATE ARRAY W(5); V", "declared and not given", 14),
    ("CREATE SCALAR n;", "not given", 15),
    ("", "no expression", 1),
    ("sum(<_, v> in V) _", "_ is no variable", 18),
]


@pytest.mark.parametrize(("text", "message", "column"), REFUSED)
def test_what_is_refused(text: str, message: str, column: int) -> None:
    with pytest.raises(ParseError) as error:
        tr.sdql(text, V=V, A=A)
    assert message in str(error.value)
    assert error.value.column == column


def test_names_of_the_language_are_no_names_of_tensors() -> None:
    for name in ("exp", "sum", "create"):
        with pytest.raises(tr.errors.TypeError_, match="cannot be the name"):
            tr.sdql("1", **{name: 1})
    with pytest.raises(tr.errors.TypeError_, match="text of the program"):
        tr.sdql(1)  # type: ignore[arg-type]


def test_the_function_is_not_hidden_by_the_package() -> None:
    assert callable(tr.sdql)
