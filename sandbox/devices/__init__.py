"""The machine and its cards: which there are, what their tools say, who may use one, and what it can do at most."""
