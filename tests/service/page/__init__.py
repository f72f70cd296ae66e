"""Tests of the page for editors."""
