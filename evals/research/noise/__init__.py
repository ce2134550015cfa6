"""How noisy timings of one kernel are: recordings of real cards, what made them, and how to read them."""
