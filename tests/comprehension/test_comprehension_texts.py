"""Texts of comprehensions: the grammar, and errors at their place."""

import numpy as np
import pytest

import tensorel as tr
from tensorel.comprehension import syntax as s
from tensorel.comprehension.parser import parse
from tensorel.comprehension.printer import show
from tensorel.errors import ParseError, TypeError_, ValueError_

V = tr.asarray(np.array([1.0, 0.0, -2.0, 3.0]))
A = tr.tensor(np.array([[1, 2, 0], [0, 3, 4]]), format="csr")


@pytest.mark.parametrize(("text", "same"), [
    ("a + b * c", "a + (b * c)"),
    ("+/v / count/v", "(+/v) / (count/v)"),
    ("+/(v) * 2", "(+/v) * 2"),
    ("sum/v + mean/v", "+/v + avg/v"),
    ("-1 - -a", "(-1) - (-a)"),
    ("0..n-1", "0..(n - 1)"),
    ("if (a) then b else c + 1", "if (a) then b else (c + 1)"),
    ("if (a) b else c", "if (a) then b else c"),
    ("a < b && c || d", "((a < b) && c) || d"),
    ("tensor(n) [ (i, 1) | i <- 0..3 ]", "tensor(n)()[ (i, 1) | i <- 0..3 ]"),
    ("[ v | (i) <= n, ((i, j), v) <= A ]", "[ v | (i <= n), ((i, j), v) <= A ]"),
    ("[ v | v ← A, w ⇐ A ] // the end", "[ v | v <- A, w <= A ]"),
])
def test_spellings(text: str, same: str) -> None:
    assert parse(text) == parse(same)
    assert parse(show(parse(text))) == parse(text)


def test_a_bare_name_before_the_sign_is_a_full_scan() -> None:
    body = parse("[ v | i <= A, (i) <= n ]").body
    assert isinstance(body, s.Comprehension)
    assert isinstance(body.qualifiers[0], s.Draw) and body.qualifiers[0].full
    assert isinstance(body.qualifiers[1], s.Test)


@pytest.mark.parametrize(("text", "place", "words"), [
    ("[ v | (i, v) <- V", 17, "expected ']'"),
    ("[ v, (i, v) <- V ]", 3, r"expected '\|'"),
    ("+/[ w | (i, v) <- V ]", 4, "'w' is not known"),
    ("+/[ v | (i, j, v) <- V ]", 8, "a pattern of 3 does not fit a tuple of 2"),
    ("tensor(4)()[ (i, +/v) | (i, v) <- V ]", 17, "over a list or what a group has lifted"),
    ("tensor(4)()[ (i, v) | (j, v) <- V, group by i : j ]", 13, "one value for each member"),
    ("tensor(4)()[ (v, 1) | (i, v) <- V ]", 13, "a key is made of whole numbers, not of float64"),
    ("tensor(4,4)()[ (i, 1) | (i, v) <- V ]", 15, "keys have 1 parts, the tensor has 2 axes"),
    ("+/[ v | v <- 3 ]", 13, "a generator draws from a tensor, a range or a list"),
    ("+/[ i | i <= 3 ]", 13, "draws from a tensor"),
    ("foo(3)", 0, "'foo' is no function"),
    ("min(3)", 0, "min does not take 1 arguments"),
    ("if (a) then b", 13, "expected 'else'"),
    ("V[1, 2]", 1, "has 1 axes, not 2"),
    ("V", 0, None),
    ("tensor(V)()[ (i, 1) | i <- 0..2 ]", 7, "a number is needed here, not the tensor V"),
    ("a < b < c", 6, "cannot follow"),
    ("1 +", 3, "the text ends here"),
    ("1 ? 2", 2, "unexpected character"),
])
def test_errors_mark_their_place(text: str, place: int, words: str | None) -> None:
    if words is None:
        assert tr.comprehension(text, V=V).tolist() == V.tolist()
        return
    with pytest.raises(ParseError, match=words) as error:
        tr.comprehension(text, V=V, a=1, b=2, c=3, n=4)
    assert error.value.position == place


def test_names_of_the_language_are_refused() -> None:
    with pytest.raises(TypeError_, match="'max' cannot be the name of a tensor"):
        tr.comprehension("+/[ v | (i, v) <- V ]", V=V, max=3)
    with pytest.raises(TypeError_, match="a text or a function"):
        tr.comprehension(3)


def test_what_is_written_twice_says_where() -> None:
    with pytest.raises(ValueError_, match=r"2 choices write the cell \[0\]") as error:
        tr.comprehension("tensor(2)()[ (i, v) | ((i, j), v) <- A ]", A=A)
    assert "group by the key" in str(error.value)


def test_keys_outside_are_left_out_with_a_warning() -> None:
    with pytest.warns(tr.errors.ExtentWarning, match="outside of its extent 2 are left out"):
        found = tr.comprehension("tensor(2)()[ (i-1, v) | (i, v) <= V ]", V=V)
    assert found.tolist() == [0.0, -2.0]


def test_results_without_a_constructor() -> None:
    assert tr.comprehension("[ (i*2, v) | (i, v) <- V ]", V=V).tolist() == [1, 0, 0, 0, -2, 0, 3]
    assert tr.comprehension("+/[ v | (i, v) <- V ]", V=V).shape == ()


@pytest.mark.parametrize(("constructor", "name"), [
    ("tensor(2,3)()", "dense"), ("tensor(2,3)", "dense"), ("tensor(2)(3)", "csr"),
    ("tensor()(2,3)", "coo"), ("tensor*(2,3)()", "dense"), ("tensor*(2)(3)", "csr"),
])
@pytest.mark.parametrize("format", ["dense", "csr", "coo"])
def test_the_constructor_says_the_storage(constructor: str, name: str, format: str) -> None:
    given = A.to_format(format)
    for head in ("((i, j), 2 * a)", "((i, j), a > 1)"):
        found = tr.comprehension(f"{constructor}[ {head} | ((i, j), a) <- A ]", A=given)
        assert found.format == name
        assert found.compute().format == name
    assert tr.comprehension("tensor(2,2)(3)[ ((i,i,j), a) | ((i,j), a) <- A ]", A=A).format \
        == "0,1;2"


TYPEMAP = """
typemap lower[T] ( n: Int ): matrix[T] {
  def view ( a: Array[T] ) = [ ((i,j), a(i*(i+1)/2 + j)) | i <- 0..(n-1), j <- 0..i ]
  def store ( L: List[((Int,Int),T)] ) = { var a = Array.ofDim(n*(n+1)/2); a }
}
"""
ROWS = """
typemap rows[T] ( d: Int, s: Int ): matrix[T] {
  def view ( dense, sparse: Array[Int], values: Array[T] )
    = [ ((i, sparse[c]), values[c]) | i <- 0..(d-1), c <- dense[i]..(dense[i+1]-1) ] }
"""


@pytest.mark.parametrize("format", ["dense", "csr", "coo"])
def test_type_maps(format: str) -> None:
    lower = np.tril(np.arange(1.0, 17.0).reshape(4, 4))
    given = tr.tensor(lower, format=format)
    found = tr.comprehension(TYPEMAP + "lower(4)[ ((i,j), 2*v) | ((i,j),v) <- A ]", A=given)
    assert found.format == "lower" and found.nbytes == 80
    np.testing.assert_array_equal(found.to_numpy(), 2 * lower)
    again = tr.comprehension("tensor(4)()[ (i, +/v) | ((i,j),v) <- A, group by i ]",
                             A=found.compute())
    np.testing.assert_array_equal(again.to_numpy(), 2 * lower.sum(1))
    turned = tr.comprehension(ROWS + "rows(4, n)[ ((j,i), v) | ((i,j),v) <- A ]", A=given, n=4)
    assert turned.format == "rows"
    np.testing.assert_array_equal(turned.to_numpy(), lower.T)


def test_type_maps_that_say_nothing() -> None:
    with pytest.raises(ParseError, match="has no view"):
        tr.comprehension("typemap t(n: Int) { def store(L) = { 3 } } t(3)[ (i,1) | i <- 0..2 ]")
    with pytest.raises(ParseError, match="'b' is no array of the view"):
        tr.comprehension("typemap t(n: Int) { def view(a) = [ (i, b[i]) | i <- 0..n ] } "
                         "t(3)[ (i,1) | i <- 0..2 ]").compute()


@pytest.mark.parametrize("constructor", ["tensor(4)()", "tensor()(4)"])
@pytest.mark.parametrize("format", ["dense", "coo"])
def test_results_have_the_fill_zero(constructor: str, format: str) -> None:
    """Whatever their formula is where nothing is stored: programs that read them draw the same."""
    given = tr.tensor(V, format=format)
    more = tr.comprehension(f"{constructor}[ (i, v + 1) | (i, v) <= V ]", V=given)
    assert more.fill == 0
    assert tr.comprehension("count/[ v | (i, v) <- M ]", M=more).item() == 4
    stored = more.compute()
    assert stored.fill == 0 and stored.nnz == 4 and more.fill == 0
    assert stored.format == ("dense" if constructor == "tensor(4)()" else "coo")
    assert tr.comprehension("count/[ v | (i, v) <- M ]", M=stored).item() == 4
    assert more.to_format("coo").fill == 0
    with tr.engines.local(sites=2) as engine:
        assert more.compute(engine=engine).fill == 0
