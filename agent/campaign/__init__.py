"""A campaign from start to end: its folder, who plays which port, what people decide, what is shown of it."""
