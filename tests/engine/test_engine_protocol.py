"""Engines are asked through one protocol; what is none is refused, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import Config
from tensorel.engines.protocol import Engine, Formats, Prepared
from tensorel.engines.registry import DEFAULT, engine_of
from tensorel.ir.nodes import Tensor
from tensorel.plan.explain import Explanation
from tensorel.storage.stored import Stored

A = tr.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]], format="csr")
X = tr.asarray([1.0, 2.0, 3.0])

ASKED: dict[str, Callable[[object], Any]] = {
    "compute": lambda e: (A @ X).compute(engine=e),
    "compute what is stored": lambda e: A.compute(engine=e),
    "compute several": lambda e: tr.compute(A @ X, A.sum(), engine=e),
    "explain": lambda e: (A @ X).explain(engine=e),
    "explain several": lambda e: tr.explain(A @ X, engine=e),
    "options": lambda e: tr.options(engine=e).__enter__(),
}


@pytest.mark.parametrize("way", ASKED)
@pytest.mark.parametrize(("engine", "error"), [
    ("no such engine", tr.errors.EngineError), ("", tr.errors.EngineError),
    (3, tr.errors.TypeError_), (np, tr.errors.TypeError_), (type(DEFAULT), tr.errors.TypeError_)])
def test_what_is_no_engine_is_refused(way: str, engine: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="is not known") as caught:
        ASKED[way](engine)
    assert "'local'" in str(caught.value)
    assert (A @ X).compute().tolist() == [7.0, 9.0], "settings are as they were"


@pytest.mark.parametrize("engine", [None, "local", DEFAULT])
def test_the_local_engine_by_name_and_by_object(engine: object) -> None:
    assert engine_of(engine) is DEFAULT
    assert (A @ X).compute(engine=engine).tolist() == [7.0, 9.0]
    assert tr.compute(A @ X, engine=engine)[0].tolist() == [7.0, 9.0]
    assert str((A @ X).explain(engine=engine)) == str((A @ X).explain())
    with tr.options(engine=engine):
        assert float(A.sum()) == 6.0


class Counting(Engine):
    """Has the local engine do it, and notes what it was asked for."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def evaluate(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> list[Stored]:
        self.asked.append("evaluate")
        return DEFAULT.evaluate(nodes, config, formats)

    def prepare(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> Prepared:
        self.asked.append("prepare")
        return DEFAULT.prepare(nodes, config, formats)

    def explain(self, nodes: Sequence[Tensor], config: Config, level: str = "physical",
                analyze: bool = False) -> Explanation:
        self.asked.append("explain")
        return DEFAULT.explain(nodes, config, level, analyze)

    def close(self) -> None:
        self.asked.append("close")


def test_an_engine_is_asked_for_all_results_in_its_block() -> None:
    with Counting() as engine, tr.options(engine=engine):
        for ask in (float, np.asarray, lambda t: t.compute(), lambda t: t.to_format("dense")):
            engine.asked.clear()
            ask((A * 2).sum())
            assert engine.asked == ["evaluate"]
        (A @ X).explain()
        tr.advise({"product": lambda A: A @ X}, {"A": A})
        assert engine.asked[1] == "explain" and engine.asked[2:] == ["prepare"] * len(
            engine.asked[2:]) != []
        engine.asked.clear()
        (A @ X).compute(check=True)
        assert set(engine.asked) == {"evaluate", "prepare"}
    assert engine.asked[-1] == "close"


def test_what_is_prepared_is_run_again() -> None:
    prepared = DEFAULT.prepare([(A @ X).node], tr.config.current(), [None])
    for _ in range(4):
        (found,) = prepared.run()
        assert found.arrays["val"].tolist() == [7.0, 9.0]
    assert prepared.plan.results == ("out1",)
