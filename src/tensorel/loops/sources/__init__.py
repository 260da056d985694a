"""What users write to statements: the source of Python functions, and text."""
