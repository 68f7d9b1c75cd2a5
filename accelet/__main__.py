"""`python -m accelet`."""

from accelet.cli import main

main(prog_name="accelet")
