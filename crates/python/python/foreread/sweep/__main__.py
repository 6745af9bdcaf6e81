"""`python -m foreread.sweep`."""

import sys

from foreread.sweep._command import main

if __name__ == "__main__":
    sys.exit(main())
