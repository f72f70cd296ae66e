"""`python -m drpn.cli`."""

from drpn.cli import main

main()
