"""Programs of items: started, supervised, and ended with all that they started."""
