"""Builders of steps that move, combine and reduce along axes."""

from __future__ import annotations

import math

from tensorel.testing.generate import LARGEST, Draft, Pool, Value


# -- reductions ------------------------------------------------------------------------------
def reduction(pool: Pool) -> Draft | None:
    v = pool.value()
    names = ["sum", "sum", "sum", "prod", "mean", "var", "std"]
    names += ["min", "max"] if v.kind != "c" else []
    names += ["any", "all", "count_nonzero"] if v.exact else []
    names += ["argmin", "argmax"] if v.exact and v.kind != "c" else []
    name = pool.one(*names)
    axis, count = _axes(pool, v, one=name.startswith("arg"))
    needs_entries = name not in ("sum", "prod", "any", "all", "count_nonzero")
    if (needs_entries and (count == 0 or v.array.size == 0)) or (
        name == "prod" and (count > 12 or not v.within(-30, 30))
    ):
        return None
    keepdims = ", keepdims=True" if pool.chance(0.3) else ""
    exact = name not in ("mean", "var", "std")
    if name in ("sum", "max", "mean", "prod") and pool.chance(0.4):
        return Draft(f"{{0}}.{name}(axis={axis}{keepdims})", (v,), exact)
    return Draft(f"xp.{name}({{0}}, axis={axis}{keepdims})", (v,), exact)


def _axes(pool: Pool, v: Value, one: bool) -> tuple[str, int]:
    """An ``axis`` argument and the number of entries that it folds into one."""
    if v.ndim == 0 or pool.chance(0.3):
        return "None", v.array.size
    if one or pool.chance(0.6):
        k = pool.axis(v)
        return str(k), v.shape[k]
    count = pool.whole(1, v.ndim)
    chosen = tuple(int(k) for k in pool.rng.permutation(v.ndim)[:count])
    return str(chosen), math.prod(v.shape[k] for k in chosen)


def trace(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 2)
    if v is None:
        return None
    a, b = (int(k) for k in pool.rng.permutation(v.ndim)[:2])
    name = pool.one("trace", "diagonal", "diagonal")
    return Draft(f"xp.{name}({{0}}, {pool.whole(-1, 1)}, {a}, {b})", (v,))


# -- views -----------------------------------------------------------------------------------
def transpose(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1)
    if v is None:
        return None
    if pool.chance(0.4):
        return Draft("{0}.T", (v,)) if v.ndim == 2 else None
    order = tuple(int(k) for k in pool.rng.permutation(v.ndim))
    texts = [f"xp.permute_dims({{0}}, {order})"]
    if v.ndim >= 2:
        texts += ["xp.matrix_transpose({0})", f"xp.swapaxes({{0}}, {order[0]}, {order[-1]})"]
        texts += [f"xp.moveaxis({{0}}, {order[0]}, {order[1]})"]
    return Draft(pool.one(*texts), (v,))


def basic_index(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1)
    if v is None:
        return None
    parts: list[str] = []
    for n in v.shape[: pool.whole(1, v.ndim)]:
        if n and pool.chance(0.25):
            parts.append(str(pool.whole(-n, n - 1)))
        elif pool.chance(0.8):
            parts.append(_slice(pool, n))
        else:
            parts.append(":")
        if pool.chance(0.1):
            parts.append("None")
    if pool.chance(0.15):
        parts.insert(pool.whole(0, len(parts)), "...")
    return Draft("{0}[" + ", ".join(parts) + "]", (v,))


def _slice(pool: Pool, n: int) -> str:
    ends = [str(pool.whole(-n - 1, n + 1)) if pool.chance(0.6) else "" for _ in range(2)]
    step = pool.one("", "", "2", "-1", "-2", "3")
    return ":".join(ends) + (f":{step}" if step else "")


def gather(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1 and v.array.size > 0)
    if v is None:
        return None
    k = pool.whole(0, v.ndim - 1)
    places = [pool.whole(-v.shape[k], v.shape[k] - 1) for _ in range(pool.whole(0, 4))]
    if not places or pool.chance(0.3):
        positive = [p % v.shape[k] for p in places]
        return Draft(f"xp.take({{0}}, np.array({positive}, dtype='int64'), axis={k})", (v,))
    before = ":, " * k
    if pool.chance(0.2) and k + 1 < v.ndim:
        more = [pool.whole(0, v.shape[k + 1] - 1) for _ in places]
        return Draft(f"{{0}}[{before}{places}, {more}]", (v,))
    return Draft(f"{{0}}[{before}{places}]", (v,))


def mask(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1 and v.exact and v.kind != "c")
    return None if v is None else Draft("{0}[{0} > 0]", (v,))


def reshape(pool: Pool) -> Draft | None:
    v = pool.value()
    size = v.array.size
    if size == 0 or v.ndim == 0:
        return Draft("xp.reshape({0}, (-1,))", (v,)) if size else None
    if pool.chance(0.3):
        return Draft(pool.one("xp.reshape({0}, (-1,))", "{0}.reshape(1, -1)"), (v,))
    factors = [d for d in range(1, size + 1) if size % d == 0]
    rows = int(pool.one(*factors))
    return Draft(f"xp.reshape({{0}}, ({rows}, {size // rows}))", (v,))


def reframe(pool: Pool) -> Draft | None:
    """Flip, roll, pad, repeat, triangles and axes of size 1."""
    v = pool.some(lambda v: v.ndim >= 1)
    if v is None:
        return None
    k = pool.axis(v)
    texts = [
        f"xp.flip({{0}}, axis={k})", f"xp.roll({{0}}, {pool.whole(-3, 3)}, axis={k})",
        f"xp.expand_dims({{0}}, axis={pool.whole(0, v.ndim)})",
        f"xp.broadcast_to({{0}}, (2,) + {v.shape})", f"xp.repeat({{0}}, 2, axis={k})",
        f"xp.tile({{0}}, {pool.whole(1, 2)})",
    ]
    width = [(pool.whole(0, 1), pool.whole(0, 2)) for _ in v.shape]
    texts += [f"xp.pad({{0}}, {width})"]
    if v.ndim >= 2:
        texts += [f"xp.{pool.one('tril', 'triu')}({{0}}, {pool.whole(-1, 1)})"]
    if 1 in v.shape:
        texts += [f"xp.squeeze({{0}}, axis={v.shape.index(1)})"]
    return Draft(pool.one(*texts), (v,))


def join(pool: Pool) -> Draft | None:
    a = pool.some(lambda v: v.ndim >= 1)
    if a is None:
        return None
    if pool.chance(0.4):
        b = pool.other(lambda v: v.shape == a.shape) or a
        return Draft(f"xp.stack([{{0}}, {{1}}], axis={pool.whole(0, a.ndim)})", (a, b))
    k = pool.whole(0, a.ndim - 1)

    def fits(v: Value) -> bool:
        return v.ndim == a.ndim and v.shape[:k] + v.shape[k + 1 :] == a.shape[:k] + a.shape[k + 1 :]

    b = pool.other(fits) or a
    return Draft(f"xp.concat([{{0}}, {{1}}], axis={k})", (a, b))


# -- products --------------------------------------------------------------------------------
def matmul(pool: Pool) -> Draft | None:
    a = pool.some(lambda v: v.ndim >= 1)
    if a is None:
        return None
    inner = a.shape[-1]

    def fits(v: Value) -> bool:
        return v.ndim >= 1 and v.shape[-2 if v.ndim > 1 else -1] == inner

    def flipped(v: Value) -> bool:
        return v.ndim == 2 and v.shape[-1] == inner

    if pool.chance(0.3):
        b = pool.other(flipped)
        return None if b is None else Draft("{0} @ {1}.T", (a, b))
    b = pool.other(fits)
    if b is None:
        return None
    return Draft(pool.one("{0} @ {1}", "xp.matmul({0}, {1})", "xp.tensordot({0}, {1}, 1)"), (a, b))


def outer(pool: Pool) -> Draft | None:
    a = pool.value()
    b = pool.other(lambda v: v.ndim == a.ndim)
    if b is None or a.array.size * b.array.size > LARGEST:
        return None
    name = pool.one("outer", "kron") if a.ndim == b.ndim == 1 else "kron"
    if name == "kron" and (a.ndim != b.ndim or a.ndim == 0 or a.ndim > 2):
        return None
    return Draft(f"xp.{name}({{0}}, {{1}})", (a, b))


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
    if math.prod(extents.values()) > 20 * LARGEST:
        return None
    kept = [x for x in extents if pool.chance(0.5)]
    output = "".join(str(x) for x in pool.rng.permutation(kept)) if kept else ""
    text = ",".join(terms) + "->" + output
    names = ", ".join(f"{{{k}}}" for k in range(len(operands)))
    return Draft(f"xp.einsum({text!r}, {names}{_semiring(pool, operands)})", tuple(operands))


def _semiring(pool: Pool, operands: list[Value]) -> str:
    if not pool.chance(0.25) or any(v.kind == "c" for v in operands):
        return ""
    if all(v.kind == "b" for v in operands):
        return ", add='any', mul='logical_and'"
    if any(v.kind == "b" for v in operands):
        return ""
    add, mul = pool.one(*_SEMIRINGS)
    return f", add={add!r}, mul={mul!r}"


# -- whole-tensor operators ------------------------------------------------------------------
def ordered(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1 and v.kind != "c")
    if v is None:
        return None
    k = pool.axis(v)
    texts = [f"xp.sort({{0}}, axis={k}, descending={pool.chance(0.4)})"]
    most = pool.whole(0, v.shape[k])
    texts += [f"xp.topk({{0}}, {most}, axis={k}, largest={pool.chance(0.5)})[0]"]
    if v.exact:
        texts += [f"xp.argsort({{0}}, axis={k}, descending={pool.chance(0.4)})"]
        texts += [f"xp.topk({{0}}, {most}, axis={k}, largest={pool.chance(0.5)})[1]"]
    return Draft(pool.one(*texts), (v,))


def running(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1)
    if v is None:
        return None
    name = "cumulative_prod" if pool.chance(0.3) and v.within(-4, 4) else "cumulative_sum"
    return Draft(f"xp.{name}({{0}}, axis={pool.axis(v)})", (v,))


