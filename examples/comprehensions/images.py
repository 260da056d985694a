"""Smoothing, convolution and the Game of Life on images.

    python examples/comprehensions/images.py
"""

from typing import Any

import numpy as np

import tensorel as tr

SMOOTH = """
    tensor(n, m)()[ ((p, q), avg/v) | ((i, j), v) <= A, p <- (i-1)..(i+1), q <- (j-1)..(j+1),
                    p >= 0, (p) < n, q >= 0, (q) < m, group by (p, q) ]"""
#: Of a sparse image: sums, so that the result is sparse, and its cost that of the entries.
BLUR = """
    tensor(n)(m)[ ((p, q), +/(v*w)) | ((i, j), v) <- A, ((d, e), w) <- K,
                  let p = i + d - 1, let q = j + e - 1, p >= 0, (p) < n, q >= 0, (q) < m,
                  group by (p, q) ]"""
CONVOLVE = """
    tensor(n - k + 1, m - k + 1)()[ ((i, j), +/[ A[i+d, j+e] * w | ((d, e), w) <- K ])
                                    | i <- 0..n-k, j <- 0..m-k ]"""
VOLUME = """
    tensor(n-2, n-2, n-2)()[ ((i, j, k), +/[ A[i+d, j+e, k+f] * w | ((d, e, f), w) <- K ])
                             | i <- 0..n-3, j <- 0..n-3, k <- 0..n-3 ]"""
LIFE = """
    tensor(n, m)()[ ((i, j), k == 3 || (b && k == 2)) | ((i, j), b) <= L, let k =
                    +/[ 1 | p <- i-1..i+1, q <- j-1..j+1, L[p, q], p != i || q != j ] ]"""


def smoothed(A: Any) -> Any:
    return tr.comprehension(SMOOTH, A=A, n=A.shape[0], m=A.shape[1])


def blurred(A: Any, K: Any) -> Any:
    return tr.comprehension(BLUR, A=A, K=K, n=A.shape[0], m=A.shape[1])


def convolved(A: Any, K: Any) -> Any:
    return tr.comprehension(CONVOLVE, A=A, K=K, n=A.shape[0], m=A.shape[1], k=K.shape[0])


def life(L: Any, rounds: int = 1) -> Any:
    for _ in range(rounds):
        L = tr.comprehension(LIFE, L=L, n=L.shape[0], m=L.shape[1]).compute()
    return L


def main() -> None:
    rng = np.random.default_rng(0)
    image = tr.asarray(rng.random((240, 320)))
    print("smoothed:", smoothed(image).to_numpy()[100, :3].round(3))
    edges = tr.asarray(np.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]))
    print("edges:", convolved(image, edges).to_numpy()[100, :3].round(3))
    stars = tr.from_coo(rng.integers(0, 10**6, (2, 1000)), np.ones(1000), (10**6, 10**6),
                        duplicates="sum", format="csr")
    print("blurred stars:", blurred(stars, np.ones((3, 3))).nnz, "of", stars.nnz)
    volume = tr.asarray(rng.random((20, 20, 20)))
    found = tr.comprehension(VOLUME, A=volume, K=np.ones((3, 3, 3)) / 27, n=20)
    print("volume:", found.to_numpy()[5, 5, :3].round(3))
    glider = np.zeros((12, 12), bool)
    glider[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = True
    print("glider after 4 rounds:", np.argwhere(life(tr.asarray(glider), 4).to_numpy()).tolist())


if __name__ == "__main__":
    main()
