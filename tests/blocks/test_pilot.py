"""The pilot run: the paper's example, and joins compared with loops over rows."""

from __future__ import annotations

import numpy as np
import pytest

from tensorel.blocks.join_groups.pilot import ABSENT, Join, Project, Scan, pilot
from tensorel.errors import ShapeError, ValueError_

TILES = [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_the_example_of_the_paper() -> None:
    """Section 4.3: two matrices of 2 x 2 blocks, X on sites 1 2 3 1 and Y on sites 3 1 2 1."""
    tree = Project(Join(Scan(0), Scan(1), ((1, 0),)), (0, 3))
    found = pilot([TILES, TILES], tree, (0, 1))
    names = [("X", *t) for t in TILES] + [("Y", *t) for t in TILES]
    homes = [1, 2, 3, 1, 3, 1, 2, 1]

    def lineage(group: int) -> frozenset[tuple[object, ...]]:
        return frozenset((*names[b], homes[b]) for b in found.blocks[group])

    joined = [(tuple(k), lineage(g)) for g, k in enumerate(found.keys.tolist())]
    x11, x12, x21, x22 = (("X", 1, 1, 1), ("X", 1, 2, 2), ("X", 2, 1, 3), ("X", 2, 2, 1))
    y11, y12, y21, y22 = (("Y", 1, 1, 3), ("Y", 1, 2, 1), ("Y", 2, 1, 2), ("Y", 2, 2, 1))
    assert joined == [
        ((1, 1), {x11, y11}), ((1, 2), {x11, y12}), ((1, 1), {x12, y21}), ((1, 2), {x12, y22}),
        ((2, 1), {x21, y11}), ((2, 2), {x21, y12}), ((2, 1), {x22, y21}), ((2, 2), {x22, y22})]
    groups = {tuple(k): {lineage(g) for g in np.flatnonzero(found.target == t)}
              for t, k in enumerate(found.target_keys.tolist())}
    assert groups == {
        (1, 1): {frozenset({x11, y11}), frozenset({x12, y21})},
        (1, 2): {frozenset({x11, y12}), frozenset({x12, y22})},
        (2, 1): {frozenset({x22, y21}), frozenset({x21, y11})},
        (2, 2): {frozenset({x22, y22}), frozenset({x21, y12})}}


@pytest.mark.parametrize("outer", ["", "left", "right", "full"])
@pytest.mark.parametrize("scale", [1, 2**40])
def test_joins_are_those_of_loops(outer: str, scale: int) -> None:
    rng = np.random.default_rng(len(outer) + scale % 7)
    left, right = (rng.integers(-3, 4, (n, 3)) * scale for n in (40, 30))
    found = pilot([left, right], Join(Scan(0), Scan(1), ((1, 0), (2, 2)), outer), (0, 1))
    pairs = [(i, 40 + j) for i in range(40) for j in range(30)
             if left[i, 1] == right[j, 0] and left[i, 2] == right[j, 2]]
    if outer in ("left", "full"):
        pairs += [(i, -1) for i in set(range(40)) - {i for i, _ in pairs}]
    if outer in ("right", "full"):
        pairs += [(-1, 40 + j) for j in set(range(30)) - {j - 40 for _, j in pairs}]
    assert sorted(map(tuple, found.blocks.tolist())) == sorted(pairs)
    for (i, j), key in zip(found.blocks.tolist(), found.keys):
        if i >= 0:
            assert key[:3].tolist() == left[i].tolist()
        else:  # what is joined is known, the rest is not
            assert key[:3].tolist() == [ABSENT, right[j - 40, 0], right[j - 40, 2]]
        if j >= 0:
            assert key[3:].tolist() == right[j - 40].tolist()
    for t, key in zip(found.target, found.keys):
        assert found.target_keys[t].tolist() == key[:2].tolist()


def test_neighbours_by_key_functions() -> None:
    """A stencil joins a relation with itself, by functions of keys; at the border none is there."""
    line = np.arange(5)[:, None]
    after = Join(Scan(0), Scan(0), ((lambda k: k[:, 0] + 1, 0),), "left")
    both = Join(after, Scan(0), ((lambda k: k[:, 0] - 1, 0),), "left")
    found = pilot([line], both, (0,))
    assert found.blocks.tolist() == [[0, 1, -1], [1, 2, 0], [2, 3, 1], [3, 4, 2], [4, -1, 3]]
    assert found.target.tolist() == [0, 1, 2, 3, 4]


def test_trees_of_several_joins() -> None:
    keys = np.array([(i, k) for i in range(3) for k in range(3)])
    product = Project(Join(Scan(0), Scan(1), ((1, 0),)), (0, 3))
    chain = Join(product, Join(Scan(2), Scan(3), ((0, 0), (1, 1))), ((1, 0),))
    found = pilot([keys, keys, keys, keys[::2]], chain, (0, 3))
    expected = {(3 * i + j, 9 + 3 * j + k, 18 + 3 * k + m, 27 + (3 * k + m) // 2)
                for i in range(3) for j in range(3) for k in range(3) for m in range(3)
                if (3 * k + m) % 2 == 0}
    assert {tuple(b) for b in found.blocks.tolist()} == expected
    assert len(found.blocks) == len(expected)
    assert all(found.target_keys[t].tolist() == [b[0] // 3, (b[2] - 18) % 3]
               for t, b in zip(found.target, found.blocks))


def test_absent_keys_join_nothing_and_nothing_joins_nothing() -> None:
    one, two = np.array([[0, 7], [1, 8]]), np.array([[0, 5]])
    lonely = Join(Scan(0), Scan(1), ((0, 0),), "left")
    found = pilot([one, two, [[ABSENT]]], Join(lonely, Scan(2), ((3, 0),), "left"), ())
    assert found.blocks.tolist() == [[0, 2, -1], [1, -1, -1]]
    assert found.target.tolist() == [0, 0]
    empty = pilot([one[:0], two], Join(Scan(0), Scan(1), ((0, 0),)), (0,))
    assert empty.blocks.shape == (0, 2) and empty.target_keys.shape == (0, 1)
    assert empty.groups().check().home.tolist() == [-1]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError_, match="key column 2"):
        pilot([TILES], Scan(0), (2,))
    with pytest.raises(ShapeError, match="key function"):
        pilot([TILES], Scan(0), (lambda k: k,))
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        pilot([np.arange(3)], Scan(0), ())
    with pytest.raises(ValueError_, match="relation 1 of 1"):
        pilot([TILES], Scan(1), ())
