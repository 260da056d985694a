"""Builders of steps that move entries and reduce along axes."""

from __future__ import annotations

import math

from tensorel.testing.programs.generate import Draft, Pool, Value

# -- reductions ------------------------------------------------------------------------------
_METHODS = frozenset({"sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin",
                      "argmax"})


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
    more = ", keepdims=True" if pool.chance(0.3) else ""
    measure = f"xp.{name}({{0}}, axis={axis}{more})" if name in ("sum", "prod", "mean") else None
    if name in ("var", "std"):
        mean = f"xp.mean(xp.square({{0}}), axis={axis}{more})"
        measure = f"2 * {mean}" if name == "var" else f"2 * xp.sqrt({mean})"
        if count > 1 and pool.chance(0.3):
            more += ", " + pool.one("correction=1", "ddof=1")
    elif name in ("sum", "prod", "min", "max") and pool.chance(0.08) and v.kind != "c":
        more += ", initial=2"
        measure = measure and measure[:-1] + ", initial=2)"
    elif name in ("sum", "prod") and pool.chance(0.1) and v.kind in "biu":
        more += f", dtype={pool.one('float64', 'int64')!r}"
    exact = name not in ("mean", "var", "std")
    call = f"{{0}}.{name}(" if name in _METHODS and pool.chance(0.4) else f"xp.{name}({{0}}, "
    if name == "count_nonzero" and pool.chance(0.4):
        return Draft(f"{{0}}.count_nonzero(axis={axis}{more})", (v,), exact,
                     dense=f"xp.count_nonzero({{0}}, axis={axis}{more})")
    return Draft(f"{call}axis={axis}{more})", (v,), exact, measure=measure)


def folded(pool: Pool) -> Draft | None:
    """A reduction by an operator or a function of the user's."""
    v = pool.some(lambda v: v.ndim >= 1 and v.kind in "iuf")
    k = pool.axis(v)
    if v.shape[k] == 0 or v.shape[k] > 60:
        return None
    if pool.chance(0.5) or not v.within(-2, 2):
        name = pool.one("add", "minimum", "maximum")
        return Draft(f"xp.reduce(xp.{name}, {{0}}, axis={k})", (v,))
    return Draft(f"xp.reduce(lambda a, b: a + b - a * b, {{0}}, axis={k}, identity=0)", (v,),
                 measure=f"xp.reduce(lambda a, b: a + b + a * b, {{0}}, axis={k}, identity=0)")


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
    a, b = (int(k) for k in pool.rng.permutation(v.ndim)[:2])
    name = pool.one("trace", "diagonal", "diagonal")
    at = f"{pool.whole(-1, 1)}, {a}, {b}"
    return Draft(pool.one(f"xp.{name}({{0}}, {at})", f"{{0}}.{name}({at})"), (v,), moves=True)


# -- views -----------------------------------------------------------------------------------
def transpose(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1)
    if pool.chance(0.4):
        return Draft("{0}.T", (v,), moves=True, safe=True) if v.ndim == 2 else None
    order = tuple(int(k) for k in pool.rng.permutation(v.ndim))
    texts = [f"xp.{pool.one('permute_dims', 'transpose')}({{0}}, {order})"]
    texts += [f"{{0}}.transpose({order})"]
    if v.ndim >= 2:
        texts += ["xp.matrix_transpose({0})", f"xp.swapaxes({{0}}, {order[0]}, {order[-1]})"]
        texts += [f"xp.moveaxis({{0}}, {order[0]}, {order[1]})", "{0}.mT"]
        texts += [f"{{0}}.swapaxes({order[0]}, {order[-1]})"]
    return Draft(pool.one(*texts), (v,), moves=True, safe=True)


def basic_index(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1)
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
    return Draft("{0}[" + ", ".join(parts) + "]", (v,), moves=True, safe=True)


def _slice(pool: Pool, n: int) -> str:
    ends = [str(pool.whole(-n - 1, n + 1)) if pool.chance(0.6) else "" for _ in range(2)]
    step = pool.one("", "", "2", "-1", "-2", "3")
    return ":".join(ends) + (f":{step}" if step else "")


def gather(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1 and v.array.size > 0)
    k = pool.whole(0, v.ndim - 1)
    if pool.chance(0.25):
        return _by_tensor(pool, v, k)
    places = [pool.whole(-v.shape[k], v.shape[k] - 1) for _ in range(pool.whole(0, 4))]
    if not pool.size.is_small:
        return _far(pool, v, k)
    if not places or pool.chance(0.3):
        positive = [p % v.shape[k] for p in places]
        return Draft(f"xp.take({{0}}, np.array({positive}, dtype='int64'), axis={k})", (v,),
                     moves=True, safe=True)
    before = ":, " * k
    if pool.chance(0.2) and k + 1 < v.ndim:
        more = [pool.whole(0, v.shape[k + 1] - 1) for _ in places]
        return Draft(f"{{0}}[{before}{places}, {more}]", (v,), moves=True)
    return Draft(f"{{0}}[{before}{places}]", (v,), moves=True)


def _far(pool: Pool, v: Value, k: int) -> Draft:
    """Many places."""
    count = pool.whole(1, 2 * v.shape[k])
    places = f"np.random.default_rng({pool.whole(0, 99)}).integers(0, {v.shape[k]}, {count})"
    if pool.chance(0.5):
        return Draft(f"xp.take({{0}}, {places}, axis={k})", (v,), moves=True)
    return Draft(f"{{0}}[{':, ' * k}{places}]", (v,), moves=True)


def _by_tensor(pool: Pool, v: Value, k: int) -> Draft | None:
    """Places that are values of a tensor."""
    places = pool.other(lambda w: w.ndim == 1 and w.kind in "iu" and w.within(0, v.shape[k] - 1))
    if places is not None and pool.chance(0.6):
        text = pool.one(f"xp.take({{0}}, {{1}}, axis={k})", f"{{0}}[{':, ' * k}{{1}}]")
        measure = f"xp.take({{0}}, xp.astype({{1}}, 'int64'), axis={k})"
        return Draft(text, (v, places), settled=True, measure=measure)
    if not v.exact or v.kind == "c":
        return None
    order = f"xp.argsort({{0}}, axis={k})"
    return Draft(f"xp.take_along_axis({{0}}, {order}, axis={k})", (v,), settled=True)


def mask(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1 and v.exact and v.kind != "c")
    text = pool.one("{0}[{0} > 0]", "{0}[{0} != 0]", "xp.nonzero({0})[0]", "xp.where({0})[-1]",
                    "{0}.nonzero()[-1]")
    return Draft(text, (v,), settled=True)


def reshape(pool: Pool) -> Draft | None:
    v = pool.value()
    size = v.array.size
    if size == 0 or v.ndim == 0:
        return Draft("xp.reshape({0}, (-1,))", (v,), moves=True) if size else None
    if pool.chance(0.3):
        text = pool.one("xp.reshape({0}, (-1,))", "{0}.reshape(1, -1)", "xp.ravel({0})",
                        "{0}.ravel()", "{0}.flatten()")
        return Draft(text, (v,), moves=True, safe=True)
    small = [d for d in range(1, math.isqrt(size) + 1) if size % d == 0]
    rows = int(pool.one(*small, *(size // d for d in small)))
    return Draft(f"xp.reshape({{0}}, ({rows}, {size // rows}))", (v,), moves=True)


def reframe(pool: Pool) -> Draft | None:
    """Flip, roll, pad, repeat, triangles and axes of size 1."""
    v = pool.some(lambda v: v.ndim >= 1)
    k, j = pool.axis(v), pool.axis(v)
    texts = [
        f"xp.flip({{0}}, axis={pool.one(k, None)})",
        f"xp.roll({{0}}, {pool.whole(-3, 3)}, axis={k})",
        f"xp.roll({{0}}, ({pool.whole(-3, 3)}, {pool.whole(-9, 9)}), axis=({k}, {j}))",
        f"xp.roll({{0}}, {pool.whole(-7, 7)})",
        f"xp.expand_dims({{0}}, axis={pool.whole(0, v.ndim)})",
        f"xp.broadcast_to({{0}}, (2,) + {v.shape})", f"xp.repeat({{0}}, 2, axis={k})",
        f"xp.repeat({{0}}, {pool.whole(0, 2)})",
        f"xp.repeat({{0}}, {[pool.whole(0, 2) for _ in range(min(v.shape[k], 40))]}, axis={k})",
        f"xp.tile({{0}}, {pool.whole(1, 2)})", f"xp.tile({{0}}, (2, {pool.whole(0, 2)}))",
        f"xp.broadcast_arrays({{0}}, np.ones({(2, *v.shape)}))[0]",
    ]
    width = [(pool.whole(0, 1), pool.whole(0, 2)) for _ in v.shape]
    if pool.chance(0.25):
        return _padded(pool, v, width)
    if v.ndim >= 2:
        texts += [f"xp.{name}({{0}}, {pool.whole(-1, 1)})" for name in ("tril", "triu")]
    if v.ndim == 2 or (v.ndim == 1 and v.shape[0] ** 2 <= pool.size.largest):
        texts += [f"xp.diag({{0}}, {pool.whole(-2, 2)})"]
    if 1 in v.shape:
        texts += [f"xp.squeeze({{0}}, axis={v.shape.index(1)})", "xp.squeeze({0})",
                  "{0}.squeeze()"]
    return Draft(pool.one(*texts), (v,), moves=True)


def _padded(pool: Pool, v: Value, width: list[tuple[int, int]]) -> Draft:
    mode = pool.one("constant", "constant", "edge", "wrap", "reflect", "symmetric")
    if mode == "constant" and pool.chance(0.4):
        with_ = pool.one(0, 1, 2, 5, *[-1, -3] * (v.array.dtype.kind in "if"))  # fills, too
        return Draft(f"xp.pad({{0}}, {width}, constant_values={with_})", (v,), moves=True)
    return Draft(f"xp.pad({{0}}, {width}, mode={mode!r})", (v,), moves=True)


def join(pool: Pool) -> Draft | None:
    a = pool.some(lambda v: v.ndim >= 1)
    if pool.chance(0.4):
        b = pool.other(lambda v: v.shape == a.shape) or a
        if pool.chance(0.3):
            name = pool.one("hstack", "vstack")
            return Draft(f"xp.{name}([{{0}}, {{1}}])", (a, b), moves=True)
        return Draft(f"xp.stack([{{0}}, {{1}}], axis={pool.whole(0, a.ndim)})", (a, b), moves=True,
                     safe=True)
    k = pool.whole(0, a.ndim - 1)

    def fits(v: Value) -> bool:
        return v.ndim == a.ndim and v.shape[:k] + v.shape[k + 1 :] == a.shape[:k] + a.shape[k + 1 :]

    b = pool.other(fits) or a
    if pool.chance(0.2):
        zeros = (*a.shape[:k], pool.whole(0, 3), *a.shape[k + 1 :])
        return Draft(f"xp.concat([{{0}}, xp.zeros({zeros})], axis={k})", (a,), moves=True)
    name = pool.one("concat", "concatenate")
    return Draft(f"xp.{name}([{{0}}, {{1}}], axis={pool.one(k, k, k, None)})", (a, b), moves=True,
                 safe=True)


def parted(pool: Pool) -> Draft | None:
    """One of several results."""
    v = pool.some(lambda v: v.ndim >= 1 and v.array.size > 0)
    k = pool.axis(v)
    cut = pool.whole(0, v.shape[k])
    texts = [f"xp.split({{0}}, [{cut}], axis={k})[{pool.whole(0, 1)}]"]
    if v.shape[k] <= 100:
        texts += [f"xp.unstack({{0}}, axis={k})[{pool.whole(0, v.shape[k] - 1)}]"]
    if v.shape[k] % 2 == 0:
        texts += [f"xp.split({{0}}, 2, axis={k})[{pool.whole(0, 1)}]"]
    if v.ndim == 1:
        texts += [f"xp.meshgrid({{0}}, np.arange(3), indexing={pool.one('xy', 'ij')!r})[0]"]
    return Draft(pool.one(*texts), (v,), moves=True)


def made(pool: Pool) -> Draft | None:
    """Tensors made for the occasion, beside one that is there."""
    v = pool.value()
    number = pool.whole(0, 3)
    texts = [f"{{0}} + xp.full_like({{0}}, {number})", "{0} * xp.ones_like({0})",
             "{0} + xp.zeros_like({0})", f"{{0}} + xp.full({v.shape}, {number})",
             f"{{0}} * xp.ones({v.shape}, dtype={v.array.dtype.name!r})",
             "{0} * xp.zeros_like(xp.empty_like({0}))"]
    if v.ndim:
        n = v.shape[-1]
        texts += [f"{{0}} + xp.arange({n})", f"{{0}} * xp.arange(1, {n + 1})",
                  f"{{0}} - xp.linspace(0, {n}, {n}, endpoint=False)"]
    if v.ndim == 2:
        rows, n = v.shape
        texts += [f"{{0}} * xp.eye({rows}, {n}, k={pool.whole(-1, 1)})", f"{{0}} @ xp.eye({n})",
                  f"xp.identity({rows}) @ {{0}}"]
    if v.kind == "b":
        texts = texts[:5]
    text = pool.one(*texts)
    if "@" in text and max(v.shape, default=0) ** 2 > pool.size.largest:
        return None
    return Draft(text, (v,), measure=text.replace("-", "+"))


def differences(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1 and v.kind in "iufc")
    k = pool.axis(v)
    if v.shape[k] < 2:
        return None
    text = f"xp.diff({{0}}, n={pool.whole(1, 2)}, axis={k})"
    if v.ndim == 1 and pool.chance(0.3):
        text = f"xp.diff({{0}}, axis={k}, {pool.one('prepend', 'append')}={{0}}[:1])"
    largest = f"4 * xp.max({{0}}, axis={k}, keepdims=True, initial=0)"
    return Draft(text, (v,), measure=f"{largest} + 0 * {text}")
