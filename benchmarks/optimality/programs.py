"""Random small programs whose work is large enough for choices to matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

import tensorel as tr
from tensorel.base.records import dataclass

Rng = np.random.Generator
FORMATS = ("csr", "csr", "csr", "csc", "csc", "coo", "dcsr")


@dataclass(frozen=True)
class Case:
    number: int
    text: str
    tensor: Any


class Maker:
    """Operands of one program; ``text`` collects what they are."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.about: list[str] = []

    def size(self) -> int:
        return int(2 ** self.rng.uniform(6, 10.5))

    def sparse(self, m: int, n: int) -> Any:
        rng = self.rng
        size = int(np.clip(m * n * 10 ** rng.uniform(-3.2, -0.7), 200, 60_000))
        kind = rng.choice(["uniform", "skewed", "banded", "blocks"])
        rows = rng.integers(0, m, size)
        columns = rng.integers(0, n, size)
        if kind == "skewed":
            rows = (m * rng.random(size) ** 3).astype(np.int64)
            columns = (n * rng.random(size) ** 2).astype(np.int64)
        elif kind == "banded":
            width = max(2 * size // max(m, n), 2)
            columns = (rows * n // m + rng.integers(0, width, size)) % n
        elif kind == "blocks":
            side = max(min(m, n) // 16, 1)
            at = rng.integers(0, 16, size)
            rows = (at * side + rng.integers(0, side, size)) % m
            columns = ((at * 7 % 16) * side + rng.integers(0, side, size)) % n
        places = np.unique(rows * n + columns)
        fmt = str(rng.choice(FORMATS))
        self.about.append(f"{kind} {fmt} {m}x{n} {places.size}")
        return tr.from_coo([places // n, places % n], rng.random(places.size) + 0.5, (m, n),
                           format=fmt)

    def dense(self, *shape: int) -> Any:
        self.about.append(f"dense {'x'.join(map(str, shape))}")
        return tr.asarray(self.rng.random(shape) + 0.5)

    def matrix(self, m: int, n: int, share: float = 0.7) -> Any:
        small = min(m, n) <= 32
        return self.sparse(m, n) if self.rng.random() < (0.3 if small else share) else \
            self.dense(m, n)


def contraction(make: Maker) -> tuple[str, Any]:
    """An einsum of 2 to 5 operands over up to 4 indices."""
    rng = make.rng
    number = int(rng.integers(2, 6))
    letters = "ijkl"[: int(rng.integers(2, 5))]
    narrow = rng.random() < 0.5
    sizes = {c: make.size() for c in letters}
    if narrow:
        sizes[letters[-1]] = int(rng.integers(4, 24))
    terms, tensors = [], []
    for k in range(number):
        first = letters[k % len(letters)] if k < len(letters) else str(rng.choice(list(letters)))
        others = [c for c in letters if c != first]
        if rng.random() < 0.2 and k:
            terms.append(first)
            tensors.append(make.dense(sizes[first]))
            continue
        second = letters[(k + 1) % len(letters)] if rng.random() < 0.6 else str(rng.choice(others))
        terms.append(first + second)
        tensors.append(make.matrix(sizes[first], sizes[second]))
    used = sorted(set("".join(terms)))
    free = [c for c in used if rng.random() < 0.4][:2]
    spec = ",".join(terms) + "->" + "".join(free)
    return f"einsum {spec}", tr.einsum(spec, *tensors)


def masked(make: Maker) -> tuple[str, Any]:
    m, n, k = make.size(), make.size(), int(make.rng.integers(4, 64))
    s = make.sparse(m, n)
    if make.rng.random() < 0.5:
        return "S * (U @ V)", s * (make.dense(m, k) @ make.dense(k, n))
    k = make.size()
    return "S * (A @ B)", s * (make.sparse(m, k) @ make.sparse(k, n))


def summed(make: Maker) -> tuple[str, Any]:
    m, n, k = make.size(), make.size(), make.size()
    a, b = make.sparse(m, k), make.matrix(k, n)
    ways: list[tuple[str, Callable[[], Any]]] = [
        ("(A @ B).sum()", lambda: (a @ b).sum()),
        ("(A @ B).sum(axis=1)", lambda: (a @ b).sum(axis=1)),
        ("(A @ B).sum(axis=0)", lambda: (a @ b).sum(axis=0)),
        ("(A.T @ A).sum(axis=0)", lambda: (a.T @ a).sum(axis=0)),
        ("(A.T @ A).trace()", lambda: (a.T @ a).trace()),
        ("A @ B @ x", lambda: a @ b @ make.dense(n)),
    ]
    text, program = ways[int(make.rng.integers(len(ways)))]
    return text, program()


def chain(make: Maker) -> tuple[str, Any]:
    m, n = make.size(), make.size()
    a, b, c = make.sparse(m, n), make.sparse(m, n), make.matrix(m, n)
    ways: list[tuple[str, Callable[[], Any]]] = [
        ("(A + B) * C", lambda: (a + b) * c), ("A * B + C", lambda: a * b + c),
        ("A * B * C", lambda: a * b * c), ("A + B", lambda: a + b),
        ("A * u[:, None] + B", lambda: a * make.dense(m, 1) + b),
        ("abs(A - B) * C", lambda: abs(a - b) * c),
    ]
    text, program = ways[int(make.rng.integers(len(ways)))]
    return text, program()


def reduced(make: Maker) -> tuple[str, Any]:
    m, n = make.size(), make.size()
    a, b = make.sparse(m, n), make.matrix(m, n)
    axis = int(make.rng.integers(2))
    ways: list[tuple[str, Callable[[], Any]]] = [
        (f"(A * B).sum(axis={axis})", lambda: (a * b).sum(axis=axis)),
        (f"(A + B).sum(axis={axis})", lambda: (a + b).sum(axis=axis)),
        (f"A.max(axis={axis})", lambda: a.max(axis=axis)),
        ("(A * B).sum()", lambda: (a * b).sum()),
        (f"(A * A).sum(axis={axis})", lambda: (a * a).sum(axis=axis)),
    ]
    text, program = ways[int(make.rng.integers(len(ways)))]
    return text, program()


def losses(make: Maker) -> tuple[str, Any]:
    m, n, k = make.size() // 2 + 8, make.size() // 2 + 8, int(make.rng.integers(4, 24))
    a, u, v = make.sparse(m, n), make.dense(m, k), make.dense(k, n)
    ways: list[tuple[str, Callable[[], Any]]] = [
        ("((A - U @ V)**2).sum()", lambda: ((a - u @ v) ** 2).sum()),
        ("A / (U @ V)", lambda: a / (u @ v)),
        ("(A * log(U @ V)).sum()", lambda: (a * tr.log(u @ v)).sum()),
        ("U.T @ (A / (U @ V))", lambda: u.T @ (a / (u @ v))),
        ("(A + B) @ V.T", lambda: (a + make.sparse(m, n)) @ v.T),
        ("A.T @ (A @ x)", lambda: a.T @ (a @ make.dense(n))),
    ]
    text, program = ways[int(make.rng.integers(len(ways)))]
    return text, program()


KINDS = (contraction, contraction, contraction, masked, summed, summed, chain, reduced, losses)


WORK = (3e4, 3e6)  # nanoseconds that the chosen plan should take beside its fixed cost


def cases(seed: int, number: int) -> Iterator[Case]:
    """Candidates for a program of the run whose work is in range; the same in every process."""
    for attempt in count():
        make = Maker(np.random.default_rng([seed, number, attempt]))
        text, tensor = KINDS[number % len(KINDS)](make)
        plan = tensor.explain("logical").plan
        work = sum(s.cost for s in plan.steps)
        if WORK[0] < work < WORK[1] and plan.largest < 1e8:
            yield Case(number, f"{text} with {'; '.join(make.about)}", tensor)
