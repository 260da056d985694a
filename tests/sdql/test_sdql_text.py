"""Parser and printer of SDQLite: round trip, sugar as the paper prints it, errors."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from sdql_texts import check_text, sample_text
from sdql_trees import EXPRS, SCRIPTS

from tensorel.errors import ParseError
from tensorel.sdql import parser
from tensorel.sdql import syntax as s
from tensorel.sdql.functions import FUNCTIONS
from tensorel.sdql.parser import MAX_DEPTH, parse
from tensorel.sdql.printer import show, show_script
from tensorel.sdql.script import parse_script


@settings(max_examples=400, deadline=None)
@given(EXPRS)
def test_what_is_printed_is_read_back(tree: s.Expr) -> None:
    assert parse(show(tree)) == tree


@settings(max_examples=100, deadline=None)
@given(SCRIPTS)
def test_scripts_are_read_back(script: s.Script) -> None:
    assert parse_script(show_script(script)) == script


SAME = [
    ("a + b * c", "a + (b * c)"),
    ("a - b - c", "(a - b) - c"),
    ("-a * b", "(-a) * b"),
    ("!a == b && c", "(!(a == b)) && c"),
    ("not a or b and c", "(!a) || (b && c)"),
    ("0:n + 1", "0:(n + 1)"),
    ("a * sum(<k, v> in A) v + 1", "a * (sum(<k, v> in A) (v + 1))"),
    ("if c then if d then 1 else 2", "if (c) then (if (d) then 1 else 2)"),
    ("sum(<k,> in A) 1", "sum(<k, _> in A) 1"),
    ("sum(<<i, j>, v> in A) v", "sum(<(i, j), v> in A) v"),
    ("{ (a) -> b }", "{ a -> b }"),
    ("{ (a + b) * c -> d }", "{ ((a + b) * c) -> d }"),
    ("promote[mnsm](x)", "promote[min_plus](x)"),
    ("{ @hash @unique k -> 1 }", "{ @unique @hash k -> 1 }"),
    ("a // the rest\n + b", "a + b"),
]


@pytest.mark.parametrize(("text", "same"), SAME)
def test_one_tree_for_both_spellings(text: str, same: str) -> None:
    assert parse(text) == parse(same)


def test_literals_of_different_kinds_differ() -> None:
    assert len({parse("1"), parse("1.0"), parse("true")}) == 3


def test_the_page_has_the_grammar_of_the_parser() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/sdqlite.md").read_text()
    shown = page.split("## Grammar\n\n```\n")[1].split("```")[0]
    written = parser.__doc__ or ""
    start, end = written.index("    script "), written.index("\nInfix operators")
    assert shown == textwrap.dedent(written[start:end])


def test_the_page_names_every_function() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/sdqlite.md").read_text()
    listed = page.split("Functions of scalars: `")[1].split("`")[0].split()
    assert sorted(listed) == sorted(FUNCTIONS)


def test_statements_in_any_case_with_or_without_semicolons() -> None:
    script = parse_script(
        "create INT scalar M, N CREATE ARRAY V(M*N); Create Trie T(M)(N)\n"
        "CREATE HASHMAP H(M, N)\n"
        "CREATE TENSOR C(M, N) AS sum(<i,> in 0:M, <j,> in 0:N) { (i,j) -> V(i*N+j) };\n"
        "C(0, 0)"
    )
    forms = [st.form for st in script.statements if isinstance(st, s.CreatePhysical)]
    assert forms == ["SCALAR", "ARRAY", "TRIE", "HASHMAP"]
    kinds = [st.kind for st in script.statements if isinstance(st, s.CreatePhysical)]
    assert kinds == ["int", "real", "real", "real"]
    assert script.result == parse("C(0, 0)")


WRONG = [
    ("a +", "the text ends here", 1, 4),
    ("sum(<k, v> in A)", "the text ends here", 1, 17),
    ("if (a) { 1 -> 2 }", "expected 'then'", 1, 8),
    ("a < b < c", "cannot follow", 1, 7),
    ("{}", "an entry at least", 1, 2),
    ("exp(1, 2)", "exp takes 1 argument, not 2", 1, 1),
    ("let exp = 1 in 2", "the word of a function", 1, 5),
    ("sum(<i, v> in A, <j, v> in B) v", "bound twice", 1, 22),
    ("sum(<(i, j), j> in A) j", "bound twice", 1, 14),
    ("promote[plus](1)", "unknown semiring", 1, 9),
    ("{ @uniqe 1 -> 2 }", "unknown mark", 1, 4),
    ("1 +\n  ?", "unexpected character", 2, 3),
    ("99999999999999999999", "does not fit", 1, 1),
    ("1e999", "too large", 1, 1),
    ("CREATE TENSOR A 1", "a statement stands", 1, 1),
    ("(a", "expected ')'", 1, 3),
    ("1 2", "expected an operator or the end", 1, 3),
]


@pytest.mark.parametrize(("text", "message", "line", "column"), WRONG)
def test_errors_say_where(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(ParseError, match=message.replace("(", r"\(").replace(")", r"\)")) as e:
        parse(text)
    assert (e.value.line, e.value.column) == (line, column)
    assert e.value.marked.endswith("^")


@pytest.mark.parametrize("text", [
    "CREATE real TENSOR A AS 1", "CREATE ARRAY A(1, 2)", "CREATE ARRAY A", "CREATE", "CREATE int",
    "CREATE TENSOR A 1", "CREATE TRIE T", "CREATE SCALAR sum", "1; 2",
])
def test_wrong_statements(text: str) -> None:
    with pytest.raises(ParseError):
        parse_script(text)


@pytest.mark.parametrize("piece", [
    ("(", "1", ")"), ("-", "1", ""), ("{1 -> ", "1", "}"), ("sum(<a, b> in ", "A", ") b"),
    ("if 1 then ", "1", ""), ("a(", "1", ")"), ("let a = ", "1", " in a"), ("", "1", "+1"),
    ("", "a", "(1)"), ("{", "1", " -> 1}"), ("exp(", "1", ")"), ("sum(<a, b> in A) ", "1", ""),
])
def test_deep_nesting_is_refused_by_us(piece: tuple[str, str, str]) -> None:
    before, middle, after = piece
    deep = before * 5000 + middle + after * 5000
    with pytest.raises(ParseError, match=f"nested more than {MAX_DEPTH} deep"):
        parse(deep)
    parse(before * 20 + middle + after * 20)


@pytest.mark.parametrize("first", range(0, 3000, 750))
def test_texts_give_a_tensor_or_a_parse_error(first: int) -> None:
    for number in range(first, first + 750):
        text = sample_text(17, number)
        try:
            check_text(text, run=number % 5 == 0)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error} for {text!r}") from error
