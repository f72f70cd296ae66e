"""Explain rankings: the weights behind them, as plain data, and how far removing stories moves the scores."""
