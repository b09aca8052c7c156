"""Measurements side by side with delta-rs on one machine: `make bench`."""
