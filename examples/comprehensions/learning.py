"""Linear regression, matrix factorization, a network with two hidden layers, and k-means, each by
gradient descent or rounds over comprehensions.

    python examples/comprehensions/learning.py [TABLE.csv]    numbers, the last column to predict
"""

import sys
from itertools import pairwise
from typing import Any

import numpy as np

import tensorel as tr

# -- linear regression ---------------------------------------------------------------------------
PREDICTED = "tensor(n)()[ (i, +/(x*u)) | ((i, j), x) <- X, (jj, u) <= W, jj == j, group by i ]"
GRADIENT = "tensor(m)()[ (j, +/(x*e)) | ((i, j), x) <- X, (ii, e) <= E, ii == i, group by j ]"
MOVED = "tensor(m)()[ (j, w - rate*g) | (j, w) <= W, (jj, g) <= G, jj == j ]"
DIFFERENCE = "tensor(n)()[ (i, p - y) | (i, p) <= P, (ii, y) <= Y, ii == i ]"
SQUARES = "+/[ e*e | (i, e) <- E ]"


def regression(X: Any, y: Any, steps: int = 100, rate: float = 0.1) -> tuple[Any, float]:
    """Weights, and the mean of squared errors."""
    (n, m), w = X.shape, tr.zeros(X.shape[1])
    for _ in range(steps):
        predicted = tr.comprehension(PREDICTED, X=X, W=w, n=n)
        e = tr.comprehension(DIFFERENCE, P=predicted, Y=y, n=n)
        g = tr.comprehension(GRADIENT, X=X, E=e, m=m)
        w = tr.comprehension(MOVED, W=w, G=g, rate=rate / n, m=m).compute()
    e = tr.comprehension(DIFFERENCE, P=tr.comprehension(PREDICTED, X=X, W=w, n=n), Y=y, n=n)
    return w, tr.comprehension(SQUARES, E=e).item() / n


# -- factorization -------------------------------------------------------------------------------
MISSED = """
    tensor(n)(m)[ ((i, j), r - +/[ P[i, k]*Q[j, k] | k <- 0..d-1 ]) | ((i, j), r) <- R ]"""
ROWS = """
    tensor(n, d)()[ ((i, k), P[i, k] + rate * +/[ e*q | ((a, j), e) <- E, ((jj, kk), q) <- Q,
                    a == i, jj == j, kk == k ]) | i <- 0..n-1, k <- 0..d-1 ]"""
COLUMNS = """
    tensor(m, d)()[ ((j, k), Q[j, k] + rate * +/[ e*p | ((i, b), e) <- E, ((ii, kk), p) <- P,
                    b == j, ii == i, kk == k ]) | j <- 0..m-1, k <- 0..d-1 ]"""
ENTRIES = "+/[ e*e | ((i, j), e) <- E ]"


def factorization(R: Any, d: int = 4, steps: int = 20, rate: float = 0.01) -> tuple[Any, Any, list]:
    """P and Q with P @ Q.T near R where R has entries, and the squared errors on the way."""
    rng = np.random.default_rng(0)
    (n, m), found = R.shape, []
    P, Q = (tr.asarray(rng.random((k, d))) for k in (n, m))
    for _ in range(steps):
        E = tr.comprehension(MISSED, R=R, P=P, Q=Q, n=n, m=m, d=d).compute()
        found.append(tr.comprehension(ENTRIES, E=E).item())
        P, Q = (tr.comprehension(ROWS, P=P, Q=Q, E=E, rate=rate, n=n, d=d).compute(),
                tr.comprehension(COLUMNS, P=P, Q=Q, E=E, rate=rate, m=m, d=d).compute())
    return P, Q, found


# -- a network -----------------------------------------------------------------------------------
@tr.comprehension
def times(A: Any, B: Any) -> Any:
    return {(i, j): sum(a * b) for (i, k), a in A for (kk, j), b in B if k == kk}


@tr.comprehension
def from_left(A: Any, B: Any) -> Any:
    return {(i, j): sum(a * b) for (k, i), a in A for (kk, j), b in B if k == kk}


@tr.comprehension
def from_right(A: Any, B: Any) -> Any:
    return {(i, j): sum(a * b) for (i, k), a in A for (j, kk), b in B if k == kk}


@tr.comprehension
def positive(A: Any) -> Any:
    return {(i, j): a for (i, j), a in A if a > 0}


@tr.comprehension
def where_positive(G: Any, A: Any) -> Any:
    return {(i, j): g for (i, j), g in G if A[i, j] > 0}


@tr.comprehension
def moved(A: Any, G: Any, rate: Any) -> Any:
    return {(i, j): A[i, j] - rate * G[i, j] for i in range(len(A)) for j in range(A.shape[1])}


@tr.comprehension
def minus(A: Any, B: Any) -> Any:
    return {(i, j): A[i, j] - B[i, j] for i in range(len(A)) for j in range(A.shape[1])}


def network(X: Any, Y: Any, hidden: int = 16, steps: int = 50, rate: float = 0.05) -> list[float]:
    """Two hidden layers; the mean of squared errors on the way."""
    rng = np.random.default_rng(0)
    sizes = [X.shape[1], hidden, hidden, Y.shape[1]]
    W = [tr.asarray(rng.normal(0, (2 / a) ** 0.5, (a, b))) for a, b in pairwise(sizes)]
    found: list[float] = []
    for _ in range(steps):
        layers = [X]
        for k, w in enumerate(W):
            z = times(layers[-1], w)
            layers.append((positive(z) if k < 2 else z).compute())
        g = minus(layers[-1], Y).compute()
        found.append(tr.comprehension(ENTRIES, E=g).item() / X.shape[0])
        for k in (2, 1, 0):
            down = from_left(layers[k], g)
            g = where_positive(from_right(g, W[k]), layers[k]).compute() if k else g
            W[k] = moved(W[k], down, rate / X.shape[0]).compute()
    return found


# -- k-means -------------------------------------------------------------------------------------
APART = """
    tensor(n, c)()[ ((i, k), +/[ (X[i, j] - C[k, j]) * (X[i, j] - C[k, j]) | j <- 0..m-1 ])
                    | i <- 0..n-1, k <- 0..c-1 ]"""
NEAREST = """
    tensor(n)()[ (i, min/k) | ((i, k), d) <= D, (ii, s) <= S, ii == i, d == s, group by i ]"""
LEAST = "tensor(n)()[ (i, min/d) | ((i, k), d) <= D, group by i ]"
CENTRES = """
    tensor(c, m)()[ ((k, j), avg/x) | ((i, j), x) <= X, (ii, k) <= N, ii == i, group by (k, j) ]"""


def k_means(X: Any, count: int = 3, rounds: int = 10) -> tuple[Any, float]:
    """Centres, and the sum of squared distances to the nearest."""
    n, m = X.shape
    C = tr.asarray(X.to_numpy()[:: max(n // count, 1)][:count].copy())
    for _ in range(rounds):
        D = tr.comprehension(APART, X=X, C=C, n=n, m=m, c=count).compute()
        S = tr.comprehension(LEAST, D=D, n=n).compute()
        N = tr.comprehension(NEAREST, D=D, S=S, n=n).compute()
        C = tr.comprehension(CENTRES, X=X, N=N, m=m, c=count).compute()
    return C, tr.comprehension("+/[ s | (i, s) <- S ]", S=S).item()


def main(path: str | None = None) -> None:
    rng = np.random.default_rng(0)
    if path is None:
        data = rng.normal(size=(500, 9))
        data[:, -1] = data[:, :-1] @ np.arange(8) + 0.1 * rng.normal(size=500)
    else:
        data = np.genfromtxt(path, delimiter=",", skip_header=1)
        data = data[~np.isnan(data).any(1)]
    data = (data - data.mean(0)) / np.where(data.std(0) > 0, data.std(0), 1)
    X, y = tr.asarray(data[:, :-1].copy()), tr.asarray(data[:, -1].copy())
    print("regression: mean squared error", round(regression(X, y)[1], 4))
    losses = network(X, tr.asarray(data[:, -1:].copy()))
    print("network: mean squared error", round(losses[0], 4), "to", round(losses[-1], 4))
    print("k-means: sum of squares", round(k_means(X)[1], 2))
    ratings = np.where(rng.random((200, 150)) < 0.1, rng.integers(1, 6, (200, 150)), 0.0)
    errors_ = factorization(tr.tensor(ratings, format="csr"))[2]
    print("factorization: squared error", round(errors_[0]), "to", round(errors_[-1]))


if __name__ == "__main__":
    main(*sys.argv[1:2])
