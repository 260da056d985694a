"""Learning over a star join: X = [F, K1 @ R1, K2 @ R2] with one-hot keys, never stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import tensorel as tr
from optimizer import native
from optimizer.peers import Contest, c_loop
from suite.case import Job, Peer, add


@dataclass(frozen=True, eq=False)
class Star:
    """Facts with own features, two foreign keys, features of the two dimensions."""

    own: Any
    keys: tuple[Any, Any]
    features: tuple[Any, Any]
    labels: Any
    weights: Any

    def hot(self, k: int) -> Any:
        """Key k as a one-hot matrix of facts by rows of the dimension."""
        n, rows = self.keys[k].size, self.features[k].shape[0]
        parts = (np.ones(n), self.keys[k], np.arange(n + 1, dtype=np.int32))
        return sp.csr_array(parts, shape=(n, rows))


def make(scale: float) -> Star:
    rng = np.random.default_rng(21)
    facts = max(int(500_000 * scale), 30)
    sizes = [(max(int(n * scale), 5), width) for n, width in ((5000, 60), (500, 40))]
    keys = [rng.integers(0, n, facts).astype(np.int32) for n, _ in sizes]
    features = [rng.standard_normal(size) for size in sizes]
    weights = rng.standard_normal(4 + 60 + 40) / 10
    return Star(rng.standard_normal((facts, 4)), (keys[0], keys[1]), (features[0], features[1]),
                rng.integers(0, 2, facts).astype(float), weights)


def joined(s: Star, k1: Any, k2: Any) -> Any:
    """Materialize: what ours must not do."""
    return np.hstack([s.own, k1 @ s.features[0], k2 @ s.features[1]])


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _factorized(s: Star, k1: Any, k2: Any, logistic: bool) -> Job:
    r1, r2 = s.features
    w = np.split(s.weights, [s.own.shape[1], s.own.shape[1] + r1.shape[1]])

    def job() -> Any:
        score = s.own @ w[0] + (r1 @ w[1])[s.keys[0]] + (r2 @ w[2])[s.keys[1]]
        rest = (_sigmoid(score) if logistic else score) - s.labels
        sums = [np.bincount(k, rest, r.shape[0]) for k, r in zip(s.keys, s.features)]
        return np.concatenate([s.own.T @ rest, r1.T @ sums[0], r2.T @ sums[1]])

    return job


def _gradient_loop(s: Star, logistic: bool, out: Any) -> Job:
    (k1, k2), (r1, r2) = s.keys, s.features
    scratch = [np.empty(r.shape[0]) for r in (r1, r2, r1, r2)]
    return native.loop("star_gradient", *s.own.shape, s.own, *r1.shape, k1, r1, *r2.shape, k2, r2,
                       s.labels, s.weights, np.int32(logistic), *scratch, out)


def _materialized(s: Star, k1: Any, k2: Any, logistic: bool) -> Any:
    x = joined(s, k1, k2)
    score = x @ s.weights
    return x.T @ ((_sigmoid(score) if logistic else score) - s.labels)


def _ours(s: Star, k1: Any, k2: Any) -> tuple[Any, tuple[Any, ...]]:
    """The user's X, lazily, and the stored tensors under it."""
    parts = tuple(tr.asarray(x) for x in (s.own, k1, s.features[0], k2, s.features[1]))
    own, t1, r1, t2, r2 = parts
    return (lambda: tr.concat([own, t1 @ r1, t2 @ r2], axis=1)), parts


def _gradient(logistic: bool, scale: float) -> Contest:
    s = make(scale)
    k1, k2 = s.hot(0), s.hot(1)
    whole, parts = _ours(s, k1, k2)
    w, y = tr.asarray(s.weights), tr.asarray(s.labels)
    out = np.empty(s.weights.size)

    def ours() -> Any:
        x = whole()
        score = x @ w
        return x.T @ ((1 / (1 + tr.exp(-score)) if logistic else score) - y)

    return Contest(
        ours,
        (
            Peer("scipy", "by hand", _factorized(s, k1, k2, logistic)),
            Peer("scipy", "naive", lambda: _materialized(s, k1, k2, logistic)),
            c_loop(lambda: _gradient_loop(s, logistic, out), lambda _: out),
        ),
        (*parts, w, y),
    )


def _covariance_by_hand(s: Star, k1: Any, k2: Any) -> Any:
    """Blocks: products of own features; sums of them per key; counts of keys and of pairs."""
    r1, r2 = s.features
    n1, n2 = (np.bincount(k, minlength=r.shape[0]) for k, r in zip(s.keys, s.features))
    pairs = sp.csr_array(k1.T @ k2)
    fa, fb = (k1.T @ s.own).T @ r1, (k2.T @ s.own).T @ r2
    cross = r1.T @ (pairs @ r2)
    return np.block([[s.own.T @ s.own, fa, fb], [fa.T, r1.T @ (n1[:, None] * r1), cross],
                     [fb.T, cross.T, r2.T @ (n2[:, None] * r2)]])


def _covariance(scale: float) -> Contest:
    s = make(scale)
    k1, k2 = s.hot(0), s.hot(1)
    whole, parts = _ours(s, k1, k2)

    def ours() -> Any:
        x = whole()
        return x.T @ x

    def naive() -> Any:
        x = joined(s, k1, k2)
        return x.T @ x

    return Contest(
        ours,
        (Peer("scipy", "by hand", lambda: _covariance_by_hand(s, k1, k2)),
         Peer("scipy", "naive", naive)),
        parts,
    )


_X = "X = concat([F, K1 @ R1, K2 @ R2], 1); "
add("linear regression", _X + "X.T @ (X @ w - y)", partial(_gradient, False))
add("logistic regression", _X + "X.T @ (1 / (1 + exp(-(X @ w))) - y)", partial(_gradient, True))
add("covariance", _X + "X.T @ X", _covariance)
