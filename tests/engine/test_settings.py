"""The main programs under changed settings: options of users, and the thresholds that decide what
happens to small data, moved so that it happens to all. One answer to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from engine_support import same
from main_programs import PROGRAMS, expected, tensors

import tensorel as tr
from tensorel.costs import SHIPPED, Costs
from tensorel.engines import formulas, programs
from tensorel.engines.formulas import extent, kind_of
from tensorel.engines.in_process import engine, kernel_job, kernel_step, relaunch
from tensorel.ir.nodes import Const
from tensorel.kernels.lowering import compressed_rows
from tensorel.kernels.runtime.buffers import GrowBuffer
from tensorel.plan import slot_facts
from tensorel.plan.logical import merge_axes, windows
from tensorel.plan.loops import outputs
from tensorel.plan.pipeline import PASSES
from tensorel.storage import sorting

pytestmark = pytest.mark.effort("full")  # kernels are the same under many settings

#: More threads are always worth it.
EAGER = replace(SHIPPED, thread=1.0, thread_collect=1.0, thread_gain=0.5, memory=0.0, fresh=0.0)
FAMILIES = Path(__file__).parents[1] / "rules"


@dataclass(frozen=True)
class Setting:
    """``options`` of users, ``moved`` names of modules, ``rules`` switched off. ``times`` that each
    program runs: later runs are launched in another way than the first."""

    options: dict[str, Any] = field(default_factory=dict)
    moved: tuple[tuple[ModuleType, str, Any], ...] = ()
    rules: tuple[str, ...] = ()
    times: int = 1
    costs: Costs = SHIPPED

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """In force, with costs of its own: no plan was made under another setting."""
        with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
            for module, name, value in self.moved:
                patch.setattr(module, name, value)
            for name in self.rules:
                stack.callback(tr.rules.enable, name)
                tr.rules.disable(name)
            stack.enter_context(tr.options(costs=replace(self.costs), **self.options))
            yield


def _moved(name: str, value: Any, *modules: ModuleType) -> tuple[tuple[ModuleType, str, Any], ...]:
    return tuple((m, name, value) for m in modules)


def _family(path: Path) -> tuple[str, ...]:
    """The rules that a file of pairs tests."""
    lines = path.read_text().splitlines()
    names = {line.removeprefix("rule: ") for line in lines if line.startswith("rule: ")}
    return tuple(r.name for r in tr.rules.all() if r.name in names)


#: Every kernel is cut into ranges, however little it does.
RANGES = (*_moved("SMALL_COST", 0.0, kernel_job, kernel_step),
          *_moved("PIECE_COST", 1.0, kernel_job, kernel_step, relaunch),
          *_moved("RANGE_COST", 50.0, kernel_job))

def _another(value: Const) -> Any:
    """A number that a plan for ``value`` may be made for."""
    return value.value + 1 if type(value) is formulas.Extent and kind_of(
        extent(int(value.value) + 1)) == kind_of(value) else value.value


SETTINGS: dict[str, Setting] = {
    "as users have them": Setting({"verify": False}),
    "strict": Setting({"strict": True}),
    "as written": Setting({"optimize": False}),
    "as written and strict": Setting({"optimize": False, "strict": True}),
    "one thread": Setting({"threads": 1}, times=3),
    "many ranges": Setting({"threads": 1}, RANGES, times=3),
    "two threads": Setting({"threads": 2}, RANGES, times=4, costs=EAGER),
    "five threads": Setting({"threads": 5}, RANGES, costs=EAGER),
    "two threads and strict": Setting({"threads": 2, "strict": True}, RANGES, costs=EAGER),
    "buffers of one entry": Setting(
        {}, _moved("GrowBuffer", lambda dtype, room: GrowBuffer(dtype, 1), kernel_job)),
    "buffers of one entry on two threads": Setting(
        {"threads": 2}, (*RANGES, *_moved(
            "GrowBuffer", lambda dtype, room: GrowBuffer(dtype, 1), kernel_job)), costs=EAGER),
    "checked positions": Setting({"bounds": True, "verify": True}),
    "checked positions on two threads": Setting({"bounds": True, "threads": 2}, RANGES,
                                                costs=EAGER),
    "other plans compared": Setting({"check": True}),
    "little effort": Setting({"effort": "quick"}),
    "little memory": Setting({"memory": "400kB"}),
    "places in 64 bits": Setting({}, _moved("INDEX_LIMIT", 0, slot_facts, outputs)),
    "no lists of columns": Setting({}, _moved("MAX_LISTED_COLUMNS", 0, compressed_rows)),
    "native sorting": Setting({}, _moved("MIN_NATIVE_ENTRIES", 0, sorting)),
    "windows of two steps": Setting({}, (*_moved("MAX_WHOLE_STEPS", 2, windows, engine),
                                         *_moved("WINDOW_STEPS", 2, windows))),
    "all axes merged": Setting({}, _moved("MAX_LOOPS", 0, merge_axes)),
    "no formulas remembered": Setting({}, _moved("MAX_FUNCTIONS", 0, programs)),
    "plans for other lengths": Setting({}, (
        (programs, "FORMULAS", {}), *_moved("PLANS_FIRST_ALONE", False, formulas),
        *_moved("planned_for", _another, formulas)), times=2),
    "all laws searched": Setting({}, _moved(
        "added", lambda *families: tr.rules.all(*families)[:1], tr.rules)),
    "no rules": Setting(rules=tuple(r.name for r in tr.rules.all())),
    **{f"no rules of {path.stem}": Setting(rules=_family(path))
       for path in sorted(FAMILIES.glob("*.txt"))},
    "no optional passes": Setting({"disabled": [p.name for p in PASSES if p.optional]}),
    **{f"without {p.name}": Setting({"disabled": [p.name]}) for p in PASSES if p.optional},
}


#: What `make check` runs.
FIRST = ("as users have them", "strict", "as written", "two threads", "no rules")


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=pytest.mark.check) if n in FIRST else n for n in SETTINGS])
def test_one_answer(name: str) -> None:
    setting, wrong = SETTINGS[name], []
    with setting():
        operands = tensors()
        for about, program in PROGRAMS.items():
            for _ in range(setting.times):
                try:
                    found = program.ours(operands).compute(format=program.format)
                    same(found, expected(about))
                except Exception as error:
                    wrong.append(f"{about}: {type(error).__name__}: {error}")
                    break
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", ["many ranges", "two threads", "five threads"])
def test_work_is_divided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings do what they say: nearly all kernels run on several ranges, of few entries."""
    cut, ranges = list[int](), kernel_job.Job.ranges

    def noted(job: kernel_job.Job, *about: Any, **more: Any) -> list[tuple[int, int]]:
        found = ranges(job, *about, **more)
        cut.append(len(found))
        return found

    monkeypatch.setattr(kernel_job.Job, "ranges", noted)
    test_one_answer(name)
    assert sum(count > 1 for count in cut) > 0.9 * len(cut) > 50


def test_laws_are_searched() -> None:
    laws = {r.name for r in tr.rules.all("explore")}
    with SETTINGS["all laws searched"]():
        operands = tensors()
        fired = {name for p in PROGRAMS.values() for name in p.ours(operands).explain().rules}
    assert len(fired & laws) > 5
