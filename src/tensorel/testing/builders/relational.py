"""Builders of selections and aggregates whose results do not depend on which cells are entries."""

from __future__ import annotations

from tensorel.testing.programs.generate import Draft, Pool


def selected(pool: Pool) -> Draft | None:
    """An axis at a place, or two axes as one."""
    v = pool.some(lambda v: v.ndim >= 1 and v.array.size > 0)
    k = pool.axis(v) % v.ndim
    if v.ndim >= 2 and pool.chance(0.4):
        other = (k + 1) % v.ndim
        a, b = sorted((k, other))
        n = min(v.shape[a], v.shape[b])
        cut = ", ".join(f":{n}" if j in (a, b) else ":" for j in range(v.ndim))
        dense = f"np.moveaxis(np.diagonal({{0}}[{cut}], 0, {a}, {b}), -1, {a})"
        return Draft(f'{{0}}.select("i{k} = i{other}")', (v,), moves=True, dense=dense)
    place = pool.whole(0, v.shape[k] - 1)
    at = ", ".join(str(place) if j == k else ":" for j in range(v.ndim))
    text = pool.one(f'{{0}}.select("i{k} = {place}")', f'{{0}}.select("{place} = i{k} and true")',
                    f"{{0}}.select(lambda *at: at[{k}] == {place})")
    return Draft(text, (v,), moves=True, dense=f"{{0}}[{at}]")


def aggregated(pool: Pool) -> Draft | None:
    """Aggregates that see every cell."""
    v = pool.some(lambda v: v.ndim >= 1 and v.exact and v.kind in "iuf" and v.array.size > 0)
    k = pool.axis(v) % v.ndim
    name = pool.one("sum", "max", "min", "argmax", "argmin", "median", "nnz")
    dense = {"nnz": "np.count_nonzero"}.get(name, f"np.{name}")
    return Draft(f'{{0}}.aggregate("{name}", {k})', (v,), exact=name != "median",
                 measure=f"np.max(np.abs({{0}}), axis={k})" if name == "median" else None,
                 dense=f"{dense}({{0}}, axis={k})", settled=True)
