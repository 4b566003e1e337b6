"""Support bundles: one archive with all that is needed to look into a node from elsewhere."""
