"""One file for each paper that DRPN is compared with."""
