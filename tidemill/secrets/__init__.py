"""Personal secrets: what may be one, and where a person keeps them. Workers read them too."""
