"""Calls that were made before: the same formula over stored tensors of the same kinds.

A program is a graph of nodes that ends with the call, and building and binding it again takes
longer than a small product, and after a large one, when the caches have forgotten Python, several
times as long. What the plan depends on is known without it: the functions with their parameters,
and of each stored tensor what ``brief`` stands for. Nothing here holds a user's tensor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from tensorel import rules
from tensorel.config import Config
from tensorel.engines.binding import bind, class_of
from tensorel.engines.local import Planned, Run, execute, is_right, plan_for
from tensorel.engines.thin import thinned
from tensorel.ir.nodes import Tensor
from tensorel.kernels import early
from tensorel.records import dataclass
from tensorel.storage.format import Format
from tensorel.storage.stored import Stored

MOST = 4096
_briefs: dict[object, int] = {}
_numbers = itertools.count()  # never used twice: what is forgotten is only made anew


class Form:
    """A formula over stored tensors of certain kinds: what is known of its result, and plans by
    settings."""

    __slots__ = ("dtype", "plans", "shape")

    def __init__(self, node: Tensor) -> None:
        self.shape, self.dtype = node.shape, node.dtype
        self.plans: dict[object, Again] = {}


_forms: dict[object, Form] = {}


@dataclass(frozen=True, slots=True)
class Again:
    """A plan, which operand goes into which slot, and whether a dense result may turn sparse."""

    planned: Planned
    places: tuple[tuple[str, int], ...]
    thins: bool


def expect_programs(stored: Stored) -> None:
    """A tensor is being made: programs will follow. Those of dense tensors alone may do without
    kernels."""
    if early.pending and not stored.format.is_dense:
        early.load_early()


def brief(stored: Stored) -> int:
    """A number for all that programs and plans depend on in a stored tensor."""
    found = stored.facts.get("brief")
    if found is None:
        about = (stored.kind, stored.shape, stored.dtype, stored.fill_const, class_of(stored))
        if len(_briefs) >= MOST:
            _briefs.clear()
        found = stored.facts["brief"] = _briefs.setdefault(about, next(_numbers))
    return found  # type: ignore[return-value]


def known_form(key: tuple[object, ...]) -> Form | None:
    """What is known of a function, its parameters and its operands: briefs of stored tensors,
    forms of others."""
    return _forms.get(key)


def new_form(key: tuple[object, ...], node: Tensor) -> Form:
    """To be remembered from now on."""
    if len(_forms) >= MOST:
        _forms.clear()
    return _forms.setdefault(key, Form(node))


def evaluate_again(form: Form, operands: Sequence[Stored], node: Callable[[], Tensor],
                   config: Config, format: str | Format | None) -> Stored:
    """The result of a formula over stored tensors; ``node`` gives the program if need be. Not for
    strict plans: they depend on magnitudes."""
    key = (format, config.optimize, config.disabled, config.memory, config.workers, config.effort,
           config.costs, rules.version())
    found = form.plans.get(key)
    inputs = {} if found is None else {name: operands[k] for name, k in found.places}
    if found is None or found.planned.stale or not is_right(found.planned, inputs):
        bound = bind([node()], [format], config)
        planned = plan_for(bound, [format], config)
        assert not planned.blocked, "rankings are no forms"
        numbers = {id(s): k for k, s in enumerate(operands)}
        places = tuple([(name, numbers[id(s)]) for name, s in bound.stored.items()])
        thins = format is None and any(not s.format.is_dense for s in operands)
        found, inputs = Again(planned, places, thins), bound.stored
        form.plans[key] = found
    result = execute(Run(found.planned, inputs, config))[0]
    return thinned(result, config.costs) if found.thins and result.format.is_dense else result
