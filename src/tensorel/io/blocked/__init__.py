"""Tensors in many files: Zarr arrays and folders of parts. Each block is read by who needs it and
written by who has it, so that no process ever holds all of them."""
