"""`python -m rgrad.doctor`: what `rgrad.doctor()` does, as a command."""

from __future__ import annotations

import sys

from rgrad._doctor import doctor, main

__all__ = ["doctor", "main"]

if __name__ == "__main__":
    sys.exit(main())
