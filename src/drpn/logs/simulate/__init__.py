"""A newsroom with a known truth: logs in MIND's format, and beside them what every user really thought."""

from drpn.logs.simulate.settings import Simulated, SimulationSettings
from drpn.logs.simulate.simulation import simulate

__all__ = ["Simulated", "SimulationSettings", "simulate"]
