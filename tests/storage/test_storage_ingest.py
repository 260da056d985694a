"""Coordinates as users give them, and format names."""

from __future__ import annotations

import numpy as np
import pytest

from tensorel.errors import IndexError_, ShapeError, StorageError, TypeError_
from tensorel.storage import convert, registry
from tensorel.storage.formats.coo import coo as coo_builder

F8 = np.dtype(float)


def test_duplicates() -> None:
    coords, values = [[1, 0, 1], [2, 0, 2]], [1.0, 2.0, 5.0]
    with pytest.raises(StorageError, match=r"\(1, 2\)"):
        convert.from_coo(coords, values, (2, 3))
    total = convert.from_coo(coords, values, (2, 3), duplicates="sum")
    last = convert.from_coo(coords, values, (2, 3), duplicates="last")
    assert convert.to_dense(total)[1, 2] == 6 and convert.to_dense(last)[1, 2] == 5
    flags = convert.from_coo([[1, 1]], [True, True], (2,), duplicates="sum")
    assert convert.to_dense(flags).tolist() == [False, True]
    with pytest.raises(TypeError_):
        convert.from_coo(coords, values, (2, 3), duplicates="first")


@pytest.mark.parametrize("bad,axis", [(-1, 0), (3, 0), (2**40, 0)])
def test_out_of_range(bad: int, axis: int) -> None:
    with pytest.raises(IndexError_, match=rf"{bad} is out of range for axis {axis} with extent 3"):
        convert.from_coo([[0, bad]], [1.0, 2.0], (3,))


def test_uint64_coordinates_beyond_int64() -> None:
    with pytest.raises(IndexError_):
        convert.from_coo(np.array([[2**64 - 1]], dtype=np.uint64), [1.0], (3,))


def test_wrong_arguments() -> None:
    with pytest.raises(ShapeError):
        convert.from_coo([[0], [1], [1]], [1.0], (3, 3))
    with pytest.raises(ShapeError):
        convert.from_coo([[0, 1], [1]], [1.0], (3, 3))
    with pytest.raises(ShapeError):
        convert.from_coo([[0, 1], [1, 1]], [1.0], (3, 3))
    with pytest.raises(ShapeError):
        convert.from_coo([[0], [1]], [1.0], (3, -3))
    with pytest.raises(TypeError_):
        convert.from_coo([[0.5], [1]], [1.0], (3, 3))
    with pytest.raises(TypeError_):
        convert.from_coo([[0], [1]], ["a"], (3, 3))
    with pytest.raises(TypeError_):
        convert.from_coo("ab", [1.0], (3, 3))
    with pytest.raises(TypeError_):
        convert.from_coo([[0], [1]], [1.0], (3, 2.5))


def test_forms_of_coordinates() -> None:
    for coords in ([0, 2], [[0, 2]], np.array([0, 2]), np.array([[0, 2]]), (np.array([0, 2]),)):
        made = convert.from_coo(coords, [1, 2], (3,))
        assert convert.to_dense(made).tolist() == [1, 0, 2]
    assert convert.to_dense(convert.from_coo([[0, 2]], 7, (3,))).tolist() == [7, 0, 7]
    assert convert.to_dense(convert.from_coo(np.empty((0, 1), int), [4.0], ())) == 4
    assert convert.to_dense(convert.from_coo([], [], ())) == 0
    assert convert.from_coo([[], []], [], (3, 4), format="csr").count == 0
    assert convert.from_coo([[0], [1]], [1], (3, 4), dtype="float32").dtype == np.float32


def test_bad_names() -> None:
    with pytest.raises(StorageError, match="csq") as caught:
        registry.resolve("csq", (3, 3), F8)
    assert "did you mean 'cs" in str(caught.value) and "bitmap" in str(caught.value)
    for name, shape in (("csr", (3,)), ("csf(0,0)", (3, 3)), ("csf(0)", (3, 3)), ("0;1", (3,)),
                        ("0;0", (3, 3)), ("bsr(2)", (3, 3)), ("bsr(0,2)", (3, 3)), ("", (3,)),
                        ("symmetric", (3, 4)), ("bitmap", (3,)), ("coo(1)", (3,)),
                        ("csr()x", (3, 3)),
                        ("bsr(-1,2)", (3, 3)), ("0,2;1", (3, 3)), ("csf(1,-1)", (3, 3))):
        with pytest.raises(StorageError):
            registry.resolve(name, shape, F8)
    with pytest.raises(StorageError):
        registry.resolve(5, (3,), F8)  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        registry.resolve(registry.resolve("csr", (3, 3), F8), (3,), F8)


def test_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BUILDERS", dict(registry.BUILDERS))
    registry.register("mine", coo_builder)
    assert "mine" in registry.names()
    assert registry.resolve("Mine", (3,), F8).name == "coo"
    with pytest.raises(StorageError):
        registry.register("a b", coo_builder)
