"""Plans made with join sampling give NumPy's answers, whatever the samples say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorel as tr
from tensorel.stats.estimates import join_sampling


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cyclic_products(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 7))
    names = "abcd"[: data.draw(st.integers(2, 4))]
    pairs = data.draw(st.lists(st.sampled_from(
        ["".join(p) for p in itertools.permutations(names, 2)]), min_size=2, max_size=6))
    kept = "".join(data.draw(st.sets(st.sampled_from("".join(pairs)), max_size=2)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    arrays = [np.where(rng.random((n, n)) < 0.5, rng.integers(1, 9, (n, n)), 0).astype(float)
              for _ in range(2)]
    stored = [tr.tensor(a, format=data.draw(st.sampled_from(["csr", "csc", "coo"])), fill=0)
              for a in arrays]
    which = [data.draw(st.integers(0, 1)) for _ in pairs]
    text = f"{','.join(pairs)}->{kept}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_sampling, "MIN_ENTRIES", 1)
        patch.setattr(join_sampling, "SAMPLED_TUPLES", data.draw(st.sampled_from([1, 3, 512])))
        patch.setattr(join_sampling, "MAX_CANDIDATES", data.draw(st.sampled_from([1, 5, 4096])))
        found = tr.einsum(text, *(stored[w] for w in which)).to_numpy()
    np.testing.assert_allclose(found, np.einsum(text, *(arrays[w] for w in which)))
