"""What the operator writes: the configuration as values, its text, checks and amounts."""
