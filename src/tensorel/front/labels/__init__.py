"""Labels of axes: tables as tensors and back, alignment, places by label."""
