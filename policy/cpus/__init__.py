"""Which cpus are taken inside a pool: whole free domains first."""
