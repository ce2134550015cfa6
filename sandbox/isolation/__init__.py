"""Processes: started without the user's secrets, held apart, given up when they hang, and ended whole."""
