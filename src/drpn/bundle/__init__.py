"""Bundles: trained models with everything they need to rank."""
