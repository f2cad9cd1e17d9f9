"""``PYTHONPATH=benchmarks python -m adversary``."""

import sys

from adversary.run import main

if __name__ == "__main__":
    sys.exit(main())
