"""Fixtures shared by the tests of explanations and of pictures."""

from explained_newsroom import build, newsroom, run_path, tables

__all__ = ["build", "newsroom", "run_path", "tables"]
