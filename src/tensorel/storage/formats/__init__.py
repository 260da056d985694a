"""The built-in formats, one file per family."""
