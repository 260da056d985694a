"""Tensors from whatever users hold, and stored results from lazy tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorel import config as settings
from tensorel.algebra import ops
from tensorel.engines import checking, local
from tensorel.engines.again import evaluate_again
from tensorel.errors import MemoryLimitError, TypeError_
from tensorel.front.base import Base, from_stored
from tensorel.io import dlpack, scipy_, sparse_
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.storage import convert as storage
from tensorel.storage.format import FormatLike
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.front.array import Tensor


def _package(x: object) -> str:
    return type(x).__module__.partition(".")[0]


def is_scipy(x: object) -> bool:
    """A scipy.sparse array or matrix, seen without importing SciPy."""
    return type(x).__module__.startswith("scipy.sparse")


def is_pydata(x: object) -> bool:
    """A PyData/Sparse array, seen without importing sparse."""
    return _package(x) == "sparse" and hasattr(x, "fill_value")


def asarray(x: object, dtype: object = None, *, copy: bool | None = None,
            device: object = None) -> Tensor:
    """A tensor from a NumPy array, scalar, nested list, SciPy or PyData/Sparse array, an object
    with ``__dlpack__`` or a Tensor; zero-copy where the layout allows.

    >>> import tensorel as tr
    >>> tr.asarray([[1, 0], [0, 2]]).shape
    (2, 2)
    """
    if device is not None:
        to_device_check(device)
    if isinstance(x, Base):
        t: Tensor = x  # type: ignore[assignment]
    else:
        t = from_stored(_stored_from(x, copy))
    if dtype is None or t.dtype == dtype:
        return t
    into = ops.check_dtype(dtype)
    if into == t.dtype:
        return t
    axes = tuple(ir.Axis(f"i{k}", n) for k, n in enumerate(t.shape))
    entry = ir.Read(t.node, tuple(ir.Index(a.name) for a in axes))
    lazy = type(t)(ir.Lambda(axes, convert(entry, into)))
    return lazy if isinstance(x, Base) else lazy.compute()


def _stored_from(x: object, copy: bool | None) -> Stored:
    if isinstance(x, np.ndarray):
        return storage.from_dense(np.array(x) if copy else x, 0)
    if is_scipy(x):
        return scipy_.from_scipy(x.copy() if copy else x)  # type: ignore[attr-defined]
    if is_pydata(x):
        return sparse_.from_pydata(x)
    if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
        return dlpack.from_dlpack(x)
    if isinstance(x, Stored):
        return x
    if hasattr(x, "__tensorel_stored__"):
        found: Stored = x.__tensorel_stored__()
        return found
    return storage.from_dense(_listed(x), 0)


def _listed(x: object) -> npt.NDArray[Any]:
    """The array of nested lists; tensors among them are computed."""
    try:
        return np.asarray(x)
    except ValueError as error:
        raise TypeError_(
            f"a tensor cannot be made from this {type(x).__name__}: {error}",
            hint="nested lists must have equal lengths at each depth",
        ) from error


def source(array: npt.NDArray[Any]) -> ir.Source:
    """A small dense operand, such as an index array, as a node."""
    stored = storage.from_dense(np.ascontiguousarray(array), 0)
    return ir.Source(stored, stored.shape, stored.dtype, stored.fill_const)


def tensor(x: object, format: FormatLike | None = None, fill: object = None,
           dtype: object = None) -> Tensor:
    """A stored tensor in a format; ``fill`` is the value that entries not stored have (None:
    that of ``x``, 0 for arrays).

    >>> import tensorel as tr
    >>> tr.tensor([[1, 0], [0, 2]], format="csr").format
    'csr'
    """
    stored = stored_of(asarray(x, dtype))
    if fill is not None and not _same(stored.fill, fill):
        stored = storage.from_dense(storage.to_dense(stored), fill)
    return from_stored(stored if format is None else storage.to_format(stored, format))


def _same(a: object, b: object) -> bool:
    return bool(a == b) or bool(a != a and b != b)


def from_coo(coords: object, values: object, shape: Sequence[int],
             format: FormatLike | None = None, fill: object = 0, duplicates: str = "error",
             dtype: object = None) -> Tensor:
    """A tensor from coordinates (one row per axis) and values, in any order.

    ``duplicates`` says what to do with a coordinate given twice: "error", "sum" or "last".

    >>> import tensorel as tr
    >>> tr.from_coo([[0, 1], [2, 0]], [5.0, 7.0], (2, 3)).nnz
    2
    """
    given = None if dtype is None else ops.check_dtype(dtype)
    return from_stored(storage.from_coo(
        coords, values, tuple(shape), fill=fill, duplicates=duplicates, dtype=given,
        format=format,
    ))


# -- asking for results ---------------------------------------------------------------------------
def stored_of(t: Base) -> Stored:
    """The stored result, computed on the first request and kept."""
    if t._stored is None:
        t._stored = run([t], settings.current(), [None])[0]
    return t._stored


def run(tensors: Sequence[Base], config: settings.Config,
        formats: Sequence[FormatLike | None]) -> list[Stored]:
    """The stored results of several tensors, computed together."""
    if len(tensors) == 1 and formats[0] is None and not config.strict and not config.check:
        recipe = tensors[0]._recipe
        if recipe is not None:
            return [evaluate_again(recipe.form, recipe.stored, tensors[0].get_node, config, None)]
    wanted = [f if f is None or isinstance(f, str) else resolve(f, t.shape, t.dtype)
              for t, f in zip(tensors, formats)]
    recipe = tensors[0]._recipe if len(tensors) == 1 else None
    if recipe is not None and not config.strict and not config.check:
        return [evaluate_again(recipe.form, recipe.stored, tensors[0].get_node, config, wanted[0])]
    nodes = [t.node for t in tensors]
    results = local.evaluate(nodes, config, wanted)
    if config.check:
        checking.check(nodes, results, config)
    return results


def to_numpy(t: Base) -> npt.NDArray[Any]:
    """The dense array, up to the memory limit."""
    config = settings.current()
    needed = t.size * t.dtype.itemsize
    if needed > config.memory:
        raise MemoryLimitError(
            f"a dense array of shape {t.shape} and dtype {t.dtype} needs {needed} bytes; "
            f"the memory limit is {config.memory}",
            needed=needed, limit=config.memory, step="to_numpy",
            hint="keep it sparse with compute() or to_coo(), or raise options(memory=...)",
        )
    stored = t._stored
    if stored is None:
        stored = run([t], config, ["dense"])[0]
    return storage.to_dense(stored)


def to_numpy_unasked(t: Base) -> npt.NDArray[Any]:
    """The dense array where NumPy asks for it: refused where sparse data would grow a lot."""
    config = settings.current()
    needed = t.size * t.dtype.itemsize
    if needed > config.densify and not stored_of(t).format.is_dense:
        raise MemoryLimitError(
            f"a dense array of shape {t.shape} and dtype {t.dtype} would take {needed} bytes, "
            f"made from {stored_of(t).nbytes} bytes in format {stored_of(t).format.name}",
            needed=needed, limit=config.densify, step="np.asarray",
            hint="ask with T.to_numpy(), or raise tr.options(densify=...)",
        )
    return to_numpy(t)


def to_device_check(device: object) -> None:
    """Only the CPU holds tensors here."""
    if device not in (None, "cpu"):
        raise TypeError_(f"device {device!r} is not known", hint="the only device is 'cpu'")
