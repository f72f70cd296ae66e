"""`python -m drpn`, also for torchrun: `torchrun --nproc-per-node 2 -m drpn train ...`."""

from drpn.cli import main

main()
