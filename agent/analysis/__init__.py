"""What `ridgeline profile`, `isa` and `roofline` work out of one kernel, as values, tables, pages and pictures."""
