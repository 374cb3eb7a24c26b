"""Functions of `rgrad` itself that are written in Python."""
