"""The history of decisions: kept over restarts in a file of bounded size, the newest read first."""
