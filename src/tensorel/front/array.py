"""The lazy tensor: properties, conversions, results. Its methods come from the chapters."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel import config as settings
from tensorel.algebra import ops
from tensorel.engines import local
from tensorel.errors import ShapeError, TypeError_
from tensorel.front import elementwise, shaping
from tensorel.front.base import from_stored, register
from tensorel.front.convert import (
    asarray,
    run,
    stored_of,
    to_device_check,
    to_numpy,
    to_numpy_unasked,
)
from tensorel.front.dispatch import Dispatch
from tensorel.front.indexing import Indexing
from tensorel.front.operators import Operators
from tensorel.front.reductions import Reductions
from tensorel.front.shaping import Shaping
from tensorel.front.sorting import Sorting
from tensorel.io import scipy_, sparse_
from tensorel.ir import analysis
from tensorel.storage import convert as storage
from tensorel.storage.format import FormatLike
from tensorel.storage.scalars import differs
from tensorel.storage.stored import Stored

SHOWN_ENTRIES = 6
PRINTED_SIZE = 100_000


@register
class Tensor(Operators, Reductions, Shaping, Indexing, Sorting, Dispatch):
    """A tensor of any storage, or a program that gives one; nothing runs until asked for.

    >>> import tensorel as tr
    >>> A = tr.asarray([[1.0, 0.0], [0.0, 2.0]])
    >>> (A @ A).sum().item()
    5.0
    """

    __slots__ = ()

    # -- what is known ------------------------------------------------------------------------
    @property
    def fill(self) -> np.generic:
        """The value of entries that are not stored."""
        stored = self._stored
        if stored is not None:
            return stored.fill
        value: np.generic = analysis.fill(self.node).value
        return value

    @property
    def format(self) -> str:
        """The name of the storage format; computes a lazy tensor."""
        return stored_of(self).format.name

    @property
    def nnz(self) -> int:
        """Number of entries different from ``fill``; computes a lazy tensor."""
        return storage.count_nonfill(stored_of(self))

    @property
    def nbytes(self) -> int:
        """Bytes really held; computes a lazy tensor."""
        return stored_of(self).nbytes

    @property
    def stored(self) -> Stored:
        """The format and its physical arrays; computes a lazy tensor."""
        return stored_of(self)

    @property
    def is_lazy(self) -> bool:
        """Whether this is a program that has not been computed."""
        return self._stored is None

    # -- results ------------------------------------------------------------------------------
    def compute(self, engine: object = None, format: FormatLike | None = None,
                **options: object) -> Tensor:
        """The stored result; options as in ``tr.options``."""
        config = settings.current()
        if engine is not None:
            options["engine"] = engine
        if options:
            config = settings.with_overrides(config, **options)
        if format is None and self.given is not None:
            return self
        return from_stored(run([self], config, [format])[0])

    def explain(self, level: str = "physical", analyze: bool = False, engine: object = None,
                **options: object) -> Any:
        """The plan: prints as text; has html(), to_dict(), rules, predicted_bytes."""
        if engine is not None:
            options["engine"] = engine
        config = settings.with_overrides(settings.current(), **options)
        return local.explain([self.node], config, level, analyze)

    # -- conversion ---------------------------------------------------------------------------
    def to_numpy(self) -> npt.NDArray[Any]:
        """The dense NumPy array, up to the memory limit. It may share memory with the tensor:
        copy it before writing to it."""
        return to_numpy(self)

    def to_scipy(self, format: str | None = None) -> Any:
        """The scipy.sparse array in a SciPy format ("csr", "coo", ...)."""
        return scipy_.to_scipy(stored_of(self), format)

    def to_pydata(self) -> Any:
        """The PyData/Sparse array."""
        return sparse_.to_pydata(stored_of(self))

    def to_coo(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Coordinates (one row per axis) and values of the entries that ``nnz`` counts: those
        unlike the fill, sorted and unique."""
        coo = storage.to_coo(stored_of(self))
        kept = slice(None) if coo.count == self.nnz else differs(coo.values, self.fill)
        values = coo.values[kept]
        coords = np.empty((len(coo.coords), values.size), np.int64)
        for k, row in enumerate(coo.coords):
            coords[k] = row[kept]
        return coords, values

    def to_format(self, format: FormatLike) -> Tensor:
        """The same tensor stored in another format."""
        return from_stored(run([self], settings.current(), [format])[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = to_numpy_unasked(self)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def item(self, *at: int) -> bool | int | float | complex:
        """The only entry (or the one at the given indices) as a Python scalar."""
        t = self[at] if at else self
        if t.size != 1:
            raise ShapeError(f"item: shape {t.shape} has {t.size} entries, not one",
                             hint="index the tensor first, e.g. T.item(0, 1)")
        value: bool | int | float | complex = to_numpy(t).item()
        return value

    def tolist(self) -> Any:
        """Nested lists of Python scalars."""
        return to_numpy_unasked(self).tolist()

    def _scalar(self, name: str) -> Any:
        if self.size != 1:
            raise ShapeError(f"{name} of shape {self.shape}: only a single entry converts",
                             hint="use .any() or .all()" if name == "bool" else None)
        return to_numpy(self).reshape(())[()]

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError_(f"a tensor of shape {self.shape} and dtype {self.dtype} is no index",
                             hint="only a scalar of integer dtype can index")
        return int(self._scalar("int"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError_("len() of a scalar tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError_("a scalar tensor cannot be iterated")
        return (self[k] for k in range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        return bool((self == value).any())

    def astype(self, dtype: object, *, copy: bool = True) -> Tensor:
        """The entries converted to ``dtype``."""
        return elementwise.astype(self, dtype)

    def copy(self) -> Tensor:
        """Itself: tensors are never written to."""
        return self

    @property
    def real(self) -> Tensor:
        """Real parts."""
        return self if self.dtype.kind != "c" else elementwise.unary(ops.real, self)

    @property
    def imag(self) -> Tensor:
        """Imaginary parts."""
        return elementwise.unary(ops.imag, self)

    def conj(self) -> Tensor:
        """Complex conjugates."""
        return self if self.dtype.kind != "c" else elementwise.unary(ops.conjugate, self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles hold data, not programs: a lazy tensor is computed.
        return (from_stored, (stored_of(self),))

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self

    # -- printing -----------------------------------------------------------------------------
    def __repr__(self) -> str:
        about = f"shape={self.shape}, dtype={self.dtype.name}"
        stored = self._stored
        if stored is None:
            return f"Tensor({about}, lazy)"
        about += f", format={stored.format.name!r}, fill={stored.fill}"
        if stored.format.is_dense:
            values = storage.to_dense(stored).reshape(-1)[:SHOWN_ENTRIES].tolist()
            more = ", ..." if self.size > SHOWN_ENTRIES else ""
            return f"Tensor({about}, [{', '.join(map(str, values))}{more}])"
        coo = storage.to_coo(stored)
        shown = ", ".join(
            f"{tuple(int(c[k]) for c in coo.coords)}: {coo.values[k]}"
            for k in range(min(coo.count, SHOWN_ENTRIES))
        )
        more = ", ..." if coo.count > SHOWN_ENTRIES else ""
        return f"Tensor({about}, nnz={storage.count_nonfill(stored)}, {{{shown}{more}}})"

    def __str__(self) -> str:
        if self._stored is None and self.size > PRINTED_SIZE:
            return repr(self)
        stored = stored_of(self)
        if stored.format.is_dense or self.size <= 64:
            return str(storage.to_dense(stored))
        return repr(self)

    # -- protocols ----------------------------------------------------------------------------
    @property
    def device(self) -> str:
        """Where the tensor lies."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: object = None) -> Tensor:
        """Itself; the only device is "cpu"."""
        to_device_check(device)
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules["tensorel"]

    def __dlpack__(self, **options: Any) -> Any:
        return to_numpy_unasked(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    @property
    def flat(self) -> Iterator[Tensor]:
        """The entries in C order."""
        return iter(shaping.reshape(self, (-1,)))


def compute(*tensors: object, formats: Sequence[FormatLike | None] | None = None,
            **options: object) -> tuple[Tensor, ...]:
    """The stored results of several tensors, shared work done once.

    >>> import tensorel as tr
    >>> A = tr.asarray([1.0, 2.0])
    >>> [t.item() for t in tr.compute(A.sum(), (A * A).sum())]
    [3.0, 5.0]
    """
    lazy = [asarray(t) for t in tensors]
    config = settings.with_overrides(settings.current(), **options)
    wanted = [None] * len(lazy) if formats is None else list(formats)
    return tuple(from_stored(s) for s in run(lazy, config, wanted))


def explain(*tensors: object, level: str = "physical", analyze: bool = False,
            **options: object) -> Any:
    """The plan that computes several tensors together."""
    config = settings.with_overrides(settings.current(), **options)
    return local.explain([asarray(t).node for t in tensors], config, level, analyze)
