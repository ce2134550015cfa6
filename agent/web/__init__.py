"""Campaigns, their evidence and the approval queue in a browser."""
