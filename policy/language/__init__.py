"""What pods write: annotations, expressions, affinity rules, preferences, and their faults."""
