"""Campaigns for coding agents: a Model Context Protocol server over standard input and output."""
