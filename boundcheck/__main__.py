"""Run the command line with ``python -m boundcheck``."""

from boundcheck.cli import main

main()
