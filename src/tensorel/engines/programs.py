"""Programs as lazy tensors hold them, and results that are kept with them.

A program is stored data, a node of the calculus, or a formula: a function of the front end applied
to programs. A formula becomes a node when somebody asks for that. What a plan depends on is known
without it: the functions with their parameters, and of each stored tensor what its number stands
for (``number_of``). So a formula that was built before is found without building and binding nodes.

A result that was asked for is kept with its program, as long as the tensor that names the program
lives, or a program that reads it. Where nobody can write to the arrays that it was computed from,
programs that read it are planned over it, and who asks again gets it; a program that nobody can
name any more is then its result and nothing else: what that was computed from is forgotten.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import ref

from tensorel.algebra.ops import DType
from tensorel.config import Config
from tensorel.engines.binding import class_of
from tensorel.engines.formulas import Extent, Formula, kind_of
from tensorel.engines.kept_results import KEPT
from tensorel.ir.analysis import is_whole
from tensorel.ir.given import Numbers
from tensorel.ir.interning import Memo
from tensorel.ir.nodes import Const, Source, Tensor
from tensorel.storage.derived import Derived
from tensorel.storage.format import FormatLike
from tensorel.storage.labelling import axes_of
from tensorel.storage.lending import freeze
from tensorel.storage.stored import Stored

MAX_FUNCTIONS = 24  # of a formula: its nodes are made one inside the other
MAX_REMEMBERED = 4096  # formulas, and kinds of stored tensors
NO_NUMBERS: Mapping[Const, Const] = {}
UNCOUNTED_BYTES = 1 << 16  # results that no memory limit notices

_numbers: dict[object, int] = {}
FORMULAS: dict[object, Formula] = {}
_fresh = itertools.count()  # never used twice: what is forgotten is only made anew


def number_of(stored: Stored) -> int:
    """Stands for all that programs and plans depend on in a stored tensor."""
    found = stored.derived.number
    if found is None:
        about = (stored.kind, stored.shape, stored.dtype, stored.fill_const, stored.whole,
                 class_of(stored))
        if len(_numbers) >= MAX_REMEMBERED:
            _numbers.clear()
        found = stored.derived.number = _numbers.setdefault(about, next(_fresh))
    return found


_programs = Memo[ref["Program"]]("_program")


def program_of(node: Tensor) -> Program:
    """A program that computes the node, the one that it was written for if that lives."""
    known = _programs.get(node)
    found = None if known is None else known()
    return Program(node) if found is None or found.data is not None else found


class Program:
    """``data``: it is a stored tensor. ``formula``: it is written over ``leaves``, stored tensors
    in the order of their places, and over ``values``, numbers, ``extents`` among them. ``parts``:
    the programs inside that are written out, each once; ``assumed``: those that are read as their
    results. ``result`` was computed under ``settings``. ``wanted``: the format of its result, with
    the fill 0, where the program says it. ``holder``: a user's tensor. ``is_labelled``: it reads
    labels."""

    # What most programs do not have lies in the class: they are made at each call.
    _about: tuple[object, ...] = ()
    _build: Callable[..., Tensor] | None = None
    _leaf: Stored | None = None
    _operands: tuple[Program, ...] = ()
    _values: tuple[Const, ...] = ()
    _extents: tuple[Const, ...] = ()
    _takes_extents: bool = False
    size: int = 0
    result: Stored | None = None
    settings: Config | None = None
    wanted: FormatLike | None = None
    holder: ref[Any] | None = None
    formula: Formula | None = None
    leaves: Sequence[Stored] = ()
    values: tuple[Const, ...] = ()
    extents: tuple[Const, ...] = ()
    parts: tuple[Program, ...] = ()
    assumed: Mapping[Program, Stored] = {}
    is_labelled: bool = False

    def __init__(self, node: Tensor | None = None, data: Stored | None = None) -> None:
        if type(node) is Source and isinstance(node.data, Stored):
            data = node.data
        self._node, self.data = node, data
        if data or node:
            self.is_labelled = (data.axes if data else node and axes_of(node)) is not None

    # -- what it computes -----------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        formula = self.formula
        if formula is None:
            return (self.data or self.node).shape
        return formula.shape(self.extents, self.values, self._built)

    @property
    def dtype(self) -> DType:
        return (self.formula or self.data or self.node).dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def node(self) -> Tensor:
        """The program as it was written, over stored tensors."""
        found = self._node
        if found is None:
            data = self.data
            if data is not None:
                found = Source(data, data.shape, data.dtype, data.fill_const)
            else:
                assert self._build is not None
                found = self._build(*self._operands, *self._values)
                _programs[found] = ref(self)
            self._node = found
        return found

    def is_written_as(self, node: Tensor) -> None:
        """Say what the node is, which is known to who made the formula of it."""
        self._node = node
        _programs[node] = ref(self)

    def written(self, given: Mapping[Const, Const] = NO_NUMBERS) -> Tensor:
        """The program over what its formula takes for stored: results that are kept, too.
        ``given``: what stands for numbers in it. Programs inside may have been described anew
        since: what counts is what this one assumes."""
        if not self.assumed and not given:
            return self.node
        return self._written(self.assumed, given, {})

    def _built(self, given: Mapping[Const, Const]) -> Tensor:
        return self._written(self.assumed, given, {}) if given else self.node

    def _written(self, assumed: Mapping[Program, Stored], given: Mapping[Const, Const],
                 known: dict[Program, Program]) -> Tensor:
        if self._build is None:
            return self.node
        for q in self._operands:
            if q not in known:
                known[q] = Program(None, assumed[q]) if q in assumed else q \
                    if q.data else Program(q._written(assumed, given, known))
        return self._build(*[known[q] for q in self._operands],
                           *[given.get(v, v) for v in self._values])

    # -- its formula ----------------------------------------------------------------------------
    def settle(self, config: Config) -> None:
        """Find the formula again where results inside of it are kept or forgotten since."""
        if self._stands(config):
            for q in self.parts:
                if q.data or q.is_kept(config):
                    break
            else:
                return
        for q in self._operands:
            q.settle(config)
        self._node = None
        self._describe(config)

    def _stands(self, config: Config | None) -> bool:
        """Whether the results that its formula takes for stored are kept still."""
        for q, taken in self.assumed.items():
            if (q.data or q._leaf) is not taken or not (
                    q.data or (q.result if config is None else q.is_kept(config))):
                return False  # or computed anew since
        return True

    def _describe(self, config: Config | None) -> None:
        """``config``: under which settings results count; None: under any."""
        key: list[object] = [self._about]
        leaves: list[Stored] = []
        values, extents = self._values, self._extents
        for value in values:
            key.append(kind_of(value))
        parts: list[Program] = []
        assumed: dict[Program, Stored] = {}
        size = 1
        for q in self._operands:
            data = q.data
            if not q._stands(config):  # what it assumes is forgotten, or of other settings
                q._describe(config)
            if data is None and q.result is not None:
                if config is None or q.is_kept(config):
                    data = assumed[q] = q.leaf()
            if data is not None:
                key.append(_place(data, leaves) if data in leaves else number_of(data))
                leaves.append(data)
                continue
            parts.append(q)
            if q.formula is None or size + q.size > MAX_FUNCTIONS:
                size = MAX_FUNCTIONS + 1
                continue
            size += q.size
            key.append(q.formula)
            for data in q.leaves:  # which of them are the same tensor
                if data in leaves:
                    key.append(_place(data, leaves))
                leaves.append(data)
            values += q.values
            extents += q.extents
            parts += q.parts
            assumed.update(q.assumed)
        if len(values) > 1 and len(set(values)) < len(values):  # which of them are the same
            key.append(tuple([values.index(v) for v in values]))
        self.leaves, self.values, self.size = leaves, values, size
        self.extents = extents
        if extents and not self._takes_extents:
            key.append(extents)
        self.parts = tuple(dict.fromkeys(parts)) if len(parts) > 1 else tuple(parts)
        self.assumed = assumed
        self.formula = None
        if size > MAX_FUNCTIONS:
            return
        whole = tuple(key)
        found = FORMULAS.get(whole)
        if found is None:
            node = self.written()
            if not assumed:
                self._node = node
            if len(FORMULAS) >= MAX_REMEMBERED:
                FORMULAS.clear()
            found = FORMULAS.setdefault(whole, Formula(node, extents, values))
        self.formula = found

    def numbers(self) -> Numbers | None:
        """The numbers that plans are given, beside a record whose guards hold for them."""
        assert self.formula is not None
        return self.formula.numbers(self.values, self.extents)

    # -- its result -----------------------------------------------------------------------------
    def is_kept(self, config: Config) -> bool:
        """Whether its result is known, as these settings would make it."""
        return self.result is not None and (self.settings is config or self.settings == config)

    @property
    def is_named(self) -> bool:
        """Whether a tensor of a user stands for it."""
        return self.holder is not None and self.holder() is not None

    def result_under(self, config: Config) -> Stored | None:
        """Its result, if it is known and has the values that these settings ask for."""
        settings = self.settings
        return self.result if settings is not None and settings.strict == config.strict else None

    def keep(self, result: Stored, config: Config) -> None:
        """The result, for whoever names the program: it cannot be another later, for nobody can
        write to what it was computed from."""
        name = None if self.holder is None else self.holder()
        if name is None:
            return
        freeze(result.arrays.values())
        self.result, self.settings = result, config
        self.holder = ref(name, partial(_unnamed, ref(self)))
        if result.nbytes > UNCOUNTED_BYTES:
            KEPT.count(self, result.nbytes)

    def forget(self) -> None:
        """The result will be computed again when somebody asks."""
        if self.result is not None:
            self.result = self.settings = self._leaf = None
            KEPT.discount(self)

    def leaf(self) -> Stored:
        """The result, for programs that read it: it has a value everywhere, or not, by its formula,
        whatever its storage is. A result that is given to the user knows nothing of that."""
        found = self._leaf
        if found is None:
            found = self.result
            assert found is not None
            whole = is_whole(self.node)
            if whole != found.format.is_dense:
                known = Derived()
                known.count, known.nbytes = found.derived.count, found.derived.nbytes
                found = Stored(found.format, found.shape, found.dtype, found.fill, found.arrays,
                               known, whole=whole, axes=found.axes)
            self._leaf = found
        return found

    def refresh(self) -> None:
        """Forget all results inside."""
        seen, stack = {self}, [self]
        while stack:
            program = stack.pop()
            program.forget()
            stack += set(program._operands) - seen
            seen.update(stack)

    def cut(self) -> None:
        """Nobody names the program: it is its result from now on."""
        self.data = self.leaf()
        self.forget()
        self._node = self._build = None
        self._operands, self._values, self.parts, self.formula = (), (), (), None
        self.assumed, self.extents = {}, ()


def _unnamed(program: ref[Program], name: ref[Any]) -> None:
    """Nobody names it any more."""
    found = program()
    if found is not None and found.result is not None:
        found.cut()


def formula(about: tuple[object, ...], build: Callable[..., Tensor],
            operands: tuple[Program, ...], values: tuple[Const, ...] = (),
            takes_extents: bool = False) -> Program:
    """The program ``build(*operands, *values)``, whose node follows from ``about``, shapes, dtypes,
    fills and formats of the operands, and numbers: what was built before is not built again.
    ``takes_extents``: ``build`` knows no extents but those of operands and values that it is called
    with, so ``about`` says all that it is made of."""
    made = Program()
    made._about, made._build, made._operands, made._values = about, build, operands, values
    if takes_extents:
        made._takes_extents = True
        made._extents = tuple([v for v in values if type(v) is Extent]) if values else ()
    for q in operands:
        made.is_labelled |= q.is_labelled
    made._describe(None)
    if made.formula is None or made.extents:
        made.shape  # noqa: B018 (checks the operands)
    return made


def _place(data: Stored, leaves: Sequence[Stored]) -> tuple[int, int]:
    """Stands for a tensor that was seen before: which, and where it is met again."""
    return leaves.index(data), len(leaves)
