"""The steps of a program, what a part of a step reads, and how tensors lie in blocks."""
