"""The project's errors, split by who must act on them."""


class PinfoldError(Exception):
    """Something a person has to put right; the text reads `where: what — how to fix`."""


class TopologyError(PinfoldError):
    """This machine, or a description of one, cannot be read."""
