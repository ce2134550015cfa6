"""Many problems, one table: what an agent, or a set of answers, makes of all of them on one budget."""
