"""Where Intel Speed Select is told of; `machine.SpeedSelect` holds what."""

from typing import Final

DEVICE: Final = "/dev/isst_interface"
"""What says it on the machine this runs on."""
SNAPSHOT_FILE: Final = "pinfold/speedselect.json"
"""What says it in a snapshot, where there is no device to ask."""
