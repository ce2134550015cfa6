"""Recorded campaigns: reading one, playing it through the real graph, and making one of a campaign that ran here."""
