"""Programs whose plans are looked at; the same in every process."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import tensorel as tr


def matrix(m: int, n: int, seed: int, density: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((m, n)) < density, rng.integers(1, 9, (m, n)), 0).astype(float)


def operands() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    cube = np.where(rng.random((20, 30, 40)) < 0.02, 1.5, 0.0)
    return {
        "A": tr.tensor(matrix(100, 80, 1), format="csr"),
        "B": tr.tensor(matrix(80, 100, 2), format="csr"),
        "C": tr.tensor(matrix(100, 80, 3), format="csc"),
        "S": tr.tensor(matrix(100, 100, 4), format="csr"),
        "T": tr.tensor(cube, format="csf"),
        "U": tr.asarray(rng.random((100, 16))), "W": tr.asarray(rng.random((100, 16))),
        "F": tr.asarray(rng.random((30, 8))), "G": tr.asarray(rng.random((40, 8))),
        "v": tr.asarray(rng.random(80)),
    }


def programs() -> dict[str, Any]:
    o = operands()
    a, b, c, s, t, u, w, v = (o[n] for n in "ABCSTUWv")
    return {
        "spmv": a @ v,
        "sparse product": a @ b,
        "sum of a product": (a @ b).sum(),
        "sddmm": s * (u @ w.T),
        "mttkrp": tr.einsum("ijk,jr,kr->ir", t, o["F"], o["G"]),
        "sum of two layouts": a + c,
        "shifted": (a + 1) * 2 - 1,
        "dense product": u.T @ w,
        "chain": a @ b @ a,
        "sorted": tr.sort(a @ b, axis=1),
    }


def normal(text: str) -> str:
    """A plan's text without the rules that led to it; indices and inputs are named by their first
    appearance in the steps."""
    head, *lines = text.splitlines()
    kept = [line for line in lines if not line.startswith(
        ("rules:", "planning:", "runner-up:"))]
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"x{len(names)}")

    body = re.sub(r"\b(?:[irk][0-9]+|[A-Z])\b", rename, "\n".join(kept))
    inputs = re.sub(r"\b[A-Z]\b", rename, head.removeprefix("inputs: "))
    about = sorted(re.split(r", (?=x[0-9]+ = )", inputs))
    return "\n".join([*about, body])


def outline(explained: Any) -> tuple[object, ...]:
    """Which steps give what, without the formulas: what must agree where only the order of
    factors differs."""
    steps = explained.to_dict()["steps"]
    made = [(s["kind"], s["format"], s["shape"], s["dtype"], s["fill"]) for s in steps]
    return (made, explained.predicted_bytes)
