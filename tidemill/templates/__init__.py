"""Templates: submits that are kept, the notes of what was sent of them, and the times that they are due."""
