"""What rules are made of; none of it is a rule."""
