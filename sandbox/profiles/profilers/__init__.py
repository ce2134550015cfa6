"""Counters of one version, from the best instrument that works here."""
