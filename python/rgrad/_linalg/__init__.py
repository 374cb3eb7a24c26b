"""The functions of `rgrad.linalg` that are written in Python."""
