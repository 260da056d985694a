"""Programs with loops, as a Python user writes them, and arguments for them.

Each is run by Python on NumPy arrays, and by ``tr.loops``.
"""

# Loops are what this is about.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Arguments = Callable[[np.random.Generator, int], tuple[Any, ...]]
PROGRAMS: dict[str, tuple[Callable[..., Any], Arguments]] = {}
HALF = 0.5


def program(arguments: Arguments) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = function, arguments
        return function

    return enter


def vector(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (rng.normal(size=n).round(3),)


def two_vectors(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return rng.normal(size=n).round(3), rng.normal(size=n).round(3)


def square(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return ((rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.5)).round(3),)


def rectangle(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return ((rng.normal(size=(n, n + 2)) * (rng.random((n, n + 2)) < 0.5)).round(3),)


def product(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (*rectangle(rng, n), rng.normal(size=(n + 2, n + 1)).round(3))


def matrix_vector(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (*square(rng, n), *vector(rng, n))


def letters(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return rng.integers(0, 4, n), rng.integers(0, 4, n + 1)


def whole(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (rng.integers(-5, 20, n),)


def places(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return rng.integers(0, max(n, 1), n), rng.normal(size=n).round(3)


# -- bulk -----------------------------------------------------------------------------------------
@program(product)
def matrix_product(A, B):
    n, p = A.shape
    m = B.shape[1]
    R = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for k in range(p):
                R[i, j] += A[i, k] * B[k, j]
    return R


@program(product)
def product_with_a_local(A, B):
    n, p = A.shape
    R = np.zeros((n, B.shape[1]))
    for i in range(n):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(p):
                s += A[i, k] * B[k, j]
            R[i, j] = s
    return R


@program(matrix_vector)
def matrix_vector_product(A, x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(len(x)):
            y[i] += A[i, j] * x[j]
    return y


@program(rectangle)
def transpose(A):
    n, m = A.shape
    T = np.zeros((m, n))
    for i in range(n):
        for j in range(m):
            T[j, i] = A[i, j]
    return T


@program(rectangle)
def row_and_column_sums(A):
    n, m = A.shape
    rows, columns = np.zeros(n), np.zeros(m)
    for i in range(n):
        for j in range(m):
            rows[i] += A[i, j]
            columns[j] += A[i, j]
    return rows, columns


@program(square)
def trace_and_diagonal(A):
    n = len(A)
    d = np.zeros(n)
    t = 0.0
    for i in range(n):
        d[i] = A[i, i]
        t += A[i, i]
    return d, t


@program(square)
def upper_triangle(A):
    n = A.shape[0]
    U = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            U[i, j] = A[i, j]
    return U


@program(square)
def symmetrized(A):
    n = A.shape[0]
    S = np.zeros_like(A)
    for i in range(n):
        for j in range(n):
            S[i, j] = (A[i, j] + A[j, i]) / 2
    return S


@program(rectangle)
def five_point_stencil(A):
    n, m = A.shape
    B = A.copy()
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
    return B


@program(two_vectors)
def scaled_sum(x, y):
    z = np.zeros(len(x))
    a = 2.5
    for i in range(len(x)):
        z[i] = a * x[i] + y[i]
    return z


@program(two_vectors)
def dot(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * y[i]
    return s


@program(vector)
def mean_and_variance(x):
    n = len(x)
    s = 0.0
    for v in x:
        s += v
    mean = s / n
    q = 0.0
    for v in x:
        q += (v - mean) * (v - mean)
    return mean, q / n


@program(vector)
def extremes(x):
    low = high = x[0]
    for i in range(1, len(x)):
        if x[i] < low:
            low = x[i]
        if x[i] > high:
            high = x[i]
    return low, high


@program(vector)
def counts(x):
    above = below = 0
    for v in x:
        if v > HALF:
            above += 1
        elif v < -HALF:
            below += 1
    return above, below


@program(vector)
def reversed_copy(x):
    n = len(x)
    y = np.zeros_like(x)
    for i in range(n - 1, -1, -1):
        y[n - 1 - i] = x[i]
    return y


@program(vector)
def every_second(x):
    y = x.copy()
    for i in range(0, len(x), 2):
        y[i] = -x[i]
    return y


@program(vector)
def shifted(x):
    y = x.copy()
    for i in range(len(x) - 1):
        y[i] = y[i + 1]
    return y


@program(vector)
def rotated(x):
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        y[(i + 2) % n] = x[i]
    return y


@program(two_vectors)
def outer_difference(x, y):
    D = np.zeros((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            D[i, j] = abs(x[i] - y[j])
    return D


@program(rectangle)
def squared_distances(X):
    n, d = X.shape
    D = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(d):
                t = X[i, k] - X[j, k]
                D[i, j] += t * t
    return D


@program(vector)
def clipped(x):
    y = np.empty(len(x))
    for i in range(len(x)):
        y[i] = min(max(x[i], -HALF), HALF)
    return y


@program(rectangle)
def positive_part(A):
    B = np.zeros(A.shape)
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            if A[i, j] > 0:
                B[i, j] = A[i, j]
    return B


@program(rectangle)
def row_norms(A):
    n, m = A.shape
    r = np.zeros(n)
    for i in range(n):
        s = 0.0
        for j in range(m):
            s += A[i, j] ** 2
        r[i] = np.sqrt(s)
    return r


@program(rectangle)
def largest_of_rows(A):
    n, m = A.shape
    r = np.zeros(n)
    for i in range(n):
        best = A[i, 0]
        for j in range(1, m):
            best = max(best, A[i, j])
        r[i] = best
    return r


@program(vector)
def softmax(x):
    n = len(x)
    y = np.zeros(n)
    top = x[0]
    for i in range(n):
        top = max(top, x[i])
    total = 0.0
    for i in range(n):
        total += np.exp(x[i] - top)
    for i in range(n):
        y[i] = np.exp(x[i] - top) / total
    return y


@program(square)
def three_loops_apart(A):
    n = len(A)
    B = np.zeros((n, n))
    C = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            B[i, j] = A[i, j] * 2
        for j in range(n):
            C[i, j] = B[i, j] + 1
    return B, C


@program(vector)
def convolved(x):
    w = np.zeros(3)
    w[0], w[1], w[2] = 0.25, 0.5, 0.25
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        for k in range(3):
            if 0 <= i + k - 1 < n:
                y[i] += w[k] * x[i + k - 1]
    return y


@program(rectangle)
def zero_padded(A):
    n, m = A.shape
    P = np.zeros((n + 2, m + 2))
    for i in range(n):
        for j in range(m):
            P[i + 1, j + 1] = A[i, j]
    return P


@program(rectangle)
def flattened(A):
    n, m = A.shape
    v = np.zeros(n * m)
    for i in range(n):
        for j in range(m):
            v[i * m + j] = A[i, j]
    return v


@program(places)
def gathered(at, x):
    y = np.zeros(len(at))
    for i in range(len(at)):
        y[i] = x[at[i]]
    return y


@program(places)
def histogram(at, x):
    h = np.zeros(len(x))
    for i in range(len(at)):
        h[at[i]] += x[i]
    return h


@program(whole)
def parities(k):
    found = np.zeros((2, 3), dtype=np.int64)
    for v in k:
        found[v % 2, v % 3] += 1
    return found


# -- carried --------------------------------------------------------------------------------------
@program(vector)
def running_sums(x):
    y = x.copy()
    for i in range(1, len(y)):
        y[i] += y[i - 1]
    return y


@program(vector)
def recurrence(x):
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.9 * y[i - 1] + 0.1 * x[i]
    return y


@program(lambda rng, n: (n + 3,))
def fibonacci(n):
    f = np.zeros(n, dtype=np.int64)
    f[1] = 1
    for i in range(2, n):
        f[i] = f[i - 1] + f[i - 2]
    return f


@program(letters)
def edit_distance(a, b):
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(n + 1):
        D[i, 0] = i
    for j in range(m + 1):
        D[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + cost)
    return D[n, m]


@program(letters)
def edit_distance_in_two_rows(a, b):
    m = len(b)
    before = np.zeros(m + 1, dtype=np.int64)
    for j in range(m + 1):
        before[j] = j
    for i in range(len(a)):
        now = np.zeros(m + 1, dtype=np.int64)
        now[0] = i + 1
        for j in range(m):
            best = before[j] if a[i] == b[j] else before[j] + 1
            now[j + 1] = min(best, now[j] + 1, before[j + 1] + 1)
        before = now
    return before[m]


@program(letters)
def common_subsequence(a, b):
    L = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            if a[i] == b[j]:
                L[i, j] = L[i + 1, j + 1] + 1
            else:
                L[i, j] = max(L[i + 1, j], L[i, j + 1])
    return L, L[0, 0]


@program(letters)
def smith_waterman(a, b):
    n, m = len(a), len(b)
    H = np.zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = 2.0 if a[i - 1] == b[j - 1] else -1.0
            H[i, j] = max(0.0, H[i - 1, j - 1] + s, H[i - 1, j] - 1.0, H[i, j - 1] - 1.0)
            best = max(best, H[i, j])
    return H, best


@program(lambda rng, n: (rng.integers(1, 9, n), rng.random(n).round(3), 20))
def knapsack(weights, values, room):
    best = np.zeros(room + 1)
    for k in range(len(weights)):
        for w in range(room, weights[k] - 1, -1):
            best[w] = max(best[w], best[w - weights[k]] + values[k])
    return best[room]


@program(lambda rng, n: (rng.integers(1, 9, n), 30))
def coins(kinds, amount):
    ways = np.zeros(amount + 1, dtype=np.int64)
    ways[0] = 1
    for c in kinds:
        for a in range(c, amount + 1):
            ways[a] += ways[a - c]
    return ways


@program(square)
def floyd_warshall(A):
    n = len(A)
    D = np.full((n, n), np.inf)
    for i in range(n):
        for j in range(n):
            if A[i, j] > 0:
                D[i, j] = A[i, j]
        D[i, i] = 0.0
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if D[i, k] + D[k, j] < D[i, j]:
                    D[i, j] = D[i, k] + D[k, j]
    return D


@program(lambda rng, n: (*rectangle(rng, n), 3))
def gauss_seidel(u, sweeps):
    n, m = u.shape
    for _ in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


@program(lambda rng, n: (*rectangle(rng, n), 4))
def jacobi_with_swaps(u, sweeps):
    n, m = u.shape
    v = u.copy()
    for _ in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, v = v, u
    return u


@program(lambda rng, n: ((rng.random((n, n)) < 0.4).astype(np.int64), 3))
def game_of_life(world, steps):
    n, m = world.shape
    for _ in range(steps):
        after = np.zeros((n, m), dtype=np.int64)
        for i in range(n):
            for j in range(m):
                alive = 0
                for a in range(-1, 2):
                    for b in range(-1, 2):
                        if a != 0 or b != 0:
                            alive += world[(i + a) % n, (j + b) % m]
                if alive == 3 or (alive == 2 and world[i, j] == 1):
                    after[i, j] = 1
        world = after
    return world


@program(lambda rng, n: ((rng.normal(size=(n, n)) + n * np.eye(n)).round(3),))
def lu(A):
    n = len(A)
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]
    return A


@program(lambda rng, n: ((rng.normal(size=(n, n)) + n * np.eye(n)).round(3), *vector(rng, n)))
def forward_substitution(L, b):
    n = len(b)
    x = np.zeros(n)
    for i in range(n):
        s = b[i]
        for j in range(i):
            s -= L[i, j] * x[j]
        x[i] = s / L[i, i]
    return x


@program(vector)
def insertion_sort(x):
    for i in range(1, len(x)):
        v = x[i]
        j = i - 1
        while j >= 0 and x[j] > v:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = v
    return x


@program(vector)
def bubble_sort(x):
    n = len(x)
    swapped = True
    while swapped:
        swapped = False
        for i in range(n - 1):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swapped = True
        n -= 1
    return x


@program(lambda rng, n: (n * n + 2,))
def primes(n):
    sieve = np.ones(n, dtype=bool)
    sieve[0] = sieve[1] = False
    i = 2
    while i * i < n:
        if sieve[i]:
            for j in range(i * i, n, i):
                sieve[j] = False
        i += 1
    count = 0
    for p in sieve:
        if p:
            count += 1
    return sieve, count


@program(lambda rng, n: (n + 20,))
def collatz(n):
    steps = np.zeros(n, dtype=np.int32)
    longest = 0
    for start in range(1, n):
        v, k = start, 0
        while v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            k += 1
        steps[start] = k
        if k > longest:
            longest = k
    return steps, longest


@program(lambda rng, n: (n * 7 + 12, n * 3 + 4))
def greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@program(lambda rng, n: (float(n + 2), 1e-12))
def newton_root(a, tolerance):
    x = a
    steps = 0
    while abs(x * x - a) > tolerance and steps < 50:
        x = 0.5 * (x + a / x)
        steps += 1
    return x, steps


@program(lambda rng, n: (0.0, 2.0, 1e-10))
def bisection(low, high, tolerance):
    while high - low > tolerance:
        middle = (low + high) / 2
        if middle * middle < 2.0:
            low = middle
        else:
            high = middle
    return low


@program(lambda rng, n: (np.sort(rng.normal(size=n)), 0.25))
def binary_search(x, v):
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


@program(vector)
def first_above(x):
    found = -1
    for i in range(len(x)):
        if x[i] > HALF:
            found = i
            break
    return found


@program(vector)
def first_above_by_return(x):
    for i in range(len(x)):
        if x[i] > HALF:
            return i
    return -1


@program(vector)
def sum_without_negatives(x):
    s = 0.0
    for v in x:
        if v < 0:
            continue
        s += v
    return s


@program(vector)
def largest_slice(x):
    best = now = 0.0
    for v in x:
        now = max(0.0, now + v)
        best = max(best, now)
    return best


@program(vector)
def longest_increasing(x):
    n = len(x)
    best = np.ones(n, dtype=np.int64)
    top = 0
    for i in range(n):
        for j in range(i):
            if x[j] < x[i]:
                best[i] = max(best[i], best[j] + 1)
        top = max(top, best[i])
    return top


@program(lambda rng, n: (rng.integers(1, 9, n + 1),))
def matrix_chain(sizes):
    n = len(sizes) - 1
    cost = np.zeros((n, n), dtype=np.int64)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = -1
            for k in range(i, j):
                c = cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if best < 0 or c < best:
                    best = c
            cost[i, j] = best
    return cost


@program(lambda rng, n: (rng.normal(size=(4 * n, 2)).round(3), 3, 5))
def k_means(points, k, rounds):
    n, d = points.shape
    centres = np.zeros((k, d))
    label = np.zeros(n, dtype=np.int64)
    for c in range(k):
        for j in range(d):
            centres[c, j] = points[c, j]
    for _ in range(rounds):
        for i in range(n):
            best = math.inf
            for c in range(k):
                s = 0.0
                for j in range(d):
                    t = points[i, j] - centres[c, j]
                    s += t * t
                if s < best:
                    best = s
                    label[i] = c
        sums = np.zeros((k, d))
        counts = np.zeros(k)
        for i in range(n):
            counts[label[i]] += 1
            for j in range(d):
                sums[label[i], j] += points[i, j]
        for c in range(k):
            if counts[c] > 0:
                for j in range(d):
                    centres[c, j] = sums[c, j] / counts[c]
    return centres, label


@program(lambda rng, n: (np.abs(square(rng, n)[0]), 1e-8))
def page_rank(A, tolerance):
    n = len(A)
    out = np.zeros(n)
    for i in range(n):
        for j in range(n):
            out[i] += A[i, j]
    rank = np.full(n, 1.0 / n)
    change, rounds = 1.0, 0
    while change > tolerance and rounds < 60:
        after = np.full(n, 0.15 / n)
        for i in range(n):
            for j in range(n):
                if out[i] > 0:
                    after[j] += 0.85 * A[i, j] / out[i] * rank[i]
        change = 0.0
        for i in range(n):
            change += abs(after[i] - rank[i])
        rank = after
        rounds += 1
    return rank, rounds


@program(lambda rng, n: (*square(rng, n), 20))
def power_iteration(A, rounds):
    n = len(A)
    x = np.ones(n)
    for _ in range(rounds):
        y = np.zeros(n)
        for i in range(n):
            for j in range(n):
                y[i] += (A[i, j] + A[j, i]) * x[j]
        s = 0.0
        for i in range(n):
            s += y[i] * y[i]
        norm = math.sqrt(s)
        if norm == 0.0:
            break
        for i in range(n):
            x[i] = y[i] / norm
    return x


@program(square)
def reachable(A):
    n = len(A)
    seen = np.zeros(n, dtype=bool)
    seen[0] = True
    changed = True
    while changed:
        changed = False
        for i in range(n):
            if seen[i]:
                for j in range(n):
                    if A[i, j] != 0 and not seen[j]:
                        seen[j] = True
                        changed = True
    return seen


@program(square)
def bellman_ford(A):
    n = len(A)
    D = np.full(n, 1e9)
    D[0] = 0.0
    for _ in range(n):
        for i in range(n):
            for j in range(n):
                if A[i, j] > 0 and D[i] + A[i, j] < D[j]:
                    D[j] = D[i] + A[i, j]
    return D


@program(lambda rng, n: (n * 3, 12345))
def random_walk(steps, seed):
    path = np.zeros(steps + 1, dtype=np.int64)
    state = seed
    for k in range(steps):
        state = (state * 1103515245 + 12345) % 2147483648
        path[k + 1] = path[k] + (1 if state % 2 else -1)
    return path, state


@program(lambda rng, n: (n + 4, n + 6, 25))
def mandelbrot(n, m, most):
    found = np.zeros((n, m), dtype=np.int32)
    for i in range(n):
        for j in range(m):
            x0, y0 = 3.0 * j / m - 2.0, 2.0 * i / n - 1.0
            x = y = 0.0
            k = 0
            while x * x + y * y <= 4.0 and k < most:
                x, y = x * x - y * y + x0, 2.0 * x * y + y0
                k += 1
            found[i, j] = k
    return found


@program(vector)
def pairs_swapped(x):
    for i in range(0, len(x) - 1, 2):
        x[i], x[i + 1] = x[i + 1], x[i]
    return x


@program(vector)
def reversed_in_place(x):
    i, j = 0, len(x) - 1
    while i < j:
        x[i], x[j] = x[j], x[i]
        i += 1
        j -= 1
    return x


@program(lambda rng, n: (rng.normal(size=n).round(3), 3))
def horner(c, x):
    s = 0.0
    for k in range(len(c) - 1, -1, -1):
        s = s * x + c[k]
    return s


@program(vector)
def negative_places(x):
    y = np.zeros(len(x))
    for i in range(1, len(x) + 1):
        y[-i] = x[i - 1] * x[-1]
    return y


@program(lambda rng, n: (rng.normal(size=(n, 3, 2)).round(3),))
def three_axes(T):
    n, m, p = T.shape
    R = np.zeros((p, n))
    for i in range(n):
        for j in range(m):
            for k in range(p):
                R[k, i] += T[i, j, k]
    return R


@program(lambda rng, n: (rng.integers(0, 200, n).astype(np.uint8),))
def wrapping_bytes(x):
    y = np.zeros(len(x), dtype=np.uint8)
    for i in range(len(x)):
        y[i] = x[i] * x[i] + 7
    return y


@program(lambda rng, n: (rng.integers(0, 50, n),))
def bits(x):
    y = np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        v, c = x[i], 0
        while v:
            c += v & 1
            v >>= 1
        y[i] = (c << 3) | (x[i] & 7)
    return y


@program(vector)
def math_functions(x):
    y = np.zeros((len(x), 4))
    for i in range(len(x)):
        y[i, 0] = math.sin(x[i]) + math.exp(-abs(x[i]))
        y[i, 1] = math.floor(x[i]) + math.ceil(x[i]) + round(x[i])
        y[i, 2] = math.atan2(x[i], 2.0) + math.hypot(x[i], 1.0) + math.pi
        y[i, 3] = math.sqrt(x[i] * x[i]) + math.log(1.0 + x[i] * x[i]) + int(x[i])
    return y
