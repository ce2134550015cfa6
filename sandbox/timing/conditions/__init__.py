"""What the machine did while something was timed: read, recorded, and judged without a look at any time."""
