"""What was found out about a stored tensor: each fact a field, all of them to be dropped at any
time.

Law: nothing here is data. A copy or a pickle of a tensor has none of it; numbers have a meaning in
this process alone. A field that is None was not asked for yet. What plans cost may rest on facts
about values; a result only on those that are asked for anew where somebody else may write to the
arrays (``Stored.shared``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorel.ir.nodes import Const, Source
    from tensorel.stats.collected.facts import Axes, TensorStats
    from tensorel.stats.estimates.join_sampling import Rows
    from tensorel.storage.lending import Watch
    from tensorel.storage.stored import Signature, Stored


class Derived:
    """A new one costs next to nothing: fields that were not asked for lie in the class."""

    # Of the format and of the arrays, whatever they hold.
    fill: Const | None = None
    signature: Signature | None = None
    kind: int | None = None  # stands for the signature, in this process
    nbytes: int | None = None
    sound: bool | None = None  # kernels can read the arrays as they lie
    shared: bool | None = None  # somebody else may write to the arrays
    private: bool = False  # nobody else can write to what says where entries lie

    # Of where entries lie.
    watched: tuple[Watch | None] | None = None
    count: int | None = None
    levels: tuple[float, ...] | None = None  # nodes of each level
    longest: tuple[tuple[float, ...] | None] | None = None  # segment of each level, if it is known
    locality: float | None = None
    diagonal: int | None = None
    sample: tuple[Rows | None] | None = None  # entries from which sizes of joins are guessed
    keys: dict[Axes, bool] | None = None
    ranges: dict[tuple[int, ...], list[tuple[int, int]]] | None = None  # of equal work, by extent
    packed: dict[tuple[float, ...], bytes] | None = None  # such ranges as kernels are given them

    # Of values.
    stats: TensorStats | None = None
    nonfill: int | None = None
    largest: float | None = None
    bounds: tuple[int, int] | None = None  # least and largest of whole numbers

    # How programs know the tensor.
    token: int | None = None  # a number of its own, as long as it lives
    number: int | None = None  # the same for all tensors that programs and plans take for alike
    slots: dict[tuple[str, float], Source] | None = None
    settled: Stored | None = None  # a copy that never changes
    matrices: dict[tuple[str, int], Stored | None] | None = None  # made of whole numbers as keys

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.__dict__)

    def copy(self) -> Derived:
        """The same for a tensor that is alike in everything that is known here."""
        made = Derived()
        made.__dict__.update(self.__dict__)
        return made
