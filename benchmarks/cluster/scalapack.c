/* C = A B by PDGEMM on a grid of processes: scalapack M K N PROW PCOL BLOCK. Prints the seconds of
   making the operands and of the product. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

void Cblacs_get(int, int, int *);
void Cblacs_gridinit(int *, const char *, int, int);
void Cblacs_gridinfo(int, int *, int *, int *, int *);
int numroc_(const int *, const int *, const int *, const int *, const int *);
void descinit_(int *, const int *, const int *, const int *, const int *, const int *, const int *,
               const int *, const int *, int *);
void pdgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
             const double *, const int *, const int *, const int *, const double *, const int *,
             const int *, const int *, const double *, double *, const int *, const int *,
             const int *);

static int zero = 0, one = 1, context, rows, columns, row, column, block;

static double *made(int m, int n, int *descriptor, int filled) {
  int local_rows = numroc_(&m, &block, &row, &zero, &rows);
  int local_columns = numroc_(&n, &block, &column, &zero, &columns);
  int lead = local_rows > 1 ? local_rows : 1, info;
  descinit_(descriptor, &m, &n, &block, &block, &zero, &zero, &context, &lead, &info);
  size_t count = (size_t)lead * (local_columns > 0 ? local_columns : 1);
  double *data = malloc(count * sizeof(double));
  for (size_t i = 0; i < count; i++) data[i] = filled ? (double)(i % 10007) / 10007 : 0;
  return data;
}

int main(int argc, char **argv) {
  if (argc != 7) return 2;
  MPI_Init(&argc, &argv);
  int m = atoi(argv[1]), k = atoi(argv[2]), n = atoi(argv[3]), a_[9], b_[9], c_[9], rank;
  rows = atoi(argv[4]), columns = atoi(argv[5]), block = atoi(argv[6]);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Cblacs_get(0, 0, &context);
  Cblacs_gridinit(&context, "R", rows, columns);
  Cblacs_gridinfo(context, &rows, &columns, &row, &column);
  MPI_Barrier(MPI_COMM_WORLD);
  double begun = MPI_Wtime(), alpha = 1, beta = 0;
  double *a = made(m, k, a_, 1), *b = made(k, n, b_, 1), *c = made(m, n, c_, 0);
  pdgemm_("N", "N", &m, &n, &k, &alpha, a, &one, &one, a_, b, &one, &one, b_, &beta, c, &one, &one,
          c_);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!rank) printf("%f\n", MPI_Wtime() - begun);
  MPI_Finalize();
  return 0;
}
