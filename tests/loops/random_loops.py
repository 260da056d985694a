"""Random imperative programs, compared with running the same Python code.

``python tests/loops/random_loops.py --count 5000`` draws many; the suite draws a few hundred.
"""

from __future__ import annotations

import argparse
import linecache
import random
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorel as tr

HEADER = "import math\nimport numpy as np\n"
FORMATS = ("dense", "csr", "coo", "dcsr")
#: What a program that Python refuses is refused with here.
ERRORS = (IndexError, ZeroDivisionError, OverflowError, ValueError, NameError, TypeError)


class Drawn:
    """One program: text, function, arguments."""

    def __init__(self, seed: int, mode: str = "wild") -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.mode = mode
        self.wild = mode == "wild"
        self.spans: dict[str, tuple[str, int, int]] = {}  # of counters: extent, distance to ends
        self.depth = 0
        self.locals: list[str] = []
        self.ints: list[str] = ["n", "m"]
        self.loops = 0
        self.lines: list[str] = []
        self.text = self.program()
        self.function = compiled(self.text, f"<random loops {seed} {mode}>")

    # -- text ----------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("    " * (self.depth + 1) + text)

    def program(self) -> str:
        r = self.rng
        self.line("s = 0.0")
        self.line(r.choice(["k = 0", "k = 1", "k = n"]))
        self.locals, self.ints = ["s"], [*self.ints, "k"]
        if r.random() < 0.6 or self.mode == "regular":
            self.line(r.choice(["T = np.zeros(n)", "T = A.copy()", "T = np.ones_like(A)",
                                "T = np.full(n, 2.5)"]))
        else:
            self.line("T = np.zeros(n + 2)")
        for _ in range(r.randint(1, 3)):
            self.loop() if r.random() < 0.8 else self.statement()
        names = r.sample(["A", "B", "I", "T"], r.randint(1, 3)) + r.sample(["s", "k"], 1)
        self.line("return " + ", ".join(names))
        return "\n".join(["def program(A, B, I, n, m, alpha):", *self.lines])

    def block(self, header: str, body: Callable[[], None]) -> None:
        self.line(header)
        self.depth += 1
        start = len(self.lines)
        body()
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    def body(self, most: int = 3) -> None:
        for _ in range(self.rng.randint(1, most)):
            self.statement()

    def loop(self) -> None:
        r = self.rng
        name = "ijkpq"[self.loops] if self.loops != 2 else "q"
        known = list(self.ints)
        self.loops += 1
        outer = [x for x in known if x in "ijpq"]
        first = r.choice(["0", "0", "1", "2", *outer])
        last = r.choice(["n", "m", "n - 1", "m - 1", "n", "m", *[f"{x} + 1" for x in outer]])
        kind = r.random()
        if self.mode == "regular":
            extent, a, b = r.choice("nm"), r.choice([0, 0, 1, 2]), r.choice([0, 0, 1])
            self.spans[name] = extent, a, b
            header = f"for {name} in range({a}, {extent} - {b}):" if kind < 0.7 else \
                f"for {name} in range({extent} - {b + 1}, {a - 1}, -1):" if kind < 0.85 else \
                f"for {name} in range({a}, {extent} - {b}, 2):"
        elif kind < 0.5:
            header = f"for {name} in range({first}, {last}):"
        elif kind < 0.65:
            header = f"for {name} in range({last} - 1, {first} - 1, -1):"
        elif kind < 0.8:
            header = f"for {name} in range({first}, {last}, {r.choice([2, 3, -1, -2])}):"
        elif kind < 0.88 and self.wild:
            header = f"for {name} in range({last}):"
        else:
            header = f"for {name} in range(len({r.choice('AIT')})):"

        def inside() -> None:
            self.ints.append(name)
            if self.loops < 3 and r.random() < 0.5:
                self.loop()
                if r.random() < 0.4:
                    self.body(1)
            else:
                self.body()

        self.block(header, inside)
        self.ints = known
        self.loops -= 1

    def statement(self) -> None:
        r = self.rng
        kind = r.random()
        if kind < 0.40:
            self.line(f"{self.place()} {r.choice(['=', '=', '+=', '-=', '*='])} {self.value()}")
        elif kind < 0.52:
            self.line(f"s {r.choice(['+=', '+=', '=', '-='])} {self.value()}")
        elif kind < 0.60:
            self.line(f"I[{self.index('I')}] = {self.whole()}")
        elif kind < 0.66:
            self.line(f"k {r.choice(['=', '+=', '-='])} {self.whole()}")
        elif kind < 0.72:
            a, b = self.place(), self.place()
            self.line(f"{a}, {b} = {b}, {a}")
        elif kind < 0.78:
            name = r.choice(["u", "v"])
            self.line(f"{name} = {self.value()}")
            if name not in self.locals:
                self.locals.append(name)
        elif kind < 0.92 and self.depth < 5 and (self.mode != "regular" or kind < 0.84):
            self.block(f"if {self.test()}:", self.leaving if self.loops and r.random() < 0.3
                       and self.mode != "regular"
                       else lambda: self.body(2))
            if r.random() < 0.3:
                self.block("else:", lambda: self.body(1))
        elif self.wild and self.depth < 3 and kind < 0.96:
            self.line("w = 0")
            self.block(f"while w < {r.choice(['n', 'm', '5'])} and s < 1e3:", self.counted)
        else:
            self.line(f"s = max(s, {self.value()})")

    def counted(self) -> None:
        self.line("w += 1")
        known = list(self.ints)
        self.ints.append("w")
        self.body(2)
        self.ints = known

    def leaving(self) -> None:
        if self.rng.random() < 0.5:
            self.body(1)
        self.line(self.rng.choice(["break", "continue"]))

    def place(self) -> str:
        return self.rng.choice([f"A[{self.index('A')}]", f"T[{self.index('T')}]",
                                f"B[{self.index('B0')}, {self.index('B1')}]"])

    def index(self, array: str) -> str:
        r = self.rng
        counters = [x for x in self.ints if x in "ijpqw"]
        if not counters:
            return r.choice(["0", "-1", "1"])
        if self.mode == "regular":
            return self.safe(array, counters)
        i = r.choice(counters)
        size = {"A": "n", "T": "n", "I": "n", "B0": "n", "B1": "m"}[array]
        kind = r.random()
        if kind < 0.55:
            return i
        if kind < 0.75:
            return f"{i} {r.choice(['-', '+'])} {r.choice([1, 1, 2])}"
        if kind < 0.82:
            return f"({i} {r.choice(['-', '+'])} {r.choice([1, 2])}) % {size}"
        if kind < 0.87:
            return f"{size} - 1 - {i}"
        if kind < 0.91:
            return f"{i} // 2"
        if kind < 0.94:
            return f"I[{i}] % {size}"
        return r.choice(["0", "-1", *counters])

    def safe(self, array: str, counters: list[str]) -> str:
        """An index that is inside."""
        r, extent = self.rng, "m" if array == "B1" else "n"
        fitting = [x for x in counters if x in self.spans and self.spans[x][0] == extent]
        if not fitting or r.random() < 0.05:
            return r.choice(["0", "-1", f"{r.choice(counters)} % {extent}"])
        i = r.choice(fitting)
        _, a, b = self.spans[i]
        by = r.choice([0, 0, 0, *range(-a, b + 1)])
        kind = r.random()
        if by:
            return f"{i} {'-' if by < 0 else '+'} {abs(by)}"
        turned = f"{extent} - 1 - {i}" if kind < 0.92 else f"({i} + 1) % {extent}"
        return i if kind < 0.85 else turned

    def whole(self) -> str:
        r = self.rng
        kind = r.random()
        if kind < 0.3:
            return r.choice(self.ints)
        if kind < 0.5:
            return str(r.randint(-3, 5))
        if kind < 0.7:
            return f"I[{self.index('I')}]"
        op = r.choice(["+", "-", "*", "//", "%"])
        return f"{r.choice(self.ints)} {op} {r.choice([2, 3, 'n'])}"

    def value(self, depth: int = 0) -> str:
        r = self.rng
        kind = r.random()
        if depth > 1 or kind < 0.35:
            return r.choice([
                f"A[{self.index('A')}]", f"T[{self.index('T')}]",
                f"B[{self.index('B0')}, {self.index('B1')}]", "alpha", "0.5", "2",
                *self.locals, r.choice(self.ints), f"I[{self.index('I')}]"])
        a, b = self.value(depth + 1), self.value(depth + 1)
        if kind < 0.75:
            return f"({a} {r.choice('+-*+')} {b})"
        if kind < 0.85:
            return f"{r.choice(['min', 'max', 'np.maximum'])}({a}, {b})"
        if kind < 0.90:
            return f"math.{r.choice(['sin', 'tanh', 'fabs'])}({a})"
        if kind < 0.95:
            return f"({a} if {self.test()} else {b})"
        return f"({a} / ({b} * {b} + 1.5))"

    def test(self) -> str:
        r = self.rng
        kind = r.random()
        if kind < 0.35:
            return f"{self.value(2)} {r.choice(['<', '>', '<=', '!='])} {self.value(2)}"
        if kind < 0.75:
            return (f"{r.choice(self.ints)} {r.choice(['<', '>', '==', '!=', '>='])} "
                    f"{r.choice(['0', '1', 'n - 1', 'm - 2', *self.ints])}")
        if kind < 0.85:
            return f"{r.choice(self.ints)} % 2 == {r.choice([0, 1])}"
        a, b = f"{r.choice(self.ints)} > 0", f"{self.value(2)} < {self.value(2)}"
        return r.choice([f"{a} and {b}", f"{a} or {b}", f"not ({b})"])

    # -- data ----------------------------------------------------------------------------------
    def arguments(self) -> tuple[Any, ...]:
        rng = np.random.default_rng(self.seed)
        n, m = self.rng.choice([(5, 4), (7, 7), (1, 3), (0, 2), (6, 1), (9, 5)])
        if self.mode == "regular":
            n, m = self.rng.choice([(5, 4), (7, 7), (4, 9), (3, 3)])
        dtype = self.rng.choice([np.float64, np.float64, np.float64, np.float32])
        a = rng.normal(size=n).round(2).astype(dtype)
        b = (rng.normal(size=(n, m)).round(2) * (rng.random((n, m)) < 0.6)).astype(dtype)
        i = rng.integers(-n, n + 1, n) if self.wild else rng.integers(0, max(n, 1), n)
        return a, b, i.astype(np.int64), n, m, round(float(rng.normal()), 2)


def compiled(text: str, name: str) -> Callable[..., Any]:
    """The function of a text, with its source where ``inspect`` looks for it."""
    whole = HEADER + text + "\n"
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(whole, name, "exec"), scope)
    return scope["program"]  # type: ignore[no-any-return]


def outcome(run: Callable[[], Any]) -> tuple[str, Any]:
    """What a program gives, or the error."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return "value", run()
    except ERRORS as error:
        return "error", error


def stored(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    formats = FORMATS if value.ndim == 2 else ("dense", "coo")
    return tr.tensor(value, format=rng.choice(formats))


def compare(drawn: Drawn) -> str:
    """"equal", "refused" or "failed alike"; an AssertionError where the answers differ."""
    given = drawn.arguments()
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    kind, want = outcome(lambda: drawn.function(*copies))
    values = [stored(a, drawn.rng) for a in given]
    lazy: list[Any] = []

    def computed() -> Any:
        lazy.extend(tr.loops(drawn.function)(*values))
        return [t.to_numpy() for t in tr.compute(*lazy)]

    try:
        found_kind, found = outcome(computed)
    except tr.errors.UnsupportedError as error:
        assert kind == "error", error
        return "refused"
    if isinstance(found, tr.errors.TypeError_):
        return "refused"
    if found_kind == "value" and not any("run(" in str(t.explain()) for t in lazy):
        kind = "bulk" if kind == "value" else kind
    if isinstance(found, tr.errors.RangeError) and any(
            words in str(found) for words in ("has no exact", "does not fit 64 bits")):
        return "refused"  # no type holds all that the variable holds
    if kind == "error" or found_kind == "error":
        assert kind == found_kind, (kind, want, found_kind, found)
        wanted = type(want).__mro__[0]
        assert isinstance(found, wanted) or (
            wanted is UnboundLocalError and isinstance(found, NameError)), (want, found)
        return "failed alike"
    for a, b in zip(want, found, strict=True):
        single = given[0].dtype == np.float32
        np.testing.assert_allclose(b, a, rtol=1e-4 if single else 1e-10,
                                   atol=1e-4 if single else 1e-12)
    return "bulk" if kind == "bulk" else "equal"



def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", default="wild", choices=["wild", "tame", "regular"])
    options = parser.parse_args()
    seen: dict[str, int] = {}
    for seed in range(options.seed, options.seed + options.count):
        drawn = Drawn(seed, options.mode)
        try:
            found = compare(drawn)
        except Exception as error:
            found = "different"
            print(f"--- seed {seed}: {error}\n{drawn.text}")
            traceback.print_exc(limit=-3)
        seen[found] = seen.get(found, 0) + 1
    print(seen)


if __name__ == "__main__":
    main()
