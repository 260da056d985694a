"""What a benchmark case is: one naive program of ours, and the same job in the peers' words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Job = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """One way a peer does the job.

    library: "scipy", "numpy" or "sparse". form: "naive" as a user writes it first, or how an
    expert would. skip: why this form is not run, shown in the report instead of a time.
    read: from the peer's result to something that compares with ours.
    """

    library: str
    form: str
    job: Job | None = None
    skip: str = ""
    read: Callable[[Any], Any] | None = None

    @property
    def label(self) -> str:
        return f"{self.library} {self.form}".strip()


@dataclass(frozen=True)
class Problem:
    """A case with its data in memory.

    ours: builds the lazy program; the measurement adds ``.compute()``. eager: our job is not a
    lazy program (construction from raw arrays) and ``ours`` runs it whole.
    inputs: the arrays and tensors that ours reads, for their bytes.
    """

    ours: Job
    peers: tuple[Peer, ...]
    inputs: tuple[Any, ...] = ()
    eager: bool = False


@dataclass(frozen=True)
class Case:
    """name: shown and matched by --only. program: what the user types. setup(scale) makes the
    data, ``scale`` being 1 for the full size and less for --quick."""

    name: str
    program: str
    setup: Callable[[float], Problem]


_CASES: list[Case] = []


def case(name: str, program: str) -> Callable[[Callable[[float], Problem]], Case]:
    """Register a function from scale to Problem as a case."""

    def register(setup: Callable[[float], Problem]) -> Case:
        made = Case(name, program, setup)
        _CASES.append(made)
        return made

    return register


def add(name: str, program: str, setup: Callable[[float], Problem]) -> None:
    """Register one case of a family that differs in its data alone."""
    _CASES.append(Case(name, program, setup))


def all_cases() -> tuple[Case, ...]:
    return tuple(_CASES)
