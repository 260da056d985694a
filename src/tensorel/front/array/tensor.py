"""The lazy tensor: properties, conversions, results. Most methods are those of
``front.functions``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel import config as settings
from tensorel.algebra import ops
from tensorel.engines.registry import engine_for
from tensorel.errors import ShapeError, TypeError_
from tensorel.front.array.base import from_stored, register, wrap
from tensorel.front.array.convert import (
    copied,
    refresh,
    run,
    stored_of,
    to_device_check,
    to_numpy,
    to_numpy_unasked,
    wanted_formats,
)
from tensorel.front.array.dispatch import Dispatch
from tensorel.front.array.files import write
from tensorel.front.array.indexing import Indexing
from tensorel.front.array.operators import Operators
from tensorel.front.functions import elementwise, joining, products, shaping, ufuncs
from tensorel.front.functions.reductions import Reductions
from tensorel.front.functions.shaping import Shaping
from tensorel.front.functions.sorting import Sorting
from tensorel.front.labels.alignment import axes_of_tensor
from tensorel.front.labels.axes import Labelling, shown_places
from tensorel.front.relations.methods import Relations
from tensorel.io.libraries import scipy_, sparse_
from tensorel.ir import analysis
from tensorel.ir.serial import Line, from_lines, to_lines
from tensorel.storage import convert as storage
from tensorel.storage.entries import differs, make_fill
from tensorel.storage.format import FormatLike
from tensorel.storage.identity import digest
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored

SHOWN_ENTRIES = 6
PRINTED_SIZE = 100_000
ITERATED_ENTRIES = 4096  # entries of a vector that become dense at a time


@register
class Tensor(Operators, Reductions, Shaping, Indexing, Sorting, Relations, Labelling, Dispatch):
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
        stored = self.known
        if stored is not None:
            return stored.fill
        if self.program.wanted is not None:
            return make_fill(0, self.dtype)
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
        """Bytes that its arrays take; computes a lazy tensor."""
        return stored_of(self).nbytes

    def __sizeof__(self) -> int:
        """Bytes for schedulers that count memory: what is held already; nothing is computed."""
        held = self.program.data or self.program.result
        return object.__sizeof__(self) + (0 if held is None else held.nbytes)

    @property
    def stored(self) -> Stored:
        """The format and its physical arrays; computes a lazy tensor."""
        return stored_of(self)

    @property
    def is_lazy(self) -> bool:
        """Whether this is a program that has not been computed."""
        return self.known is None

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

    def persist(self, engine: object = None, **options: object) -> Tensor:
        """The result, left at the sites of an engine: a tensor for further programs, which run
        there. ``compute()`` brings it here.

        >>> import tensorel as tr
        >>> with tr.engines.local(sites=2) as e:
        ...     A = tr.asarray([[1.0, 2.0], [3.0, 4.0]]).persist(engine=e)
        ...     (A @ A).sum().item()
        54.0
        """
        if engine is not None:
            options["engine"] = engine
        config = settings.with_overrides(settings.current(), **options)
        node = self.node
        placed = engine_for(config.engine, [node]).persist([node], config)[0]
        placed.axes = axes_of_tensor(self)
        return wrap(placed.source)

    def write(self, path: str | os.PathLike[str], engine: object = None, **options: Any) -> None:
        """Write it to a file, or in blocks to a Zarr array or a folder of parts, each by the site
        that has it; options as in ``tr.write``.

        >>> import tensorel as tr
        >>> tr.eye(4).write("a.parts", tile=2)  # doctest: +SKIP
        """
        write(path, self, engine=engine, **options)

    def explain(self, level: str = "physical", analyze: bool = False, engine: object = None,
                **options: object) -> Any:
        """The plan: prints as text; has html(), to_dict(), rules, predicted_bytes."""
        if engine is not None:
            options["engine"] = engine
        config = settings.with_overrides(settings.current(), **options)
        return engine_for(config.engine, [self.node]).explain(
            [self.node], config, level, analyze, **wanted_formats([self]))

    # -- conversion ---------------------------------------------------------------------------
    def to_numpy(self, *, copy: bool = False) -> npt.NDArray[Any]:
        """The dense NumPy array, up to the memory limit. It is read-only where it shares memory
        with a tensor; ``copy=True`` gives one to write to."""
        array = to_numpy(self)
        return array.copy() if copy and not array.flags.writeable else array

    def to_scipy(self, format: str | None = None, *, copy: bool = False) -> Any:
        """The scipy.sparse array in a SciPy format ("csr", "coo", ...). Its arrays are read-only
        where they share memory with the tensor; ``copy=True`` gives one to write to."""
        made = scipy_.to_scipy(stored_of(self), format)
        return made.copy() if copy else made

    def to_pydata(self) -> Any:
        """The PyData/Sparse array."""
        return sparse_.to_pydata(stored_of(self))

    def to_coo(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Coordinates (one row per axis) and values of the entries that ``nnz`` counts: those
        unlike the fill, sorted and unique."""
        coo = storage.to_coo(stored_of(self))
        kept = slice(None) if coo.count == self.nnz else differs(coo.values, self.fill)
        require(coo.count * (coo.values.itemsize + 8 * self.ndim), "the coordinates of entries")
        values = coo.values[kept]
        coords = np.empty((len(coo.coords), values.size), np.int64)
        for k, row in enumerate(coo.coords):
            coords[k] = row[kept]
        return coords, values

    def to_format(self, format: FormatLike) -> Tensor:
        """The same tensor stored in another format."""
        return from_stored(run([self], settings.current(), [format])[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        found = self.known
        other = dtype is not None and self.dtype != dtype
        if copy is False and (other or (found is not None and not found.format.is_dense)):
            raise ValueError(f"{self!r} is no array of dtype {dtype or self.dtype} without a copy")
        array = to_numpy_unasked(self)
        if other:
            return array.astype(dtype)
        return array.copy() if copy and not array.flags.writeable else array

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

    def __iter__(self) -> Iterator[Any]:
        """The slices along the first axis; of a vector its entries, as NumPy's scalars."""
        if not self.shape:
            raise TypeError_("a scalar tensor cannot be iterated")
        given = self if self.given is not None else from_stored(stored_of(self))
        if self.ndim == 1:
            return _entries(given)
        return (given[k] for k in range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        return bool((self == value).any())

    def astype(self, dtype: object, *, copy: bool | None = None,
               casting: str = "unsafe") -> Tensor:
        """The entries converted to ``dtype``; ``copy=True``: as they are now, whatever is written
        later to arrays that were handed in."""
        return elementwise.astype(self, dtype, copy=copy, casting=casting)

    def copy(self) -> Tensor:
        """The tensor in memory of its own: writing to an array that was handed in does not change
        it. Itself if no write can change it."""
        return copied(self)  # type: ignore[return-value]

    def forget(self) -> Tensor:
        """Itself, without the result that is kept with it: its memory is free, and it is computed
        again when it is asked for."""
        self.program.forget()
        return self

    def refresh(self) -> Tensor:
        """Itself, after arrays that it shares were changed: everything that was remembered of it is
        forgotten, and the arrays are checked. Needed only if arrays that say where entries are
        (indices, bounds) were written to, or to compute a kept result again."""
        refresh(self)
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

    conjugate = conj

    def dot(self, other: object) -> Tensor:
        """NumPy's dot: the last axis with the last but one of the other."""
        return products.dot(self, other)

    def take(self, indices: object, axis: int | None = None) -> Tensor:
        """The entries at the given positions along an axis (None: flattened)."""
        return joining.take(self, indices, axis)

    round, clip, repeat = ufuncs.round, ufuncs.clip, joining.repeat

    def __reduce__(self) -> tuple[Any, ...]:
        # Data or a program over data, never what was computed or remembered.
        data = self._data()
        return (from_program, (to_lines(self.node),)) if data is None else (from_stored, (data,))

    def __dask_tokenize__(self) -> object:
        data = self._data()
        return "tensorel.Tensor", to_lines(self.node, digest) if data is None else digest(data)

    def _data(self) -> Stored | None:
        """The stored tensor that it was made from, if it is no program."""
        return self.given

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self.copy()

    # -- printing -----------------------------------------------------------------------------
    def __repr__(self) -> str:
        about = f"shape={self.shape}, dtype={self.dtype.name}"
        stored = self.known
        if stored is None:
            return f"Tensor({about}, lazy)"
        place, names = shown_places(self)
        about += names + f", format={stored.format.name!r}, fill={stored.fill}"
        if stored.format.is_dense and not self.program.is_labelled:
            values = storage.to_dense(stored).reshape(-1)[:SHOWN_ENTRIES].tolist()
            more = ", ..." if self.size > SHOWN_ENTRIES else ""
            return f"Tensor({about}, [{', '.join(map(str, values))}{more}])"
        coo = storage.to_coo(stored)
        shown = ", ".join(
            f"{place(*(int(c[k]) for c in coo.coords))}: {coo.values[k]}"
            for k in range(min(coo.count, SHOWN_ENTRIES))
        )
        more = ", ..." if coo.count > SHOWN_ENTRIES else ""
        return f"Tensor({about}, nnz={storage.count_nonfill(stored)}, {{{shown}{more}}})"

    def __str__(self) -> str:
        if self.known is None and self.size > PRINTED_SIZE:
            return repr(self)
        stored = stored_of(self)
        if self.program.is_labelled:
            return repr(self)
        if stored.format.is_dense or self.size <= 64:
            return str(storage.to_dense(stored))
        return repr(self)

    # -- protocols ----------------------------------------------------------------------------
    @property
    def device(self) -> str:
        """The device that holds the tensor."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: object = None) -> Tensor:
        """Itself; the only device is "cpu"."""
        to_device_check(device)
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules["tensorel"]

    def __dlpack__(self, **options: Any) -> Any:
        array = to_numpy_unasked(self)
        version = options.get("max_version")
        if not array.flags.writeable and (version is None or version[0] < 1):
            # the consumer cannot be told that the memory is read-only
            if options.get("copy") is False:
                raise BufferError("this tensor is read-only: ask for DLPack 1.0 or for a copy")
            array = array.copy()
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    @property
    def flat(self) -> Iterator[Any]:
        """The entries in C order, as NumPy's scalars."""
        return iter(shaping.reshape(self, (-1,)))


def _entries(t: Tensor) -> Iterator[Any]:
    """The entries of a vector as NumPy's scalars, made dense block by block."""
    for start in range(0, t.shape[0], ITERATED_ENTRIES):
        yield from storage.to_dense(stored_of(t[start : start + ITERATED_ENTRIES]))


def from_program(lines: list[Line]) -> Tensor:
    """The lazy tensor of a program that was pickled."""
    return Tensor(from_lines(lines))
