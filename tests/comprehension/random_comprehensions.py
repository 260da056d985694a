"""Random comprehensions by the grammar, over the tensors of the corpus. What they calculate is
exact: sums, differences, products and comparisons of halves and whole numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from comprehension_corpus import L, M, N

Rng = np.random.Generator
#: Extents and kind of each tensor.
TENSORS: dict[str, tuple[tuple[int, ...], str]] = {
    "V": ((N,), "real"), "W": ((N,), "real"), "A": ((N, M), "real"), "C": ((N, M), "real"),
    "B": ((M, L), "real"), "S": ((N, N), "real"), "M": ((N, N), "whole"), "I": ((N,), "whole"),
    "P": ((N,), "whole"), "L": ((N, M), "truth"), "F": ((N, M), "real"), "K": ((3, 3), "real"),
}
MAX_POINTS = 3000  # choices that the interpreter visits


class Known(NamedTuple):
    """A name: real, whole or truth; the range of a whole number; whether a group has lifted it."""

    kind: str
    low: int = 0
    high: int = 0
    lifted: bool = False


class Draft:
    """One comprehension as it is written."""

    def __init__(self, rng: Rng, depth: int = 0) -> None:
        self.rng = rng
        self.depth = depth
        self.names: dict[str, Known] = {}
        self.parts: list[str] = []
        self.points = 1
        self.count = 0

    def pick(self, *items: str) -> str:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.depth or ''}{self.count}"

    def of(self, *kinds: str, lifted: bool = False) -> list[str]:
        return [n for n, k in self.names.items() if k.kind in kinds and k.lifted == lifted]

    # -- expressions -------------------------------------------------------------------------
    def whole(self) -> str:
        found = self.of("whole")
        if not found or self.chance(0.1):
            return str(int(self.rng.integers(0, 4)))
        name = self.pick(*found)
        if self.chance(0.5):
            return name
        return self.pick(f"({name} + {self.rng.integers(1, 4)})", f"({name} % 3)", f"({name} / 2)",
                         f"({name} - 1)", f"(2 * {name})", f"({name} + {self.pick(*found)})")

    def real(self, depth: int = 2) -> str:
        found = self.of("real")
        if depth == 0 or not found:
            if found and self.chance(0.8):
                return self.pick(*found)
            return self.pick("1", "0.5", "c", self.whole())
        if self.chance(0.3):
            return self.pick(*found)
        a, b = self.real(depth - 1), self.real(depth - 1)
        return self.pick(
            f"({a} + {b})", f"({a} - {b})", f"{a} * {b}", f"min({a}, {b})", f"max({a}, {b})",
            f"abs({a})", f"-({a})", f"(if ({self.test(1)}) then {a} else {b})",
            f"A[{self.whole()}, {self.whole()}]", f"V[{self.whole()}]")

    def test(self, depth: int = 2) -> str:
        truths = self.of("truth")
        if truths and self.chance(0.3):
            return self.pick(*truths)
        if depth and self.chance(0.3):
            op = self.pick("&&", "||")
            return f"({self.test(depth - 1)} {op} {self.test(depth - 1)})"
        if self.chance(0.5):
            return f"({self.whole()}) {self.pick('==', '!=', '<', '<=', '>=')} {self.whole()}"
        return f"({self.real(0)}) {self.pick('<', '>', '>=', '!=')} {self.pick('0', '1', '0.5')}"

    # -- qualifiers --------------------------------------------------------------------------
    def draw(self) -> bool:
        if self.chance(0.2):
            name = self.fresh("r")
            base = self.of("whole")
            low, size = int(self.rng.integers(-1, 3)), int(self.rng.integers(1, 4))
            if base and self.chance(0.5):
                near = self.pick(*base)
                k = self.names[near]
                self.parts.append(f"{name} <- ({near} - 1)..({near} + {size - 1})")
                self.names[name] = Known("whole", k.low - 1, k.high + size - 1)
                size += 1
            else:
                self.parts.append(f"{name} <- {low}..{low + size - 1}")
                self.names[name] = Known("whole", low, low + size - 1)
            self.points *= size
            return True
        name = self.pick(*TENSORS)
        shape, kind = TENSORS[name]
        size = int(np.prod(shape))
        if self.points * size > MAX_POINTS * 40 or (self.points > 80 and size > 20
                                                    and not self.of("whole")):
            return False
        keys = [self.fresh("k") for _ in shape]
        value = self.fresh("v")
        pattern = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        self.parts.append(f"({pattern}, {value}) {'<-' if self.chance(0.7) else '<='} {name}")
        before = self.of("whole")
        for k, n in zip(keys, shape):
            self.names[k] = Known("whole", 0, n - 1)
        self.names[value] = Known(kind, *((-8, 8) if name == "M" else (0, N - 1)))
        if before and self.points * size > 600:
            self.parts.append(f"{keys[0]} == {self.pick(*before)}")
            size = max(size // shape[0], 1)
        elif before and self.chance(0.6):
            self.parts.append(f"{self.pick(*keys)} == {self.pick(*before)}")
        self.points *= size
        return self.points < MAX_POINTS

    def let(self) -> None:
        name = self.fresh("x")
        if self.chance(0.3):
            self.parts.append(f"let {name} = {self.whole()}")
            self.names[name] = Known("whole", -20, 60)
            return
        text = self.real()
        self.parts.append(f"let {name} = {text}")
        self.names[name] = Known("real")

    def group(self) -> None:
        found = self.of("whole")
        keys: list[str] = []
        kept: dict[str, Known] = {}
        items: list[str] = []
        for _ in range(int(self.rng.integers(1, 3))):
            if found and self.chance(0.6):
                name = self.pick(*found)
                if name in kept:
                    continue
                keys.append(name)
                items.append(name)
                kept[name] = self.names[name]
            else:
                name = self.fresh("g")
                text = self.whole()
                keys.append(name)
                items.append(text)
                kept[name] = Known("whole", -20, 60)
        pattern = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        key = items[0] if len(items) == 1 else f"({', '.join(items)})"
        self.parts.append(f"group by {pattern}" + ("" if key == pattern else f" : {key}"))
        # What is lifted twice is left alone.
        self.names = {n: k._replace(lifted=True) for n, k in self.names.items()
                      if not k.lifted and n not in kept} | kept
        if self.chance(0.4):
            self.parts.append(f"{self.aggregate()} {self.pick('>', '<', '!=')} "
                              f"{self.pick('0', '1', '3')}")

    def aggregate(self) -> str:
        """An aggregate of what is lifted."""
        reals, wholes = self.of("real", lifted=True), self.of("whole", lifted=True)
        if self.chance(0.15) or not (reals or wholes):
            return self.pick("+/1", *(f"count/{n}" for n in reals + wholes))
        a = self.pick(*(reals or wholes))
        b = self.pick(*(reals + wholes))
        if self.chance(0.1):
            return f"+/[ y | y <- {a}, y > 0 ]"
        return self.pick(f"+/{a}", f"+/({a} * {b})", f"max/{a}", f"min/({a} + {b})", f"+/({a} > 0)",
                         f"(if (&&/({a} > 0)) then 1 else 2)", f"last/{a}")

    def nested(self) -> None:
        """A generator over a list of its own."""
        inner = Draft(self.rng, self.depth + 1)
        inner.draw()
        if self.chance(0.6):
            inner.group()
        found = inner.of("whole")
        if not found:
            return
        key, value = inner.pick(*found), inner.value()
        k, v = self.fresh("k"), self.fresh("v")
        before = self.of("whole")
        if self.points * inner.points > MAX_POINTS:
            return
        self.parts.append(f"({k}, {v}) <- [ ({key}, {value}) | {', '.join(inner.parts)} ]")
        self.points *= inner.points
        self.names[k], self.names[v] = inner.names[key], Known("real")
        if before and self.chance(0.7):
            self.parts.append(f"{k} == {self.pick(*before)}")

    def value(self) -> str:
        lifted = any(k.lifted for k in self.names.values())
        if not lifted:
            return self.real()
        a = self.aggregate()
        return a if self.chance(0.6) else self.pick(
            f"({a} + {self.aggregate()})", f"({a} * {self.pick('2', 'c', self.whole())})",
            f"({a} + 1)")

    def body(self) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            if not self.draw():
                break
            if self.chance(0.3):
                self.parts.append(self.test())
            if self.chance(0.3):
                self.let()
        if self.depth == 0 and self.chance(0.2):
            self.nested()
        for _ in range(int(self.rng.choice([0, 1, 1, 1, 2]))):
            self.group()
            if self.chance(0.3):
                name = self.fresh("s")
                self.parts.append(f"let {name} = {self.value()}")
                self.names[name] = Known("real")


def random_text(rng: Rng) -> str:
    """One program."""
    d = Draft(rng)
    d.body()
    qualifiers = ", ".join(d.parts)
    if d.chance(0.2):
        monoid = d.pick("+", "max", "min", "count", "avg")
        head = d.value()
        return f"{monoid}/[ {head} | {qualifiers} ]"
    keys: list[str] = []
    shape: list[str] = []
    found = d.of("whole")
    rank = min(len(found), int(rng.integers(1, 3))) or 1
    picked = list(rng.permutation(found))[:rank] if found else []
    for name in picked:
        low, high = d.names[name].low, d.names[name].high
        size = int(rng.integers(4, 12)) if d.chance(0.15) else high + 1
        form = d.pick("plain", "plain", "plain", "rotated", "flipped", "shifted", "half")
        if low < 0 or high > 40:
            form, size = d.pick("rotated", "cut"), 10
        keys.append({
            "plain": name, "cut": name, "rotated": f"({name} + 1) % {size}",
            "flipped": f"{size - 1} - {name}", "shifted": f"{name} + 2", "half": f"{name} / 2",
        }[form])
        shape.append(str(size + 2 * (form == "shifted")))
    if not keys:
        keys, shape = ["0"], ["2"]
    value = d.value()
    dense = int(rng.integers(0, len(keys) + 1))
    head = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
    return (f"tensor({', '.join(shape[:dense])})({', '.join(shape[dense:])})"
            f"[ ({head}, {value}) | {qualifiers} ]")
