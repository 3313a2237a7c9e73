"""`python -m projbank` is `projbank`."""

from projbank.cli import main

main()
