"""Which memory nodes a container gets: zones, offers, and who holds what."""
