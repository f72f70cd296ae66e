"""A simulated newsroom: logs in MIND's format, and a file with the users' true opinions."""

from drpn.logs.simulate.presets import PRESETS, Preset
from drpn.logs.simulate.settings import Simulated, SimulationSettings
from drpn.logs.simulate.simulation import simulate

__all__ = ["PRESETS", "Preset", "Simulated", "SimulationSettings", "simulate"]
