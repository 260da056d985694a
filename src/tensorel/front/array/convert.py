"""Tensors from whatever users hold, and stored results from lazy tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorel import config as settings
from tensorel.algebra import ops
from tensorel.engines.evaluation import evaluate
from tensorel.errors import MemoryLimitError, TypeError_, ValueError_
from tensorel.front.array.base import Base, from_stored
from tensorel.io.libraries import dlpack, scipy_, sparse_
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.ir.nodes import postorder
from tensorel.ir.serial import from_lines, to_lines
from tensorel.storage import convert as storage
from tensorel.storage.format import FormatLike
from tensorel.storage.labelling import labelled
from tensorel.storage.lending import freeze, lend
from tensorel.storage.limits import require
from tensorel.storage.refreshing import is_shared, look_again, own_arrays, ready
from tensorel.storage.refreshing import refresh as refresh_stored
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

MAX_AXES = 64  # of an array of NumPy


def _package(x: object) -> str:
    return type(x).__module__.partition(".")[0]


def is_scipy(x: object) -> bool:
    """Whether it is a scipy.sparse array or matrix, found out without importing SciPy."""
    return type(x).__module__.startswith("scipy.sparse")


def is_pydata(x: object) -> bool:
    """Whether it is a PyData/Sparse array, found out without importing sparse."""
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
        t: Tensor = copied(x) if copy else x  # type: ignore[assignment]
    else:
        t = from_stored(_stored_from(x, copy))
    into = t.dtype if dtype is None or t.dtype == dtype else ops.check_dtype(dtype)
    if copy is False and (into != t.dtype or not _lies_there(t, x)):
        raise ValueError_(f"a tensor of this {type(x).__name__} cannot be had without a copy",
                          hint="leave out copy=False")
    if into == t.dtype:
        return t
    axes = tuple(ir.Axis(f"i{k}", n) for k, n in enumerate(t.shape))
    entry = ir.Read(t.node, tuple(ir.Index(a.name) for a in axes))
    lazy = type(t)(ir.Lambda(axes, convert(entry, into)))
    return lazy if isinstance(x, Base) else lazy.compute()


def _lies_there(t: Base, x: object) -> bool:
    """Whether a tensor uses the memory of what it was made from."""
    if isinstance(x, np.ndarray):
        return not x.size or any(np.may_share_memory(a, x) for s in sources(t)
                                 for a in s.arrays.values())
    return isinstance(x, Base) or hasattr(x, "__dlpack__") or is_scipy(x) or is_pydata(x)


def _stored_from(x: object, copy: bool | None) -> Stored:
    found = _read_from(x)
    return own_arrays(found) if copy else found


def _read_from(x: object) -> Stored:
    """The tensor that an object of another library holds, in the same memory if possible."""
    if isinstance(x, np.ndarray):
        return storage.from_dense(lend(x), 0)
    if is_scipy(x):
        return scipy_.from_scipy(x)
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
    cells, inner = 1, x
    for _ in range(MAX_AXES):  # NumPy refuses lists of several lengths
        if isinstance(inner, (list, tuple)):
            cells, inner = cells * len(inner), inner[0] if inner else None
    require(8 * cells, f"an array of the {cells} numbers of a list")
    try:
        return lend(x)
    except ValueError as error:
        raise TypeError_(
            f"a tensor cannot be made from this {type(x).__name__}: {error}",
            hint="nested lists must have equal lengths at each depth",
        ) from error


def source(array: npt.NDArray[Any]) -> ir.Source:
    """A small dense operand, such as an index array, as a node. The program has a copy, so that
    indices stay as they were checked."""
    require(array.nbytes, "a copy of the index")
    stored = storage.from_dense(np.array(array, order="C"), 0)
    freeze(stored.arrays.values())
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
    axes = stored.axes
    if fill is not None and not _same(stored.fill, fill):
        stored = storage.from_dense(storage.to_dense(stored), fill)
    made = stored if format is None else storage.to_format(stored, format)
    return from_stored(labelled(made, axes))


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
        _lent(coords), _lent(values), tuple(shape), fill=fill, duplicates=duplicates, dtype=given,
        format=format,
    ))


def _lent(given: object) -> object:
    """Read-only views of a user's arrays; there may be one for each axis."""
    if isinstance(given, (list, tuple)):
        return [lend(c) if isinstance(c, np.ndarray) else c for c in given]
    return lend(given) if isinstance(given, np.ndarray) else given


def copied(t: Base) -> Base:
    """A tensor that does not change when an array that was handed in is written to; itself if that
    cannot happen."""
    held = [s for s in sources(t) if is_shared(s)]
    if not held:
        return t
    given = t.given
    if given is not None:
        return from_stored(own_arrays(given))
    node = t.node
    return type(t)(from_lines(to_lines(node), lambda data: (  # blocks at sites never change
        own_arrays(data) if isinstance(data, Stored) else data)))


def sources(t: Base) -> list[Stored]:
    """The stored tensors that a program reads."""
    given = t.given
    if given is not None:
        return [given]
    return [n.data for n in postorder(t.node)
            if isinstance(n, ir.Source) and isinstance(n.data, Stored)]


def refresh(t: Base) -> None:
    """Forget what was remembered and computed, and check the arrays that were handed in."""
    t.program.refresh()
    for stored in sources(t):
        refresh_stored(stored)


def wanted_formats(given: Sequence[Base]) -> dict[str, Any]:
    """The formats of results whose programs say them."""
    formats = [t.program.wanted for t in given]
    return {} if not any(formats) else {"formats": formats}


# -- asking for results ---------------------------------------------------------------------------
def stored_of(t: Base) -> Stored:
    """The stored result, computed on the first request and kept, if it cannot change."""
    found = t.known
    if found is None:
        found = run([t], settings.current(), [None])[0]
        freeze(found.arrays.values())
    elif found.watch is not None:
        look_again(found)
    return found


def run(tensors: Sequence[Base], config: settings.Config,
        formats: Sequence[FormatLike | None]) -> list[Stored]:
    """The stored results of several tensors, computed together."""
    return evaluate([t.program for t in tensors], config, formats)


def to_numpy(t: Base) -> npt.NDArray[Any]:
    """The dense array, up to the memory limit; read-only where a tensor holds it."""
    config = settings.current()
    needed = t.size * t.dtype.itemsize
    if needed > config.memory:
        raise MemoryLimitError(
            f"a dense array of shape {t.shape} and dtype {t.dtype} needs {needed} bytes; "
            f"the memory limit is {config.memory}",
            needed=needed, limit=config.memory, step="to_numpy",
            hint="keep it sparse with compute() or to_coo(), or raise options(memory=...)",
        )
    stored = t.known
    if stored is None:
        stored = run([t], config, ["dense"])[0]
    else:
        ready(stored)
    return storage.to_dense(stored)


def to_numpy_unasked(t: Base) -> npt.NDArray[Any]:
    """The dense array for NumPy, which may ask unseen by the user: refused if sparse data would
    grow a lot."""
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
    """Refuse devices other than the CPU."""
    if device not in (None, "cpu"):
        raise ValueError_(f"device {device!r} is not known", hint="the only device is 'cpu'")
