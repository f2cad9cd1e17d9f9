"""``python -m boundcheck``."""

from boundcheck.cli import main

main()
