"""The corpus of comprehensions: its texts, its tensors, and what each says by the interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import tensorel as tr
from tensorel.comprehension import syntax as s
from tensorel.comprehension.meaning import Cells, ClashError, meaning
from tensorel.comprehension.parser import parse
from tensorel.comprehension.printer import show
from tensorel.comprehension.tokens import TOKEN
from tensorel.errors import ExtentWarning, ValueError_

N, M, L = 9, 8, 10
SCALARS: dict[str, Any] = {"n": N, "m": M, "l": L, "c": 2.5}
#: What tensors are stored in: in full, some axes in full, entries alone.
STORAGES: dict[str, dict[int, str]] = {
    "dense": {1: "dense", 2: "dense", 3: "dense"},
    "mixed": {1: "coo", 2: "csr", 3: "0,1;2"},
    "columns": {1: "dense", 2: "csc", 3: "csf(2,0,1)"},
    "sparse": {1: "coo", 2: "coo", 3: "coo"},
}
#: What results are stored in.
TARGETS = ("dense", "mixed", "sparse")


class Case(NamedTuple):
    title: str
    text: str
    outcome: str  # "", "clash" or "outside"


@lru_cache(maxsize=1)
def cases() -> list[Case]:
    found: list[Case] = []
    title, lines = "", list[str]()

    def done() -> None:
        if lines:
            name, _, outcome = title.partition(" -> ")
            found.append(Case(name, "\n".join(lines), outcome))
            lines.clear()

    path = Path(__file__).with_name("programs.txt")
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            lines.append(line[4:])
        elif line and line[0] not in "#=":
            done()
            title = line
    done()
    return found


def data(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """The tensors: halves of small numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)

    def real(*shape: int, density: float = 0.4) -> npt.NDArray[Any]:
        values = rng.integers(-6, 7, shape) / 2
        return np.where(rng.random(shape) < density, values, 0.0)

    return {
        "V": real(N, density=0.7), "W": real(N), "A": real(N, M), "C": real(N, M),
        "B": real(M, L), "S": real(N, N), "K": real(3, 3, density=0.8), "T": real(4, N, 3),
        "F": np.where(rng.random((N, M)) < 0.4, rng.integers(-4, 5, (N, M)) / 2, 2.0),
        "M": np.where(rng.random((N, N)) < 0.4, rng.integers(-7, 8, (N, N)), 0),
        "I": rng.integers(0, N, N), "P": rng.permutation(N), "L": rng.random((N, M)) < 0.4,
    }


FILLS = {"F": 2.0}


def stored(name: str, array: npt.NDArray[Any], storage: str) -> Any:
    """A tensor of the corpus in one of the storages."""
    fill = array.dtype.type(FILLS.get(name, 0))
    return tr.tensor(array, format=STORAGES[storage][array.ndim], fill=fill)


def stored_as(text: str, target: str) -> str:
    """A text whose result is in another storage."""
    tree = parse(text)
    body = tree.body
    if not isinstance(body, s.Stored):
        return text
    dims = (*body.dense, *body.sparse)
    dense = {"dense": len(dims), "mixed": len(dims) - 1, "sparse": 0}[target]
    return show(s.Stored(dims[:dense], dims[dense:], body.body, body.blocks))


def used(text: str, arrays: Mapping[str, Any]) -> list[str]:
    """The names of the tensors in a text."""
    words = {m.group() for m in TOKEN.finditer(text) if m.lastgroup == "name"}
    return sorted(words & set(arrays))


class Wanted(NamedTuple):
    value: npt.NDArray[Any] | None
    outcome: str


def wanted(text: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Wanted:
    """What the interpreter makes of a text."""
    env: dict[str, Any] = SCALARS | {
        name: Cells.of(a, FILLS.get(name, 0)) for name, a in arrays.items()}
    try:
        found = meaning(parse(text), env)
    except ClashError:
        return Wanted(None, "clash")
    if isinstance(found, Cells):
        return Wanted(found.to_numpy(), "outside" if found.dropped else "")
    return Wanted(np.asarray(found), "")


def run(text: str, given: Mapping[str, Any], **options: Any) -> Wanted:
    """What the engine makes of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExtentWarning)
        try:
            found = tr.comprehension(text, **SCALARS, **given)
            value = found.compute(**options) if options else found
        except ValueError_ as error:
            assert "write the cell" in str(error), error
            return Wanted(None, "clash")
        value = np.asarray(value.to_numpy())
    outside = any("left out" in str(w.message) for w in caught)
    return Wanted(value, "outside" if outside else "")


def blocked(array: npt.NDArray[Any], engine: Any) -> Any:
    """A tensor in blocks of 7 at the sites of an engine."""

    def block(key: tuple[int, ...]) -> npt.NDArray[Any]:
        return array[tuple([slice(7 * k, 7 * k + 7) for k in key])]

    return tr.from_blocks(block, array.shape, 7, dtype=array.dtype, engine=engine)


def check(case: Case, storage: str, target: str = "", seed: int = 0, **options: Any) -> None:
    """Compare one program with the interpreter. ``storage``: of its tensors, or "blocks"."""
    arrays = data(seed)
    names = used(case.text, arrays)
    want = wanted(case.text, {n: arrays[n] for n in names})
    if seed == 0:
        assert want.outcome == case.outcome, (case.title, want.outcome)
    text = stored_as(case.text, target) if target else case.text
    given = {n: blocked(arrays[n], options["engine"]) if storage == "blocks" and n not in FILLS
             else stored(n, arrays[n], "mixed" if storage == "blocks" else storage)
             for n in names}
    found = run(text, given, **options)
    assert found.outcome == want.outcome, (case, found.outcome, want.outcome)
    if want.value is not None:
        assert found.value is not None
        assert found.value.shape == want.value.shape, (found.value.shape, want.value.shape)
        np.testing.assert_allclose(found.value, want.value, rtol=1e-12, atol=1e-12)
