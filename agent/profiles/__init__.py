"""`ridgeline profile`: recordings read, merged, classified and shown; and the profilers that make them, run."""
