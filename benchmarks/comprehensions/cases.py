"""Programs as comprehensions, as arrays of ours, and by hand with NumPy and SciPy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage, signal, sparse

import tensorel as tr

Run = Callable[[], Any]


@dataclass
class Case:
    """``arrays``: the same with our arrays, None where they cannot say it in one expression;
    ``hand``: a peer by hand. Each gives something that ``value`` makes an array of."""

    name: str
    text: Run
    arrays: Run | None
    hand: Run | None


def graph(folder: Path | None, size: float) -> sparse.csr_array:
    """A real graph if the folder of data is given, else a random one."""
    if folder is not None:
        sys.path.insert(0, str(folder))
        from load_data import load  # type: ignore[import-not-found]
        return sparse.csr_array(load("ca-AstroPh").astype(float))
    n = int(20000 * size)
    return sparse.random_array((n, n), density=20 / n, format="csr", rng=np.random.default_rng(0))


def picture(folder: Path | None, size: float) -> np.ndarray:
    if folder is not None:
        from load_data import load
        return np.asarray(load("video_carphone_pristine")).reshape(-1, 176)[:2000].astype(float)
    return np.random.default_rng(1).random((int(1000 * size), int(1000 * size)))


def cases(folder: Path | None = None, size: float = 1.0) -> Iterator[Case]:
    yield from matrices(size)
    yield from graphs(folder, size)
    yield from images(folder, size)
    yield from keys(size)


def say(text: str, **env: Any) -> Run:
    return lambda: tr.comprehension(text, **env).compute()


def matrices(size: float) -> Iterator[Case]:
    rng, n = np.random.default_rng(2), int(1000 * size)
    a, b, v = rng.random((n, n)), rng.random((n, n)), rng.random(n)
    s = sparse.random_array((n, n), density=0.01, format="csr", rng=rng)
    t = s.T.tocsr()
    T = tr.asarray(t)
    A, B, V, S = tr.asarray(a), tr.asarray(b), tr.asarray(v), tr.asarray(s)
    yield Case("addition, dense", say(
        "tensor(n,n)()[ ((i,j), a+b) | ((i,j),a) <= A, ((ii,jj),b) <= B, ii == i, jj == j ]",
        A=A, B=B, n=n), lambda: (A + B).compute(), lambda: a + b)
    yield Case("addition, sparse", say(
        "tensor(n)(n)[ ((i,j), a+b) | ((i,j),a) <= A, ((ii,jj),b) <= B, ii == i, jj == j ]",
        A=S, B=T, n=n), lambda: (S + T).compute(), lambda: s + t)
    yield Case("product, dense", say(
        "tensor(n,n)()[ ((i,j), +/(a*b)) | ((i,k),a) <- A, ((kk,j),b) <- B, kk == k, "
        "group by (i,j) ]", A=A, B=B, n=n), lambda: (A @ B).compute(), lambda: a @ b)
    yield Case("product, sparse", say(
        "tensor(n)(n)[ ((i,j), +/(a*b)) | ((i,k),a) <- A, ((kk,j),b) <- A, kk == k, "
        "group by (i,j) ]", A=S, n=n), lambda: (S @ S).compute(), lambda: s @ s)
    yield Case("transpose, sparse", say(
        "tensor(n)(n)[ ((j,i), a) | ((i,j),a) <- A ]", A=S, n=n),
        lambda: S.T.compute(format="csr"), lambda: s.T.tocsr())
    yield Case("row sums", say("tensor(n)()[ (i, +/a) | ((i,j),a) <- A, group by i ]", A=A, n=n),
               lambda: A.sum(1).compute(), lambda: a.sum(1))
    yield Case("row maxima", say(
        "tensor(n)()[ (i, max/a) | ((i,j),a) <= A, group by i ]", A=A, n=n),
        lambda: A.max(1).compute(), lambda: a.max(1))
    yield Case("matrix times vector", say(
        "tensor(n)()[ (i, +/(a*v)) | ((i,j),a) <- A, (jj,v) <- V, jj == j, group by i ]",
        A=S, V=V, n=n), lambda: (S @ V).compute(), lambda: s @ v)
    yield Case("residuals of a factorization", say(
        "tensor(n)(n)[ ((i,j), r - +/[ P[i,k]*Q[j,k] | k <- 0..9 ]) | ((i,j),r) <- R ]",
        R=S, P=A[:, :10].compute(), Q=B[:, :10].compute(), n=n), None, _residual(s, a, b))
    yield Case("gradient of a regression", say(
        "tensor(n)()[ (j, +/(a*e)) | ((i,j),a) <- A, (ii,e) <- [ (i, +/(a*V[j]) - 1) | "
        "((i,j),a) <- A, group by i ], ii == i, group by j ]", A=A, V=V, n=n),
        lambda: (A.T @ (A @ V - 1)).compute(), lambda: a.T @ (a @ v - 1))


def _residual(s: sparse.csr_array, a: np.ndarray, b: np.ndarray) -> Run:
    coo = s.tocoo()

    def hand() -> Any:
        i, j = coo.coords
        value = coo.data - np.einsum("nk,nk->n", a[i, :10], b[j, :10])
        return sparse.csr_array((value, (i, j)), s.shape)

    return hand


def graphs(folder: Path | None, size: float) -> Iterator[Case]:
    a = graph(folder, size)
    n = a.shape[0]
    rank = np.random.default_rng(3).random(n)
    A, R = tr.asarray(a), tr.asarray(rank)
    yield Case("page rank step", say(
        "tensor(n)()[ (i, 0.15/n + 0.85 * +/[ a*r | ((p,j),a) <- A, (q,r) <- R, p == i, q == j ])"
        " | i <- 0..n-1 ]", A=A, R=R, n=n), lambda: (0.15 / n + 0.85 * (A @ R)).compute(),
        lambda: 0.15 / n + 0.85 * (a @ rank))
    yield Case("degrees", say(
        "tensor(n)()[ (i, count/a) | ((i,j),a) <- A, group by i ]", A=A, n=n),
        lambda: (A != 0).sum(1).compute(), lambda: np.diff(a.indptr))
    yield Case("relaxation", say(
        "tensor(n)()[ (j, min/(d+w)) | ((i,j),w) <- A, (p,d) <= R, p == i, group by j ]",
        A=A, R=R, n=n), None, _relaxed(a, rank))


def _relaxed(a: sparse.csr_array, d: np.ndarray) -> Run:
    def hand() -> Any:
        coo = a.tocoo()
        found = np.full(a.shape[1], np.inf)
        np.minimum.at(found, coo.coords[1], d[coo.coords[0]] + coo.data)
        return np.where(np.isinf(found), 0, found)

    return hand


def images(folder: Path | None, size: float) -> Iterator[Case]:
    a = picture(folder, size)
    n, m = a.shape
    kernel = np.random.default_rng(4).random((3, 3))
    ones, A, K = np.ones((3, 3)), tr.asarray(a), tr.asarray(kernel)
    yield Case("smoothing", say(
        "tensor(n,m)()[ ((p,q), avg/v) | ((i,j),v) <= A, p <- (i-1)..(i+1), q <- (j-1)..(j+1), "
        "p >= 0, (p) < n, q >= 0, (q) < m, group by (p,q) ]", A=A, n=n, m=m), None,
        lambda: ndimage.convolve(a, ones, mode="constant")
        / ndimage.convolve(np.ones_like(a), ones, mode="constant"))
    yield Case("convolution", say(
        "tensor(n-2, m-2)()[ ((i,j), +/[ A[i+d,j+e]*w | ((d,e),w) <- K ]) | i <- 0..n-3, "
        "j <- 0..m-3 ]", A=A, K=K, n=n, m=m), None,
        lambda: signal.correlate2d(a, kernel, "valid"))
    few = sparse.random_array((n, m), density=0.01, format="csr", rng=np.random.default_rng(5))
    F = tr.asarray(few)
    yield Case("smoothing of few entries", say(
        "tensor(n)(m)[ ((p,q), +/v) | ((i,j),v) <- A, p <- (i-1)..(i+1), q <- (j-1)..(j+1), "
        "p >= 0, (p) < n, q >= 0, (q) < m, group by (p,q) ]", A=F, n=n, m=m), None,
        lambda: sparse.csr_array(ndimage.convolve(few.toarray(), ones, mode="constant")))
    L, cells = tr.asarray(a > np.median(a)), a > np.median(a)
    around = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]])

    def lives() -> Any:
        count = ndimage.convolve(cells.astype(np.int8), around, mode="constant")
        return (count == 3) | (cells & (count == 2))

    yield Case("life", say(
        "tensor(n,m)()[ ((i,j), k == 3 || (b && k == 2)) | ((i,j),b) <= L, let k = +/[ 1 | "
        "p <- i-1..i+1, q <- j-1..j+1, L[p,q], p != i || q != j ] ]", L=L, n=n, m=m), None, lives)
    yield Case("rotation", say("tensor(n,m)()[ (((i+1)%n, j), v) | ((i,j),v) <- A ]",
                               A=A, n=n, m=m),
               lambda: tr.roll(A, 1, 0).compute(), lambda: np.roll(a, 1, 0))
    yield Case("pooling", say(
        "tensor(n/2, m/2)()[ ((p,q), max/v) | ((i,j),v) <= A, i < n/2*2, j < m/2*2, "
        "group by (p,q) : (i/2, j/2) ]", A=A, n=n, m=m), None,
        lambda: a[:n // 2 * 2, :m // 2 * 2].reshape(n // 2, 2, m // 2, 2).max((1, 3)))


def keys(size: float) -> Iterator[Case]:
    rng, n = np.random.default_rng(6), int(1_000_000 * size)
    labels, v = rng.integers(0, 100, n), rng.random(n)
    labels[:100] = np.arange(100)
    I, V = tr.asarray(labels), tr.asarray(v)  # noqa: E741
    yield Case("histogram", say(
        "tensor(100)()[ (k, count/i) | (i,k) <= I, group by k ]", I=I), None,
        lambda: np.bincount(labels, minlength=100))
    yield Case("means by label", say(
        "tensor(100)()[ (k, avg/v) | (i,v) <= V, let k = I[i], group by k ]", I=I, V=V), None,
        lambda: np.bincount(labels, v, 100) / np.bincount(labels, minlength=100))
    yield Case("upsampling", say("tensor(2*n)()[ (2*i, v) | (i,v) <- V ]", V=V, n=n), None,
               lambda: _upsampled(v))
    yield Case("flattening", say(
        "tensor(n)()[ (i*1000 + j, v) | ((i,j),v) <- A ]", A=V.reshape(-1, 1000).compute(), n=n),
        lambda: V.reshape(-1, 1000).reshape(-1).compute(), lambda: v.reshape(-1).copy())


def _upsampled(v: np.ndarray) -> np.ndarray:
    found = np.zeros(2 * len(v))
    found[::2] = v
    return found
