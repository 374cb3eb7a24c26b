"""User-defined operations: schemas, implementations, autograd formulas, and checks of these."""
