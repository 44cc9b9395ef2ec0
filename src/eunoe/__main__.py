"""`python -m eunoe` is the eunoe command."""

from eunoe.cli import main

main()
