"""Classes of load that containers name, checked against those of the configuration."""

from ....topology.sets.base_errors import quoted
from ...annotations.preferences import Preferences
from ...configuration.config import Config
from ...model.container import Container
from ...text.errors import Problem
from ...text.suggestion import suggestion


def load_problems(
    container: Container, preferences: Preferences, config: Config
) -> tuple[Problem, ...]:
    """The problem of a class of load that the configuration does not have."""
    chosen, names = preferences.load, [one.name for one in config.load_classes]
    if chosen is None or chosen.value in names:
        return ()
    return (
        Problem(
            where=f"{chosen.key} of {container.path}",
            what=f"the node's configuration has no load class {quoted(chosen.value)}",
            fix=suggestion(chosen.value, names) if names else "configure loadClasses",
            is_advice=True,
        ),
    )
