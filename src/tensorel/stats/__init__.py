"""Statistics of stored tensors, and sizes of joins, unions and reductions that follow."""
