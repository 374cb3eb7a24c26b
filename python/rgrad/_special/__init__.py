"""The functions of `rgrad.special` that are written in Python."""
