"""Cost and results grow with the entries, whatever the extents: each program of the table once, on
a storage drawn by a seed; ``make huge`` measures the whole table."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from huge_cases import STORAGES
from huge_extents import BYTES, EXTENTS, MAKING, Cell, Outcome, Watched, cells, programs

import tensorel as tr
from tensorel.errors import MemoryLimitError

SEED, PARTS = 16, 4


def sampled() -> list[Cell]:
    """One cell of each program, and of each format that is refused."""
    rng, found = random.Random(SEED), {}
    by_case: dict[str, list[Cell]] = {}
    for cell in cells():
        key = f"{MAKING} {cell[0]}" if cell[1] == MAKING else cell[1]
        by_case.setdefault(key, []).append(cell)
    for name, these in by_case.items():
        found[name] = rng.choice(these)
    return sorted(found.values(), key=lambda c: (c[0], c[2]))


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with Watched() as found:
        yield found


def failures(watched: Watched, some: list[Cell]) -> list[str]:
    outcomes: list[Outcome] = [watched.measure(cell) for cell in some]
    return [o.text for o in outcomes if o.kind == "failed"]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_program(watched: Watched, part: int) -> None:
    some = sampled()
    size = -(-len(some) // PARTS)
    assert failures(watched, some[part * size : (part + 1) * size]) == []


def test_random_products(watched: Watched) -> None:
    some = (3, 8, 12, 16, 41, 67, 75, *range(100, 107))  # the first walked an axis once
    assert failures(watched, [*programs(some, EXTENTS[1:])]) == []


HASHED = ("a @ dok", "dok @ a", "csf @ a", "a @ a", "a[1]", "a[..., 2]", "sdql product", "a.T @ a")
TAILS = ("(a + b) to ;0;1", "(a + b) to ;0,1;2")
LISTED = ("a[::-1]", "a[..., ::-1]", "a[[1, 2]]", "a[mask]", "flip", "take", "squeeze")


@pytest.mark.parametrize(("storage", "programs"), [
    ("dok (nn)", HASHED), ("coo (nn)", LISTED), ("trie (nf)", TAILS), (";0,1;2 (nnf)", TAILS)])
def test_axes_that_were_walked(watched: Watched, storage: str, programs: tuple[str, ...]) -> None:
    some = [c for c in cells(EXTENTS) if c[0] == storage and c[1] in programs]
    assert len(some) >= 2 * len(programs) - 2
    assert failures(watched, some) == []


def test_the_table_has_every_storage() -> None:
    assert {c[0] for c in cells()} >= {s.text for s in STORAGES}
    assert len({c[0] for c in sampled()}) > len(STORAGES) // 2


@pytest.mark.parametrize("n", EXTENTS)
def test_turned_lists_have_no_bounds_for_empty_rows(n: int) -> None:
    a = tr.from_coo([[1, 2, n - 1], [2, n - 1, 1]], [3.0, -2.0, 5.0], (n, n))
    turned = a[::-1].compute()
    assert turned.nbytes < 1000
    coords, values = turned.to_coo()
    assert coords.tolist() == [[0, n - 3, n - 2], [1, n - 1, 2]]
    assert values.tolist() == [5.0, -2.0, 3.0]


def test_rows_that_an_operand_has_are_kept() -> None:
    """Where most rows have entries, bounds by rows are as small as the entries."""
    x = np.arange(1.0, 4001.0).reshape(2000, 2)
    assert tr.tensor(x, format="csr")[::-1].compute().format == "csr"


def kernel(t: object) -> str:
    return str(t.explain("code"))  # type: ignore[attr-defined]


def test_hash_maps_are_looked_up_where_others_lead() -> None:
    """The table serves single entries; the levels serve where a loop has no other bound."""
    n = 1000
    rng = np.random.default_rng(0)
    coords = np.unique(rng.integers(0, n, (2, 300)), axis=1)
    a = tr.from_coo(coords, np.ones(coords.shape[1]), (n, n), format="coo")
    d = tr.from_coo(coords[::-1], np.ones(coords.shape[1]), (n, n), format="dok")
    assert "B.table" in kernel(a * d)
    assert "table" not in kernel(a @ d)
    assert "table" not in kernel(d[3])
    three = tr.einsum("ij,jk,ik->", a, d, a)
    dense = [t.to_numpy() for t in (a, d)]
    assert three.item() == np.einsum("ij,jk,ik->", dense[0], dense[1], dense[0])


def test_two_hash_maps_and_one_loop() -> None:
    """Neither counts on the other: one of them leads the loop that both have."""
    n = 2**40
    at = [[1, 2, n - 1], [5, n - 2, 5]]
    d, e = (tr.from_coo(at, v, (n, n), format="dok") for v in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    v = tr.from_coo([[1, n - 1]], [1.0, 1.0], (n,))
    found = tr.einsum("k,kj,kj->j", v, d, e).compute()
    assert found.to_coo()[1].tolist() == [22.0]
    found = tr.einsum("kj,kj->kj", d, e).compute()
    assert found.to_coo()[1].tolist() == [4.0, 10.0, 18.0]


def test_refusals_come_before_the_memory() -> None:
    n = 2**40
    a = tr.from_coo([[1, 2, n - 1]], [3.0, -2.0, 5.0], (n,))
    with tr.options(memory=BYTES):
        for program in (lambda: a.to_format("dense"), lambda: tr.cumulative_sum(a).compute(),
                        lambda: tr.argsort(a).compute(), lambda: a.to_numpy()):
            with pytest.raises(MemoryLimitError):
                program()
