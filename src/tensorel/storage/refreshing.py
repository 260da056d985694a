"""Stored tensors whose arrays others may have written to since they were handed in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tensorel.errors import StorageError
from tensorel.storage.derived import Derived
from tensorel.storage.laws import Violation
from tensorel.storage.lending import may_change, private
from tensorel.storage.limits import require

if TYPE_CHECKING:
    from tensorel.storage.format import PhysicalArrays
    from tensorel.storage.stored import Stored


def ready(stored: Stored) -> None:
    """Before a program reads the tensor. The first time, what says where entries lie is copied
    where others may write to it, and checked: from then on kernels go nowhere else."""
    if stored.derived.private:
        if stored.watch is not None:
            look_again(stored)
        return
    for form in (stored, *stored.alternatives):
        _keep_places(form)


def _keep_places(form: Stored) -> None:
    values = form.format.value_array
    lent = {n: a for n, a in form.arrays.items() if n != values and may_change(a)}
    if lent:
        require(sum([a.nbytes for a in lent.values()]), "a copy of the places of its entries")
        arrays = {**form.arrays, **{n: private(a) for n, a in lent.items()}}
        check_places(form, arrays)
        watch = form.watch
        if watch is not None and watch.differs():  # nothing that was found out holds
            form.derived = Derived()
        form.arrays = arrays
        form.derived.watched = form.derived.shared = None
    form.derived.private = True


def look_again(stored: Stored) -> None:
    """If a sample of the arrays that say where entries lie has changed, all of it is checked, and
    what was known is forgotten."""
    watch = stored.watch
    if watch is not None and watch.differs():
        refresh(stored)


def refresh(stored: Stored) -> None:
    """Forget what was found out, and take over what users wrote to the arrays that say where
    entries lie, if they form a tensor as they are now."""
    for form in (stored, *stored.alternatives):
        lent = {n: a for n, of in form.lent().items() if (a := of.array()) is not None}
        if lent:
            arrays = {**form.arrays, **{n: private(a) for n, a in lent.items()}}
            check_places(form, arrays)
            form.arrays = arrays
        form.derived = Derived()


def is_shared(stored: Stored) -> bool:
    """Whether somebody else may write to the tensor, in any of its storages."""
    return stored.shared or any([o.shared for o in stored.alternatives])  # noqa: C419


def own_arrays(stored: Stored) -> Stored:
    """The tensor in arrays that nobody else writes to; itself if it is."""
    if not is_shared(stored):
        return stored
    look_again(stored)
    theirs = {n for n, a in stored.arrays.items() if may_change(a)}
    require(sum([stored.arrays[n].nbytes for n in theirs]), "a copy of the tensor")
    arrays = {n: a.copy() if n in theirs else a for n, a in stored.arrays.items()}
    return replace(stored, arrays=arrays, derived=Derived(),
                   alternatives=tuple([own_arrays(other) for other in stored.alternatives]))


def check_places(stored: Stored, arrays: PhysicalArrays) -> None:
    """The entries lie inside of the tensor, in order, each cell once."""
    try:
        stored.format.check(arrays, stored.shape, stored.dtype, whole=True)
    except Violation as violation:
        raise StorageError(
            f"the arrays of a tensor of shape {stored.shape} in format {stored.format.name!r} were "
            f"changed since they were handed in, and form no tensor now: {violation}",
            hint="make a new tensor after changing where entries lie; only values may be written "
            "to") from violation
