"""Windows, convolution and correlation beside NumPy and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.ndimage as ndimage
import scipy.signal as signal

import tensorel as tr
from tensorel.errors import AxisError, ShapeError, ValueError_

rng = np.random.default_rng(5)
SHAPES = [((9,), (3,)), ((9,), (9,)), ((8, 7), (3, 2)), ((5, 6), (1, 4)), ((6, 5, 4), (2, 3, 2))]
DTYPES = ["float64", "float32", "int64", "uint8", "complex128", "bool"]


def sparse(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    return np.where(rng.random(shape) < 0.5, rng.integers(1, 5, shape), 0).astype(dtype)


@pytest.mark.parametrize("shape, size", SHAPES)
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("fmt", ["dense", "coo", "csf", "dok"])
def test_like_scipy(shape: tuple[int, ...], size: tuple[int, ...], mode: str, fmt: str) -> None:
    x, k = sparse(shape), sparse(size)
    t = tr.tensor(x, format=fmt)
    assert np.array_equal(tr.convolve(t, k, mode).to_numpy(),
                          signal.convolve(x, k, mode, method="direct"))
    assert np.array_equal(tr.correlate(t, tr.tensor(k, format=fmt), mode).to_numpy(),
                          signal.correlate(x, k, mode, method="direct"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_numpys(dtype: str) -> None:
    x, k = sparse((20,), dtype), sparse((4,), dtype)
    for mode in ("full", "same", "valid"):
        found = tr.convolve(x, k, mode).to_numpy()
        wanted = np.convolve(x, k, mode)
        assert found.dtype == wanted.dtype
        if mode != "same":  # NumPy's is as long as the longer one, and cut elsewhere
            assert np.array_equal(found, wanted)
    z = x * (1 + 2j) if dtype == "complex128" else x
    assert np.array_equal(tr.correlate(z, z[:5]).to_numpy(), np.correlate(z, z[:5], "valid"))


@pytest.mark.parametrize("padding, mode", [
    ("zeros", "constant"), ("edge", "nearest"), ("wrap", "wrap"), ("reflect", "mirror"),
    ("symmetric", "reflect")])
@pytest.mark.parametrize("size", [(3, 3), (5, 1), (2, 4)])
def test_paddings(padding: str, mode: str, size: tuple[int, int]) -> None:
    x, k = sparse((9, 8)), sparse(size)
    found = tr.correlate(x, k, "same", padding=padding).to_numpy()
    beyond = tuple((n - n // 2, n // 2) for n in (s - 1 for s in size))
    padded = np.pad(x, beyond, mode={"zeros": "constant"}.get(padding, padding))
    assert np.array_equal(found, signal.correlate(padded, k, "valid", method="direct"))
    if all(s % 2 for s in size):
        assert np.allclose(found, ndimage.correlate(x, k, mode=mode))


@pytest.mark.parametrize("step, dilation", list(
    itertools.product([1, 2, (3, 1)], [1, 2, (1, 3)])))
def test_steps_and_dilation(step: object, dilation: object) -> None:
    x, k = sparse((14, 11)), sparse((3, 2))
    apart = dilation if isinstance(dilation, tuple) else (dilation, dilation)
    wide = np.zeros(tuple((n - 1) * d + 1 for n, d in zip(k.shape, apart)))
    wide[:: apart[0], :: apart[1]] = k
    by = step if isinstance(step, tuple) else (step, step)
    wanted = signal.correlate(x, wide, "valid", method="direct")[:: by[0], :: by[1]]
    assert np.array_equal(
        tr.correlate(tr.tensor(x, format="csr"), k, step=step, dilation=dilation).to_numpy(),
        wanted)


def test_axes_and_channels() -> None:
    x, k = sparse((4, 6, 5)), sparse((3,))
    for axis in (0, 1, -1):
        if x.shape[axis] >= 3:
            wanted = np.apply_along_axis(np.convolve, axis, x, k)
            assert np.array_equal(tr.convolve(x, k, axis=axis).to_numpy(), wanted)
    images, bank = sparse((2, 3, 7, 8)), sparse((4, 3, 3, 2))  # n c h w, o c r s
    found = tr.einsum("nchwrs,ocrs->nohw", tr.windows(images, (3, 2)), bank).to_numpy()
    wanted = sum(np.stack([[signal.correlate(images[n, c], bank[o, c], "valid", method="direct")
                            for o in range(4)] for n in range(2)]) for c in range(3))
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("fmt", ["dense", "coo", "csr"])
@pytest.mark.parametrize("sizes, axis, step", [
    ((2, 3), None, 1), (3, 0, 1), ((3, 2), (1, 0), 2), (4, -1, (3,))])
def test_windows_are_views(fmt: str, sizes: object, axis: object, step: object) -> None:
    x = sparse((7, 9))
    w = tr.windows(tr.tensor(x, format=fmt), sizes, axis=axis, step=step)
    axes = (0, 1) if axis is None else axis
    wanted = np.lib.stride_tricks.sliding_window_view(x, sizes, axes)
    by = np.broadcast_to(step, (len(axes) if isinstance(axes, tuple) else 1,))
    for k, s in zip(axes if isinstance(axes, tuple) else (axes,), by):
        wanted = wanted.take(np.arange(0, wanted.shape[k % 2], s), axis=k % 2)
    assert np.array_equal(w.to_numpy(), wanted)
    for name in ("sum", "max", "min", "mean"):
        assert np.allclose(getattr(w, name)(axis=-1).to_numpy(), getattr(wanted, name)(axis=-1))


def test_what_windows_read_is_computed_once() -> None:
    x = rng.random((60, 70))
    plan = tr.convolve(tr.exp(tr.asarray(x)), np.ones((3, 3)), "same")
    assert len(plan.explain().to_dict()["steps"]) == 2
    assert np.allclose(plan.to_numpy(), signal.convolve(np.exp(x), np.ones((3, 3)), "same"))


def test_cost_grows_with_entries() -> None:
    """Of a sparse image of 10**18 cells."""
    n, count = 10**9, 1000
    at = rng.integers(0, n, (2, count))
    t = tr.from_coo(at, np.ones(count), (n, n), duplicates="last")
    for mode in ("same", "valid"):
        found = tr.convolve(t, np.ones((3, 3)), mode).compute()
        assert 8.9 * count < found.nnz <= 9 * count
        assert not found.format.startswith("dense")


def test_errors() -> None:
    for call in (lambda: tr.windows(np.ones(3), 4), lambda: tr.convolve(np.ones(3), 2.0),
                 lambda: tr.convolve(np.ones(3), np.ones((2, 2))),
                 lambda: tr.correlate(np.ones(3), np.ones(4)),
                 lambda: tr.convolve(np.ones(3), np.ones(0)),
                 lambda: tr.windows(np.ones((3, 3)), (2, 2), axis=(0, 0))):
        with pytest.raises(ShapeError):
            call()
    for call in (lambda: tr.convolve(np.ones(3), np.ones(2), "best"),
                 lambda: tr.convolve(np.ones(3), np.ones(2), padding="none"),
                 lambda: tr.windows(np.ones(3), 2, step=0), lambda: tr.windows(np.ones(3), 0)):
        with pytest.raises(ValueError_):
            call()
    with pytest.raises(AxisError):
        tr.windows(np.ones(3), 2, axis=1)
