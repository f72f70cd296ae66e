"""Explain a DRPN: user profiles, the weights of their stories, and whether those weights move the scores."""
