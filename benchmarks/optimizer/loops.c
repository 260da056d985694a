/* The best plan of each program as one expert would write it by hand: one thread, no allocation
   but the caller's (results are made anew in each call, scratch space once). Sparse operands are CSR (pos, idx, val) with int32 indices; tensors are fibre
   trees: root (ipos over fibres), middle coordinate of each fibre, fibre (pos over entries). */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int32_t ix;
typedef int64_t n_;
typedef double lanes __attribute__((vector_size(64), aligned(8)));

/* Reassociated by hand, so that nothing else needs -ffast-math, which spoils short rows. */
static inline double dot(const double *x, const double *y, n_ n) {
    lanes s = {0}, t = {0};
    n_ r = 0;
    for (; r + 16 <= n; r += 16) {
        s += *(const lanes *)(x + r) * *(const lanes *)(y + r);
        t += *(const lanes *)(x + r + 8) * *(const lanes *)(y + r + 8);
    }
    s += t;
    if (r + 8 <= n) {
        s += *(const lanes *)(x + r) * *(const lanes *)(y + r);
        r += 8;
    }
    double sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    for (; r < n; r++) sum += x[r] * y[r];
    return sum;
}

/* sum of a * x[idx] with four chains of additions */
static inline double gathered(const double *a, const ix *idx, const double *x, n_ n) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    n_ p = 0;
    for (; p + 4 <= n; p += 4) {
        s0 += a[p] * x[idx[p]];
        s1 += a[p + 1] * x[idx[p + 1]];
        s2 += a[p + 2] * x[idx[p + 2]];
        s3 += a[p + 3] * x[idx[p + 3]];
    }
    for (; p < n; p++) s0 += a[p] * x[idx[p]];
    return (s0 + s1) + (s2 + s3);
}

/* sum(A @ B) = sum over entries of A of a * rowsum(B)[column] */
double sum_mmm(n_ rows_b, const ix *bpos, const double *b, n_ nnz, const ix *aidx, const double *a,
               double *sums) {
    for (n_ k = 0; k < rows_b; k++) {
        double s = 0;
        for (ix p = bpos[k]; p < bpos[k + 1]; p++) s += b[p];
        sums[k] = s;
    }
    return gathered(a, aidx, sums, nnz);
}

/* y = beta * A.T @ (A @ x): one pass, each row is used while it is in cache */
void batax(n_ rows, const ix *pos, const ix *idx, const double *a, const double *x, double beta,
           n_ columns, double *y) {
    memset(y, 0, columns * sizeof *y);
    for (n_ i = 0; i < rows; i++) {
        double t = beta * gathered(a + pos[i], idx + pos[i], x, pos[i + 1] - pos[i]);
        for (ix p = pos[i]; p < pos[i + 1]; p++) y[idx[p]] += t * a[p];
    }
}

/* y = A.T @ (A @ ones), the same way */
void gram_row_sum(n_ rows, const ix *pos, const ix *idx, const double *a, n_ columns, double *y) {
    memset(y, 0, columns * sizeof *y);
    for (n_ i = 0; i < rows; i++) {
        double t = 0;
        for (ix p = pos[i]; p < pos[i + 1]; p++) t += a[p];
        for (ix p = pos[i]; p < pos[i + 1]; p++) y[idx[p]] += t * a[p];
    }
}

double sum_squares(n_ nnz, const double *a) { return dot(a, a, nnz); }

/* Gustavson with a row of at most 256 columns: marks are four words, rows come out sorted */
n_ mmm(n_ rows, const ix *apos, const ix *aidx, const double *a, const ix *bpos, const ix *bidx,
       const double *b, ix *opos, ix *oidx, double *o) {
    double acc[256] = {0};
    n_ top = 0;
    opos[0] = 0;
    for (n_ i = 0; i < rows; i++) {
        uint64_t mark[4] = {0};
        for (ix p = apos[i]; p < apos[i + 1]; p++) {
            double v = a[p];
            ix k = aidx[p];
            for (ix q = bpos[k]; q < bpos[k + 1]; q++) {
                ix j = bidx[q];
                acc[j] += v * b[q];
                mark[j >> 6] |= 1ull << (j & 63);
            }
        }
        for (int w = 0; w < 4; w++)
            for (uint64_t m = mark[w]; m; m &= m - 1) {
                ix j = w * 64 + __builtin_ctzll(m);
                oidx[top] = j;
                o[top++] = acc[j];
                acc[j] = 0;
            }
        opos[i + 1] = (ix)top;
    }
    return top;
}

/* Q[fibre, r] = sum over the fibre of val * B[l, r], B by rows, at most 64 columns */
n_ ttm(n_ fibres, const ix *pos, const ix *l, const double *a, const ix *bpos, const ix *bidx,
       const double *b, ix *opos, ix *oidx, double *o) {
    double acc[64] = {0};
    n_ top = 0;
    opos[0] = 0;
    for (n_ f = 0; f < fibres; f++) {
        uint64_t mark = 0;
        for (ix p = pos[f]; p < pos[f + 1]; p++)
            for (ix q = bpos[l[p]]; q < bpos[l[p] + 1]; q++) {
                acc[bidx[q]] += a[p] * b[q];
                mark |= 1ull << bidx[q];
            }
        for (; mark; mark &= mark - 1) {
            ix r = __builtin_ctzll(mark);
            oidx[top] = r;
            o[top++] = acc[r];
            acc[r] = 0;
        }
        opos[f + 1] = (ix)top;
    }
    return top;
}

/* Figure 1(d) of STOREL: the fibre is summed once, and not at all where B's row is empty */
void mttkrp_sparse(n_ rows, const ix *ipos, const ix *k, const ix *pos, const ix *l,
                   const double *a, const ix *bpos, const ix *bidx, const double *b, const ix *cpos,
                   const ix *cidx, const double *c, n_ rank, double *out) {
    double acc[64];
    memset(out, 0, rows * rank * sizeof *out);
    for (n_ i = 0; i < rows; i++)
        for (ix f = ipos[i]; f < ipos[i + 1]; f++) {
            ix from = bpos[k[f]], to = bpos[k[f] + 1];
            if (from == to) continue;
            for (ix q = from; q < to; q++) acc[bidx[q]] = 0;
            for (ix p = pos[f]; p < pos[f + 1]; p++)
                for (ix q = cpos[l[p]]; q < cpos[l[p] + 1]; q++) acc[cidx[q]] += a[p] * c[q];
            for (ix q = from; q < to; q++) out[i * rank + bidx[q]] += acc[bidx[q]] * b[q];
        }
}

void mttkrp_dense(n_ rows, const ix *ipos, const ix *k, const ix *pos, const ix *l, const double *a,
                  const double *b, const double *c, n_ rank, double *out) {
    double acc[64];
    memset(out, 0, rows * rank * sizeof *out);
    for (n_ i = 0; i < rows; i++)
        for (ix f = ipos[i]; f < ipos[i + 1]; f++) {
            for (n_ r = 0; r < rank; r++) acc[r] = 0;
            for (ix p = pos[f]; p < pos[f + 1]; p++)
                for (n_ r = 0; r < rank; r++) acc[r] += a[p] * c[l[p] * rank + r];
            for (n_ r = 0; r < rank; r++) out[i * rank + r] += acc[r] * b[k[f] * rank + r];
        }
}

static void transpose(n_ rows, n_ columns, const double *from, double *to) {
    for (n_ lo = 0; lo < columns; lo += 16)
        for (n_ r = 0; r < rows; r++)
            for (n_ j = lo; j < lo + 16 && j < columns; j++) to[j * rows + r] = from[r * columns + j];
}

/* A / (W @ H) at A's entries; H is rank x columns and is turned first (turned: scratch) */
void divide_product(n_ rows, const ix *pos, const ix *idx, const double *a, const double *w,
                    const double *h, n_ rank, n_ columns, double *turned, double *out) {
    transpose(rank, columns, h, turned);
    for (n_ i = 0; i < rows; i++)
        for (ix p = pos[i]; p < pos[i + 1]; p++)
            out[p] = a[p] / dot(w + i * rank, turned + idx[p] * rank, rank);
}

double sum_log(n_ rows, const ix *pos, const ix *idx, const double *a, const double *w,
               const double *h, n_ rank, n_ columns, double *turned) {
    double total = 0;
    transpose(rank, columns, h, turned);
    for (n_ i = 0; i < rows; i++)
        for (ix p = pos[i]; p < pos[i + 1]; p++)
            total += a[p] * log(dot(w + i * rank, turned + idx[p] * rank, rank));
    return total;
}

double weighted_loss(n_ rows, const ix *pos, const ix *idx, const double *weight, const double *x,
                     const double *u, const double *v, n_ rank) {
    double total = 0;
    for (n_ i = 0; i < rows; i++)
        for (ix p = pos[i]; p < pos[i + 1]; p++) {
            double d = x[p] - dot(u + i * rank, v + idx[p] * rank, rank);
            total += weight[p] * d * d;
        }
    return total;
}

static void gram(n_ n, n_ rank, const double *u, double *g) {
    memset(g, 0, rank * rank * sizeof *g);
    for (n_ i = 0; i < n; i++)
        for (n_ r = 0; r < rank; r++)
            for (n_ s = 0; s < rank; s++) g[r * rank + s] += u[i * rank + r] * u[i * rank + s];
}

/* sum((X - U @ V.T)**2) = sum X*(X - 2 U V') over X's entries + sum (U'U) * (V'V) */
double squared_loss(n_ rows, n_ columns, const ix *pos, const ix *idx, const double *x,
                    const double *u, const double *v, n_ rank, double *gu, double *gv) {
    double total = 0;
    for (n_ i = 0; i < rows; i++)
        for (ix p = pos[i]; p < pos[i + 1]; p++)
            total += x[p] * (x[p] - 2 * dot(u + i * rank, v + idx[p] * rank, rank));
    gram(rows, rank, u, gu);
    gram(columns, rank, v, gv);
    return total + dot(gu, gv, rank * rank);
}

double triangles(n_ n, const ix *pos, const ix *idx, const double *a, double *mark) {
    double total = 0;
    memset(mark, 0, n * sizeof *mark);
    for (n_ i = 0; i < n; i++) {
        for (ix p = pos[i]; p < pos[i + 1]; p++) mark[idx[p]] = a[p];
        for (ix p = pos[i]; p < pos[i + 1]; p++) {
            ix j = idx[p];
            total += a[p] * gathered(a + pos[j], idx + pos[j], mark, pos[j + 1] - pos[j]);
        }
        for (ix p = pos[i]; p < pos[i + 1]; p++) mark[idx[p]] = 0;
    }
    return total;
}

double cliques4(n_ n, const ix *pos, const ix *idx, const double *a, double *mark, double *both,
                ix *list) {
    double total = 0;
    memset(mark, 0, n * sizeof *mark);
    memset(both, 0, n * sizeof *both);
    for (n_ i = 0; i < n; i++) {
        for (ix p = pos[i]; p < pos[i + 1]; p++) mark[idx[p]] = a[p];
        for (ix p = pos[i]; p < pos[i + 1]; p++) {
            ix j = idx[p];
            n_ found = 0;
            for (ix q = pos[j]; q < pos[j + 1]; q++)
                if (mark[idx[q]] != 0) {
                    both[idx[q]] = mark[idx[q]] * a[q];
                    list[found++] = idx[q];
                }
            for (n_ f = 0; f < found; f++) {
                ix k = list[f];
                double s = gathered(a + pos[k], idx + pos[k], both, pos[k + 1] - pos[k]);
                total += a[p] * both[k] * s;
            }
            for (n_ f = 0; f < found; f++) both[list[f]] = 0;
        }
        for (ix p = pos[i]; p < pos[i + 1]; p++) mark[idx[p]] = 0;
    }
    return total;
}

/* For symmetric A: the sum of squares of A @ A, row by row */
double cycles4(n_ n, const ix *pos, const ix *idx, const double *a, double *acc) {
    double total = 0;
    memset(acc, 0, n * sizeof *acc);
    for (n_ i = 0; i < n; i++) {
        for (ix p = pos[i]; p < pos[i + 1]; p++)
            for (ix q = pos[idx[p]]; q < pos[idx[p] + 1]; q++) acc[idx[q]] += a[p] * a[q];
        for (ix p = pos[i]; p < pos[i + 1]; p++)
            for (ix q = pos[idx[p]]; q < pos[idx[p] + 1]; q++) {
                total += acc[idx[q]] * acc[idx[q]];
                acc[idx[q]] = 0;
            }
    }
    return total;
}

/* Paths of three edges: column sums, row sums, one pass */
double paths3(n_ n, const ix *pos, const ix *idx, const double *a, double *in, double *out) {
    double total = 0;
    memset(in, 0, n * sizeof *in);
    for (n_ i = 0; i < n; i++) {
        double s = 0;
        for (ix p = pos[i]; p < pos[i + 1]; p++) {
            s += a[p];
            in[idx[p]] += a[p];
        }
        out[i] = s;
    }
    for (n_ i = 0; i < n; i++)
        for (ix p = pos[i]; p < pos[i + 1]; p++) total += in[i] * a[p] * out[idx[p]];
    return total;
}

void bfs(n_ n, const ix *pos, const ix *idx, ix start, ix *depth, ix *queue) {
    for (n_ i = 0; i < n; i++) depth[i] = -1;
    n_ head = 0, tail = 0;
    depth[start] = 0;
    queue[tail++] = start;
    while (head < tail) {
        ix i = queue[head++];
        for (ix p = pos[i]; p < pos[i + 1]; p++)
            if (depth[idx[p]] < 0) {
                depth[idx[p]] = depth[i] + 1;
                queue[tail++] = idx[p];
            }
    }
}

/* rank = damping * P @ rank + (1 - damping) / n, P by rows */
void pagerank(n_ n, const ix *pos, const ix *idx, const double *p_, double damping, n_ rounds,
              double *x, double *y) {
    for (n_ i = 0; i < n; i++) x[i] = 1.0 / n;
    for (n_ t = 0; t < rounds; t++) {
        for (n_ i = 0; i < n; i++) {
            double s = gathered(p_ + pos[i], idx + pos[i], x, pos[i + 1] - pos[i]);
            y[i] = damping * s + (1 - damping) / n;
        }
        memcpy(x, y, n * sizeof *x);
    }
}

/* y = x @ w for one row; widths are known where it is called */
static inline __attribute__((always_inline)) void row_times(const double *x, n_ k, const double *w,
                                                            n_ m, double *y) {
    lanes s[4] = {{0}};
    for (n_ a = 0; a < k; a++)
        for (n_ b = 0; b < m / 8; b++) s[b] += x[a] * *(const lanes *)(w + a * m + 8 * b);
    for (n_ b = 0; b < m / 8; b++) *(lanes *)(y + 8 * b) = s[b];
}

/* y = the sum of val * rows of x */
static inline __attribute__((always_inline)) void rows_sum(const double *val, const ix *idx, n_ n,
                                                           const double *x, n_ m, double *y) {
    lanes s[8] = {{0}};
    for (n_ p = 0; p < n; p++)
        for (n_ b = 0; b < m / 8; b++) s[b] += val[p] * *(const lanes *)(x + m * idx[p] + 8 * b);
    for (n_ b = 0; b < m / 8; b++) *(lanes *)(y + 8 * b) = s[b];
}

/* relu(A @ relu(A @ X @ W1) @ W2) for the asked rows, widths 64, 32, 8: the first layer for their
   neighbours alone, each with its product with W2. before: X @ W1 first, for all rows. mark: n
   zeros, and zeros again at the end */
void convolution(n_ n, n_ asked, const ix *rows, const ix *pos, const ix *idx, const double *val,
                 const double *x, const double *w1, const double *w2, ix before, ix *mark,
                 ix *near, double *xw, double *hidden, double *out) {
    n_ found = 0;
    for (n_ r = 0; r < asked; r++)
        for (n_ p = pos[rows[r]]; p < pos[rows[r] + 1]; p++)
            if (!mark[idx[p]]) {
                near[found] = idx[p];
                mark[idx[p]] = ++found;
            }
    if (before)
        for (n_ i = 0; i < n; i++) row_times(x + 64 * i, 64, w1, 32, xw + 32 * i);
    for (n_ k = 0; k < found; k++) {
        double wide[64], row[32];
        n_ p = pos[near[k]], len = pos[near[k] + 1] - p;
        if (before) {
            rows_sum(val + p, idx + p, len, xw, 32, row);
        } else {
            rows_sum(val + p, idx + p, len, x, 64, wide);
            row_times(wide, 64, w1, 32, row);
        }
        for (n_ b = 0; b < 32; b++) row[b] = row[b] > 0 ? row[b] : 0;
        row_times(row, 32, w2, 8, hidden + 8 * k);
    }
    for (n_ r = 0; r < asked; r++) {
        double row[8] = {0};
        for (n_ p = pos[rows[r]]; p < pos[rows[r] + 1]; p++)
            for (n_ b = 0; b < 8; b++) row[b] += val[p] * hidden[8 * (mark[idx[p]] - 1) + b];
        for (n_ b = 0; b < 8; b++) out[8 * r + b] = row[b] > 0 ? row[b] : 0;
    }
    for (n_ k = 0; k < found; k++) mark[near[k]] = 0;
}

/* X.T @ (g(X @ w) - y) for X = [F, R1[k1], R2[k2]]: scores of the dimension rows once, one pass
   over the facts, residuals summed per key, then two small products. g: identity or logistic */
void star_gradient(n_ facts, n_ nf, const double *f, n_ n1, n_ d1, const ix *k1, const double *r1,
                   n_ n2, n_ d2, const ix *k2, const double *r2, const double *y, const double *w,
                   ix logistic, double *s1, double *s2, double *t1, double *t2, double *g) {
    for (n_ i = 0; i < n1; i++) s1[i] = dot(r1 + i * d1, w + nf, d1), t1[i] = 0;
    for (n_ i = 0; i < n2; i++) s2[i] = dot(r2 + i * d2, w + nf + d1, d2), t2[i] = 0;
    memset(g, 0, (nf + d1 + d2) * sizeof *g);
    for (n_ i = 0; i < facts; i++) {
        double e = dot(f + i * nf, w, nf) + s1[k1[i]] + s2[k2[i]];
        if (logistic) e = 1 / (1 + exp(-e));
        e -= y[i];
        t1[k1[i]] += e;
        t2[k2[i]] += e;
        for (n_ c = 0; c < nf; c++) g[c] += e * f[i * nf + c];
    }
    for (n_ i = 0; i < n1; i++)
        for (n_ c = 0; c < d1; c++) g[nf + c] += t1[i] * r1[i * d1 + c];
    for (n_ i = 0; i < n2; i++)
        for (n_ c = 0; c < d2; c++) g[nf + d1 + c] += t2[i] * r2[i * d2 + c];
}
