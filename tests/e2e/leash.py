"""What ends a child with the process that started it, however that one ends."""

from typing import Final

LEASH: Final = ("setpriv", "--pdeathsig", "KILL")
"""Put before a command. Source: prctl(2), PR_SET_PDEATHSIG; setpriv is in util-linux."""
