"""Tables as they lie in memory: named columns of NumPy vectors, and labels of axes."""
