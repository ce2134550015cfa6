"""Profiles: profilers run here, recordings of profilers read, and machine code without a card."""
