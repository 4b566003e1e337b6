"""Dialects of runtimes before the newest: how their versions differ."""

from dataclasses import replace
from typing import Final

from pinfold.nri.embedded.runtime_dialects import NEWEST, Dialect

CONTAINERD_1_7: Final = Dialect(
    version="v1.7.24", has_own_calls=False, splits_synchronize=False, tells_timeouts=False
)
CONTAINERD_2_1: Final = Dialect(
    version="v2.1.9", has_own_calls=False, splits_synchronize=True, tells_timeouts=True
)
CONTAINERD_2_3: Final = replace(NEWEST, version="v2.3.4", nri_version="v0.12.0")

# A CRI-O since 1.34 knows updates of pods, and does not tell of its NRI.
CRIO_1_36: Final = replace(
    NEWEST, name="cri-o", version="1.36.3", has_own_calls=False, nri_version=""
)
CRIO_1_34: Final = replace(CRIO_1_36, version="1.34.0", tells_pids=False)
CRIO_1_35: Final = replace(CRIO_1_34, version="1.35.0")
CRIO_1_37: Final = replace(NEWEST, name="cri-o", version="1.37.0", nri_version="v0.12.0")

DIALECTS: Final = (
    CONTAINERD_1_7,
    CONTAINERD_2_1,
    CONTAINERD_2_3,
    NEWEST,
    CRIO_1_34,
    CRIO_1_35,
    CRIO_1_36,
    CRIO_1_37,
)
