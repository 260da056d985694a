/* The loops that one would write by hand over each layout: SpMV, SpMM, BATAX, MTTKRP.
   ROWS_x visits the entries of a layout by rows: BEGIN and END once a row, ENTRY with j and v. */

#include <stdint.h>
#include <string.h>

typedef int64_t n_;
typedef int32_t ix;

#define ROWS_CSR(BEGIN, ENTRY, MIDDLE, AGAIN, END)                     \
  for (n_ i = 0; i < rows; i++) {                                      \
    BEGIN;                                                             \
    for (n_ p = pos[i]; p < pos[i + 1]; p++) { n_ j = idx[p]; double v = val[p]; ENTRY; } \
    MIDDLE;                                                            \
    AGAIN(for (n_ p = pos[i]; p < pos[i + 1]; p++) { n_ j = idx[p]; double v = val[p];, }) \
    END;                                                               \
  }

#define ROWS_DCSR(BEGIN, ENTRY, MIDDLE, AGAIN, END)                    \
  for (n_ r = 0; r < stored; r++) {                                    \
    n_ i = row[r];                                                     \
    BEGIN;                                                             \
    for (n_ p = pos[r]; p < pos[r + 1]; p++) { n_ j = idx[p]; double v = val[p]; ENTRY; } \
    MIDDLE;                                                            \
    AGAIN(for (n_ p = pos[r]; p < pos[r + 1]; p++) { n_ j = idx[p]; double v = val[p];, }) \
    END;                                                               \
  }

#define ROWS_ELL(BEGIN, ENTRY, MIDDLE, AGAIN, END)                     \
  for (n_ i = 0; i < rows; i++) {                                      \
    const ix *c = idx + i * width; const double *w = val + i * width;  \
    BEGIN;                                                             \
    for (n_ s = 0; s < len[i]; s++) { n_ j = c[s]; double v = w[s]; ENTRY; } \
    MIDDLE;                                                            \
    AGAIN(for (n_ s = 0; s < len[i]; s++) { n_ j = c[s]; double v = w[s];, }) \
    END;                                                               \
  }

#define NOTHING(head, tail)
#define SCATTER(head, tail) head y[j] += v * acc; tail

#define CSR n_ rows, const ix *pos, const ix *idx, const double *val
#define DCSR n_ stored, const ix *row, const ix *pos, const ix *idx, const double *val
#define ELL n_ rows, n_ width, const ix *len, const ix *idx, const double *val

#define KERNELS(name, ARGS, ROWS)                                                             \
  void spmv_##name(ARGS, const double *x, double *y, n_ n, n_ m) {                            \
    memset(y, 0, m * 8);                                                                      \
    ROWS(double acc = 0, acc += v * x[j], , NOTHING, y[i] = acc)                              \
  }                                                                                           \
  void spmm_##name(ARGS, const double *x, double *y, n_ n, n_ m, n_ k_) {                     \
    memset(y, 0, m * k_ * 8);                                                                 \
    ROWS(double *to = y + i * k_,                                                             \
         const double *from = x + j * k_; for (n_ k = 0; k < k_; k++) to[k] += v * from[k], , \
         NOTHING, )                                                                           \
  }                                                                                           \
  void batax_##name(ARGS, const double *x, double *y, n_ n, n_ m, double beta) {              \
    memset(y, 0, n * 8);                                                                      \
    ROWS(double acc = 0, acc += v * x[j], acc *= beta, SCATTER, )                             \
  }

KERNELS(csr, CSR, ROWS_CSR)
KERNELS(dcsr, DCSR, ROWS_DCSR)
KERNELS(ell, ELL, ROWS_ELL)

/* columns */
void spmv_csc(n_ cols, const ix *pos, const ix *idx, const double *val, const double *x, double *y,
              n_ n, n_ m) {
  memset(y, 0, m * 8);
  for (n_ j = 0; j < cols; j++)
    for (n_ p = pos[j]; p < pos[j + 1]; p++) y[idx[p]] += val[p] * x[j];
}
void spmm_csc(n_ cols, const ix *pos, const ix *idx, const double *val, const double *x, double *y,
              n_ n, n_ m, n_ k_) {
  memset(y, 0, m * k_ * 8);
  for (n_ j = 0; j < cols; j++)
    for (n_ p = pos[j]; p < pos[j + 1]; p++)
      for (n_ k = 0; k < k_; k++) y[idx[p] * k_ + k] += val[p] * x[j * k_ + k];
}
void batax_csc(n_ cols, const ix *pos, const ix *idx, const double *val, const double *x, double *y,
               n_ n, n_ m, double beta, double *t) {
  spmv_csc(cols, pos, idx, val, x, t, n, m);
  for (n_ j = 0; j < cols; j++) {
    double acc = 0;
    for (n_ p = pos[j]; p < pos[j + 1]; p++) acc += val[p] * t[idx[p]];
    y[j] = beta * acc;
  }
}

/* a list of coordinates */
void spmv_coo(n_ nnz, const ix *row, const ix *col, const double *val, const double *x, double *y,
              n_ n, n_ m) {
  memset(y, 0, m * 8);
  for (n_ p = 0; p < nnz; p++) y[row[p]] += val[p] * x[col[p]];
}
void spmm_coo(n_ nnz, const ix *row, const ix *col, const double *val, const double *x, double *y,
              n_ n, n_ m, n_ k_) {
  memset(y, 0, m * k_ * 8);
  for (n_ p = 0; p < nnz; p++)
    for (n_ k = 0; k < k_; k++) y[row[p] * k_ + k] += val[p] * x[col[p] * k_ + k];
}
void batax_coo(n_ nnz, const ix *row, const ix *col, const double *val, const double *x, double *y,
               n_ n, n_ m, double beta, double *t) {
  spmv_coo(nnz, row, col, val, x, t, n, m);
  memset(y, 0, n * 8);
  for (n_ p = 0; p < nnz; p++) y[col[p]] += beta * val[p] * t[row[p]];
}

/* blocks of 4 x 4 */
void spmv_bsr(n_ lines, const ix *pos, const ix *idx, const double *val, const double *x, double *y,
              n_ n, n_ m) {
  for (n_ b = 0; b < lines; b++) {
    double acc[4] = {0, 0, 0, 0};
    for (n_ p = pos[b]; p < pos[b + 1]; p++) {
      const double *v = val + p * 16, *from = x + idx[p] * 4;
      for (n_ i = 0; i < 4; i++)
        for (n_ j = 0; j < 4; j++) acc[i] += v[i * 4 + j] * from[j];
    }
    for (n_ i = 0; i < 4; i++) y[b * 4 + i] = acc[i];
  }
}
void spmm_bsr(n_ lines, const ix *pos, const ix *idx, const double *val, const double *x, double *y,
              n_ n, n_ m, n_ k_) {
  memset(y, 0, m * k_ * 8);
  for (n_ b = 0; b < lines; b++)
    for (n_ i = 0; i < 4; i++) {
      double *to = y + (b * 4 + i) * k_;
      for (n_ p = pos[b]; p < pos[b + 1]; p++)
        for (n_ j = 0; j < 4; j++) {
          double v = val[p * 16 + i * 4 + j];
          const double *from = x + (idx[p] * 4 + j) * k_;
          for (n_ k = 0; k < k_; k++) to[k] += v * from[k];
        }
    }
}
void batax_bsr(n_ lines, const ix *pos, const ix *idx, const double *val, const double *x,
               double *y, n_ n, n_ m, double beta) {
  memset(y, 0, n * 8);
  for (n_ b = 0; b < lines; b++) {
    double acc[4] = {0, 0, 0, 0};
    for (n_ p = pos[b]; p < pos[b + 1]; p++)
      for (n_ i = 0; i < 4; i++)
        for (n_ j = 0; j < 4; j++) acc[i] += val[p * 16 + i * 4 + j] * x[idx[p] * 4 + j];
    for (n_ p = pos[b]; p < pos[b + 1]; p++)
      for (n_ i = 0; i < 4; i++)
        for (n_ j = 0; j < 4; j++) y[idx[p] * 4 + j] += beta * acc[i] * val[p * 16 + i * 4 + j];
  }
}

/* diagonals */
void spmv_dia(n_ rows, n_ count, const ix *off, const double *val, const double *x, double *y,
              n_ n, n_ m) {
  memset(y, 0, m * 8);
  for (n_ d = 0; d < count; d++) {
    n_ o = off[d], first = o < 0 ? -o : 0, last = rows < n - o ? rows : n - o;
    for (n_ i = first; i < last; i++) y[i] += val[d * rows + i] * x[i + o];
  }
}
void spmm_dia(n_ rows, n_ count, const ix *off, const double *val, const double *x, double *y,
              n_ n, n_ m, n_ k_) {
  memset(y, 0, m * k_ * 8);
  for (n_ i = 0; i < rows; i++)
    for (n_ d = 0; d < count; d++) {
      n_ j = i + off[d];
      if (j < 0 || j >= n) continue;
      for (n_ k = 0; k < k_; k++) y[i * k_ + k] += val[d * rows + i] * x[j * k_ + k];
    }
}
void batax_dia(n_ rows, n_ count, const ix *off, const double *val, const double *x, double *y,
               n_ n, n_ m, double beta, double *t) {
  spmv_dia(rows, count, off, val, x, t, n, m);
  memset(y, 0, n * 8);
  for (n_ d = 0; d < count; d++) {
    n_ o = off[d], first = o < 0 ? -o : 0, last = rows < n - o ? rows : n - o;
    for (n_ i = first; i < last; i++) y[i + o] += beta * val[d * rows + i] * t[i];
  }
}

/* MTTKRP, y(i, r) = sum x(i, k, l) b(k, r) c(l, r) */
void mttkrp_csf(n_ roots, const ix *i0, const ix *pos1, const ix *k1, const ix *pos2, const ix *l2,
                const double *val, const double *b, const double *c, double *y, n_ m, n_ r_) {
  memset(y, 0, m * r_ * 8);
  double t[64];
  for (n_ p = 0; p < roots; p++)
    for (n_ q = pos1[p]; q < pos1[p + 1]; q++) {
      memset(t, 0, r_ * 8);
      for (n_ s = pos2[q]; s < pos2[q + 1]; s++)
        for (n_ r = 0; r < r_; r++) t[r] += val[s] * c[l2[s] * r_ + r];
      for (n_ r = 0; r < r_; r++) y[i0[p] * r_ + r] += t[r] * b[k1[q] * r_ + r];
    }
}
void mttkrp_slices(n_ rows, const ix *pos1, const ix *k1, const ix *pos2, const ix *l2,
                   const double *val, const double *b, const double *c, double *y, n_ m, n_ r_) {
  memset(y, 0, m * r_ * 8);
  double t[64];
  for (n_ i = 0; i < rows; i++)
    for (n_ q = pos1[i]; q < pos1[i + 1]; q++) {
      memset(t, 0, r_ * 8);
      for (n_ s = pos2[q]; s < pos2[q + 1]; s++)
        for (n_ r = 0; r < r_; r++) t[r] += val[s] * c[l2[s] * r_ + r];
      for (n_ r = 0; r < r_; r++) y[i * r_ + r] += t[r] * b[k1[q] * r_ + r];
    }
}
void mttkrp_fibres(n_ rows, n_ middle, const ix *pos, const ix *l, const double *val,
                   const double *b, const double *c, double *y, n_ m, n_ r_) {
  memset(y, 0, m * r_ * 8);
  double t[64];
  for (n_ i = 0; i < rows; i++)
    for (n_ k = 0; k < middle; k++) {
      n_ q = i * middle + k;
      if (pos[q] == pos[q + 1]) continue;
      memset(t, 0, r_ * 8);
      for (n_ s = pos[q]; s < pos[q + 1]; s++)
        for (n_ r = 0; r < r_; r++) t[r] += val[s] * c[l[s] * r_ + r];
      for (n_ r = 0; r < r_; r++) y[i * r_ + r] += t[r] * b[k * r_ + r];
    }
}
void mttkrp_coo(n_ nnz, const ix *i, const ix *k, const ix *l, const double *val, const double *b,
                const double *c, double *y, n_ m, n_ r_) {
  memset(y, 0, m * r_ * 8);
  for (n_ p = 0; p < nnz; p++)
    for (n_ r = 0; r < r_; r++)
      y[i[p] * r_ + r] += val[p] * b[k[p] * r_ + r] * c[l[p] * r_ + r];
}
void mttkrp_dense(n_ rows, n_ middle, n_ last, const double *val, const double *b, const double *c,
                  double *y, n_ m, n_ r_) {
  memset(y, 0, m * r_ * 8);
  double t[64];
  for (n_ i = 0; i < rows; i++)
    for (n_ k = 0; k < middle; k++) {
      memset(t, 0, r_ * 8);
      for (n_ l = 0; l < last; l++)
        for (n_ r = 0; r < r_; r++) t[r] += val[(i * middle + k) * last + l] * c[l * r_ + r];
      for (n_ r = 0; r < r_; r++) y[i * r_ + r] += t[r] * b[k * r_ + r];
    }
}
