"""Builders of products and sums of products."""

from __future__ import annotations

import math

from tensorel.testing.programs.generate import Draft, Pool, Value


def matmul(pool: Pool) -> Draft | None:
    a = pool.some(lambda v: v.ndim >= 1)
    inner = a.shape[-1]

    def fits(v: Value) -> bool:
        return v.ndim >= 1 and v.shape[-2 if v.ndim > 1 else -1] == inner

    def flipped(v: Value) -> bool:
        return v.ndim == 2 and v.shape[-1] == inner

    if pool.chance(0.3):
        b = pool.other(flipped)
        if b is None or not _affordable(pool, a, b, inner):
            return None
        return Draft("{0} @ {1}.T", (a, b), moves=True)
    b = pool.other(fits)
    if b is None or not _affordable(pool, a, b, inner):
        return None
    texts = ["{0} @ {1}", "{0} @ {1}", "xp.matmul({0}, {1})", "xp.tensordot({0}, {1}, 1)"]
    texts += ["xp.dot({0}, {1})"] if a.ndim <= 2 and b.ndim <= 2 else []
    return Draft(pool.one(*texts), (a, b), moves=True)


def _affordable(pool: Pool, a: Value, b: Value, inner: int) -> bool:
    """Whether NumPy's dense product takes no more than it may; that of whole numbers has no BLAS.
    """
    work = a.array.size * b.array.size / max(inner, 1)
    if a.ndim + b.ndim > 3 and work / max(inner, 1) > pool.size.largest:
        return False
    return work <= pool.size.work * (5 if a.kind in "fc" and b.kind in "fc" else 1)


def inner_products(pool: Pool) -> Draft | None:
    """Of vectors, along any axes."""
    a = pool.some(lambda v: v.ndim >= 1)
    k = pool.axis(a)
    b = pool.other(lambda v: v.shape == a.shape) or a
    texts = [f"xp.vecdot({{0}}, {{1}}, axis={k})", "xp.vdot({0}, {1})",
             f"xp.tensordot({{0}}, {{1}}, axes=([{k}], [{k}]))",
             f"xp.tensordot({{0}}, {{1}}, axes={a.ndim})"]
    if a.ndim <= 2:
        texts += ["xp.inner({0}, {1})"]
    if a.shape[-1] == 3:
        largest = "2 * xp.max({0}, initial=0) * xp.max({1}, initial=0)"
        return Draft("xp.cross({0}, {1})", (a, b), measure=f"0 * {{0}} + {largest}")
    text = pool.one(*texts)
    if ("tensordot" in text or "inner" in text) and not _affordable(pool, a, b, a.shape[k]):
        return None
    if "vdot" in text and a.ndim > 1:
        return None
    return Draft(text, (a, b), moves=True)


def outer(pool: Pool) -> Draft | None:
    a = pool.value()
    b = pool.other(lambda v: v.ndim == a.ndim)
    if b is None or a.array.size * b.array.size > pool.size.largest:
        return None
    name = pool.one("outer", "kron") if a.ndim == b.ndim == 1 else "kron"
    if name == "kron" and (a.ndim != b.ndim or a.ndim == 0 or a.ndim > 2):
        return None
    return Draft(f"xp.{name}({{0}}, {{1}})", (a, b), moves=True)


_SEMIRINGS = [("min", "add"), ("max", "add"), ("max", "multiply"), ("min", "maximum")]


def einsum(pool: Pool) -> Draft | None:
    operands = [pool.value()]
    for _ in range(pool.one(0, 1, 1, 1, 2, 2)):
        operands.append(pool.other(lambda v: v.ndim <= 4) or operands[0])
    if operands[0].ndim > 4:
        return None
    extents: dict[str, int] = {}
    terms: list[str] = []
    for v in operands:
        term = ""
        for n in v.shape:
            twice = pool.chance(0.1)
            known = [x for x, e in extents.items() if e == n and (twice or x not in term)]
            if known and pool.chance(0.75):
                term += pool.one(*known)
            else:
                term += "ijklmnopqrst"[len(extents)]
                extents[term[-1]] = n
        terms.append(term)
    if math.prod(extents.values()) > pool.size.work:
        return None
    kept = [x for x in extents if pool.chance(0.5)]
    output = "".join(str(x) for x in pool.rng.permutation(kept)) if kept else ""
    if math.prod(extents[x] for x in output) > pool.size.largest:
        return None
    text = ",".join(terms) + "->" + output
    names = ", ".join(f"{{{k}}}" for k in range(len(operands)))
    broadcast = math.prod(extents.values()) > 2 * 10**7  # NumPy would make them one array
    ring = "" if broadcast else _semiring(pool, operands)
    return Draft(f"xp.einsum({text!r}, {names}{ring})", tuple(operands), moves=not ring)


def _semiring(pool: Pool, operands: list[Value]) -> str:
    if not pool.chance(0.25) or any(v.kind == "c" for v in operands):
        return ""
    if all(v.kind == "b" for v in operands):
        return ", add='any', mul='logical_and'"
    if any(v.kind == "b" for v in operands):
        return ""
    add, mul = pool.one(*_SEMIRINGS)
    return f", add={add!r}, mul={mul!r}"
