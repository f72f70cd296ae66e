"""The contract of a click model, DRPN, its baselines and the catalogue."""
