"""How near pools are to hints, by the tables our users' policy has and by our own."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pinfold.policy.config import Config
from pinfold.policy.hint import Hint, HintOrigin
from pinfold.policy.hintplace import hint_cpus
from pinfold.policy.hintscore import cpu_score, id_score, scores
from pinfold.policy.hinttext import hint_of_texts
from pinfold.policy.pool import PoolTree, build_tree
from pinfold.policy.supply import read_supply
from pinfold.policy.yamlfield import Field, read_fields
from pinfold.topology.cpuset import CpuSet, NodeSet
from pinfold.topology.spec import machine_from_spec

GIVEN = Path(__file__).parents[3] / "shared" / "scenarios" / "given.yaml"
