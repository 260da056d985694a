"""Builders of steps that look at whole tensors (orders, running sums, unique values) and of steps
that change how a value is held, not what it is."""

from __future__ import annotations

from tensorel.testing.programs.generate import Draft, Pool
from tensorel.testing.programs.leaves import result_format


def ordered(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1 and v.kind != "c")
    k, down = pool.axis(v), pool.chance(0.4)
    most = pool.whole(0, min(v.shape[k], 50))
    texts = [f"xp.sort({{0}}, axis={k}, descending={down})",
             f"xp.topk({{0}}, {most}, axis={k}, largest={pool.chance(0.5)})[0]"]
    if v.exact:
        texts += [f"xp.argsort({{0}}, axis={k}, descending={down})",
                  f"xp.topk({{0}}, {most}, axis={k}, largest={pool.chance(0.5)})[1]"]
    text = pool.one(*texts)
    if "topk" not in text and pool.chance(0.3):
        called = text.replace("xp.sort({0}, ", "{0}.sort(").replace("xp.argsort({0}, ",
                                                                   "{0}.argsort(")
        return Draft(called, (v,), dense=text, settled=True)
    return Draft(text, (v,), settled=True)


def sought(pool: Pool) -> Draft | None:
    """Unique values, and places in a sorted vector."""
    v = pool.some(lambda v: v.exact and v.kind != "c")
    texts = ["xp.unique_values({0})", f"xp.unique_counts({{0}})[{pool.whole(0, 1)}]",
             f"xp.unique_inverse({{0}})[{pool.whole(0, 1)}]",
             f"xp.unique_all({{0}})[{pool.whole(0, 3)}]"]
    if pool.chance(0.3):
        side = pool.one("left", "right")
        keys = pool.other(lambda w: w.exact and w.array.dtype == v.array.dtype) or v
        return Draft(f"xp.searchsorted(xp.sort(xp.ravel({{0}})), {{1}}, side={side!r})", (v, keys),
                     settled=True)
    return Draft(pool.one(*texts), (v,), settled=True)


def running(pool: Pool) -> Draft | None:
    v = pool.some(lambda v: v.ndim >= 1)
    k = pool.axis(v)
    kind = "prod" if pool.chance(0.3) and v.within(-4, 4) and v.shape[k] < 50 else "sum"
    texts = [f"xp.cumulative_{kind}({{0}}, axis={k}{pool.one('', ', include_initial=True')})",
             f"xp.cum{kind}({{0}}, axis={k})", f"{{0}}.cum{kind}(axis={k})"]
    if kind == "sum" or v.array.size < 20:
        texts += [f"xp.cum{kind}({{0}})"]
    return Draft(pool.one(*texts), (v,), moves=True)


# -- how a value is held -----------------------------------------------------------------------
def held(pool: Pool) -> Draft | None:
    """An intermediate value stored in a format, sent through a pickle, copied, handed on."""
    v = pool.value()
    format = result_format(pool.rng, v.array, pool.size)
    named = repr(format).replace("{", "{{").replace("}", "}}")
    texts = [f"{{0}}.to_format({named})"] * 3 if format is not None else []
    texts += [f"{{0}}.compute(format={named})", "{0}.compute()", "{0}.copy()",
              "pickle.loads(pickle.dumps({0}))", "xp.asarray(xp.compute({0}, {0} + {0})[0])",
              "xp.from_dlpack({0}.compute(format='dense'))"]
    if format is not None and v.ndim:
        texts += [f"xp.alternatives({{0}}.to_format('coo'), {{0}}.to_format({named}))"]
    return Draft(pool.one(*texts), (v,), moves=True, dense="{0}", settled=True, safe=True)
