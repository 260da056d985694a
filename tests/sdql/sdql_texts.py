"""Texts that are almost SDQLite: each must give a tensor or a ParseError, nothing else."""

from __future__ import annotations

import re
import warnings

import numpy as np
from sdql_programs import sample_sdql

import tensorel as tr
from tensorel.errors import ExtentWarning, ParseError
from tensorel.sdql.functions import FUNCTIONS, SEMIRINGS
from tensorel.sdql.tokens import KEYWORDS, TOKEN

_WORDS = [
    *sorted(KEYWORDS), *sorted(FUNCTIONS), *sorted(SEMIRINGS), "CREATE", "TENSOR", "ARRAY", "TRIE",
    "HASHMAP", "SCALAR", "AS", "real", "int", "A", "X", "I", "x", "n", "i", "j", "v", "_", "0",
    "1", "2", "3", "2.5", "1e400", "99999999999999999999", "->", "==", "!=", "<", "<=", ">", ">=",
    "&&", "||", "+", "-", "*", "/", "%", "!", "(", ")", "{", "}", "[", "]", ",", ";", ":", "@",
    "@unique", "@dense", "sum(<i, v> in X)", "sum(<(i, j), v> in A)", "{ i -> v }", "X(i)",
]
#: Values of the names that texts use.
GIVEN: dict[str, object] = {
    "A": np.array([[0.0, 2, 0], [1, 0, 3]]), "C": np.eye(3), "X": np.array([0.0, 1, 2]),
    "Y": np.ones(2), "B": np.eye(2, dtype=bool), "I": np.array([1, 0, 2]), "x": 1.5, "n": 3,
    "T": np.arange(8.0).reshape(2, 2, 2),
}
_LARGE = re.compile(r"[0-9]{2}|[*]|square|pow|e[0-9+]")


def sample_text(seed: int, number: int) -> str:
    """The text of a seed and a number: a program with changes, a soup of tokens, or noise."""
    rng = np.random.default_rng([seed, number, 1])
    style = number % 8
    if style == 0:
        return "".join(map(chr, rng.integers(0, 256, int(rng.integers(0, 40)))))
    if style <= 2:
        return " ".join(rng.choice(_WORDS, int(rng.integers(1, 25))))
    text = sample_sdql(seed, number).text
    for _ in range(int(rng.choice([0, 1, 1, 1, 2, 3]))):
        text = _changed(rng, text) if rng.random() < 0.8 else _flipped(rng, text)
    return text


def _changed(rng: np.random.Generator, text: str) -> str:
    """A token left out, doubled, replaced, or moved."""
    found = [m.group() for m in TOKEN.finditer(text) if m.lastgroup != "space"]
    if not found:
        return text
    at, to = (int(k) for k in rng.integers(0, len(found), 2))
    match int(rng.integers(4)):
        case 0:
            del found[at]
        case 1:
            found.insert(at, found[to])
        case 2:
            found[at] = str(rng.choice(_WORDS))
        case _:
            found[at], found[to] = found[to], found[at]
    return " ".join(found)


def _flipped(rng: np.random.Generator, text: str) -> str:
    if not text:
        return text
    at = int(rng.integers(0, len(text)))
    return text[:at] + chr(int(rng.integers(1, 300))) * int(rng.integers(0, 3)) + text[at + 1:]


def check_text(text: str, run: bool = True) -> str:
    """``tensor`` or ``refused``; any other exception passes through. Small programs also run,
    if asked for."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtentWarning)
            found = tr.sdql(text, **GIVEN)
    except ParseError as error:
        assert str(error) and 0 <= error.position <= len(text)
        return "refused"
    if run and found.size <= 10_000 and not _LARGE.search(text):
        found.compute()
    return "tensor"
