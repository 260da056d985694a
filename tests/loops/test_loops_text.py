"""Programs in text: what they write, against the meaning of their statements and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.loops import meaning
from tensorel.loops.sources.text_source import parse
from tensorel.loops.syntax import Assign, For, Store, walk

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(4, 5)).round(2), RNG.normal(size=(5, 3)).round(2)
V, W = RNG.normal(size=6).round(2), RNG.integers(0, 6, 6)

#: Texts with their tensors; arrays that are written are given.
TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("""for i = 0, n-1 do
          for j = 0, m-1 do {
            R[i,j] := 0;
            for k = 0, l-1 do
              R[i,j] += A[i,k]*B[k,j]; }""",
     {"A": A, "B": B, "n": 4, "m": 3, "l": 5, "R": np.ones((4, 3))}),
    ("for i = 0, 5 do if (V[i] > 0) P[i] := V[i]; else P[i] := -V[i];",
     {"V": V, "P": np.zeros(6)}),
    ("s := 0.0; t := 1.0; for v in V do { s += v; t *= 1 + v * v }", {"V": V}),
    ("low := 100.0; high := -100.0; for i = 0, 5 { low min= V[i]; high max= V[i]; }", {"V": V}),
    ("for i = 5, 1, -1 do X[i] := X[i-1] + X[i];", {"X": V}),
    ("for i = 1, 5 do X[i] += X[i-1];", {"X": V}),
    ("for i = 0, 5, 2 do X[i] := i / 2 + i % 4;", {"X": W}),
    ("i := 0; while (i < 6 && V[i] < 0.5) i += 1;", {"V": V}),
    ("for i = 0, 5 do C[W[i]] += 1", {"W": W, "C": np.zeros(6, np.int64)}),
    ("x := 17; y := x / 5; z := x % 5; w := x / 5.0; u := -x / 5", {}),
    ("any := false; all := true; for v in V do { any ||= v > 1; all &&= v > -3; }", {"V": V}),
    ("for i = 0, 5 do { if (i == 3) break; X[i] := sqrt(abs(V[i])) + exp(0) + pow(2, 3); }",
     {"X": np.zeros(6), "V": V}),
    ("for i = 0, 5 do { if (V[i] < 0) continue; s[0] += if (i > 2) then V[i] else 2 * V[i] }",
     {"V": V, "s": np.zeros(1)}),
    ("for i = 0, len(V) - 1 do for j = 0, A.shape[1] - 1 do M[i,j] := min(V[i], A[0,j], 0.1)",
     {"V": V, "A": A, "M": np.zeros((6, 5))}),
    ("a := 3; b := 4; while (b != 0) { t := a % b; a := b; b := t; }  // Euclid", {}),
    ("for i = 0, 3 do X[-1 - i] := !(i > 1)", {"X": np.zeros(6, bool)}),
]


@pytest.mark.parametrize("text, tensors", TEXTS, ids=range(len(TEXTS)))
def test_a_text(text: str, tensors: dict[str, Any]) -> None:
    body = parse(text)
    env = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in tensors.items()}
    meaning.run(body, env)
    found = tr.loops(text, **tensors)
    counters = {s.target for s in walk(body) if isinstance(s, For)}
    written = {s.array if isinstance(s, Store) else s.name for s in walk(body)
               if isinstance(s, Store | Assign)} - counters
    written = {n for n in written if not (n == "v" and "for v in" in text)}
    assert written <= set(found)
    for name in written:
        np.testing.assert_allclose(found[name].to_numpy(), env[name], rtol=1e-12, err_msg=name)


def test_arrays_that_nobody_gave_are_as_large_as_what_is_written() -> None:
    found = tr.loops("for i = 1, n do for j = 0, i do T[i, 2*j] := i * j", n=3)["T"]
    assert found.shape == (4, 7) and found.dtype == np.int64
    assert tr.loops("for i = 0, 2 do x[i] := i / 2.0")["x"].dtype == np.float64
    with pytest.raises(tr.errors.UnsupportedError, match="how large x is"):
        tr.loops("for i = 0, 2 do x[W[i]] := 1", W=[1, 2, 0])


def test_declarations() -> None:
    found = tr.loops("var n: int = 4; var Z: vector[Double] = zeros(n); Z[n - 1] := 2; "
                     "var K: int := ones(2, 2)")
    assert found["Z"].tolist() == [0, 0, 0, 2] and found["K"].dtype == np.int64


@pytest.mark.parametrize("text, match", [
    ("for i = 0, 5 do { x := ; }", "expected a number"),
    ("for i = 0 do x := 1", "expected ','"),
    ("x = 1", "expected := or an update"),
    ("for i = 0, 5 do x := f(i)", "unknown function 'f'"),
    ("x := (1 + 2", "expected '\\)'"),
    ("x := 1 @ 2", "unexpected character"),
    ("for i = 0, 9, 0 do x := i", "the step is zero"),
    ("x := " + "(" * 200 + "1" + ")" * 200, "nested too deep"),
])
def test_texts_that_are_no_program(text: str, match: str) -> None:
    with pytest.raises(tr.errors.ParseError, match=match):
        tr.loops(text)


def test_the_plan_is_that_of_the_array_form() -> None:
    text, tensors = TEXTS[0]
    found = tr.loops(text, **{**tensors, "R": np.zeros((4, 3))})["R"]
    assert "blas" in str(found.explain()) or "kernel" in str(found.explain())
    assert "run(" not in str(found.explain())
