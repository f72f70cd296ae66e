"""The version of drpn."""

VERSION = "0.1.0"
