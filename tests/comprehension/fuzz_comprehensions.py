"""``python tests/comprehension/fuzz_comprehensions.py COUNT [SEED]``: random comprehensions over
random storages, against the interpreter. With COUNT 0, the whole corpus in every combination of
storages of operands and results, in memory, in blocks of 7 and on 3 sites. What differs is printed.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from comprehension_corpus import STORAGES, TARGETS, cases, data, run, stored, used, wanted
from comprehension_corpus import check as check_case
from random_comprehensions import random_text

import tensorel as tr
from tensorel.comprehension.meaning import MeaningError
from tensorel.comprehension.parser import parse
from tensorel.comprehension.printer import show
from tensorel.errors import ParseError


def check(seed: int, **options: object) -> str:
    """How a program went: "equal", "clash", or a refusal."""
    rng = np.random.default_rng(seed)
    text = random_text(rng)
    tree = parse(text)
    assert parse(show(tree)) == tree, text
    arrays = data(int(rng.integers(3)))
    names = used(text, arrays)
    storages = {n: list(STORAGES)[int(rng.integers(len(STORAGES)))] for n in names}
    try:
        want = wanted(text, {n: arrays[n] for n in names})
    except MeaningError:
        return "no meaning"
    given = {n: stored(n, arrays[n], storages[n]) for n in names}
    try:
        found = run(text, given, **options)
    except ParseError as error:
        return f"refused: {error.message}"
    if want.outcome == "clash":
        assert found.outcome == "clash", (text, storages, found)
        return "clash"
    assert found.outcome == want.outcome, (text, storages, found.outcome, want.outcome)
    assert want.value is not None and found.value is not None
    assert found.value.shape == want.value.shape, (text, storages)
    np.testing.assert_allclose(
        unbounded(found.value), np.asarray(want.value, float), rtol=1e-9, atol=1e-9,
        err_msg=f"{text}\n{storages} seed {seed}")
    return "equal"


def unbounded(found: np.ndarray) -> np.ndarray:
    """The least of no whole numbers is the largest there is; the interpreter says infinity."""
    limits = np.iinfo(np.int64)
    real = np.asarray(found, float)
    whole = found.dtype.kind == "i"
    return np.where(whole & (found == limits.max), np.inf,
                    np.where(whole & (found == limits.min), -np.inf, real))


def all_combinations() -> int:
    """The corpus in every storage; how many answers are wrong."""
    wrong = 0
    with tr.engines.local(sites=3) as sites:
        ways: list[tuple[str, str, dict[str, object]]] = [
            (storage, target, {}) for storage in STORAGES for target in TARGETS]
        ways += [(storage, target, {"engine": sites})
                 for storage in (*STORAGES, "blocks") for target in TARGETS]
        for case in cases():
            for storage, target, options in ways:
                try:
                    check_case(case, storage, target, **options)
                except Exception as error:
                    wrong += 1
                    print(f"{case.title}: {storage} to {target} {list(options)}: "
                          f"{type(error).__name__}: {error}\n{case.text}\n")
        print(f"{len(cases())} programs in {len(ways)} ways, {wrong} wrong")
    return wrong


def main(count: int, seed: int) -> int:
    outcomes: dict[str, int] = {}
    wrong = 0
    for k in range(seed, seed + count):
        try:
            outcome = check(k)
        except Exception as error:
            outcome, wrong = "WRONG", wrong + 1
            print(f"seed {k}: {type(error).__name__}: {error}\n  "
                  f"{random_text(np.random.default_rng(k))}\n")
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    print(outcomes)
    return wrong


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    arguments = [*map(int, sys.argv[1:]), 200, 0]
    found = main(*arguments[:2]) if arguments[0] else all_combinations()
    sys.exit(found > 0)
