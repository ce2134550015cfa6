"""Studies of noise and of rules: for a checkout of the repository; a wheel has none of it."""
