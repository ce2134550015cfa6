"""`ridgeline isa`: what is asked, and how the answer is shown."""
