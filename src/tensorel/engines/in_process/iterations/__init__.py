"""Systems of equations, eigenvalues and singular values of sparse matrices, which stay sparse.

    matrix        a sparse matrix, as what it makes of vectors
    equations     solutions: SciPy's factors, conjugate gradients, minimal residuals
    eigenvalues   a few of the largest or smallest ones

Iterations read the matrix by programs of the calculus, which run as all others do. What they find
is checked against its own equation before it is given out.
"""
