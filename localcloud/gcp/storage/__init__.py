"""Cloud Storage: objects, and the two APIs that reach them."""
