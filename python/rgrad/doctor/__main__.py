"""`python -m rgrad.doctor`."""

import sys

from rgrad.doctor import main

if __name__ == "__main__":
    sys.exit(main())
