"""Completion of the two programs' command lines in bash, zsh and fish, as click writes it."""

from collections.abc import Mapping
from typing import Final

from click.shell_completion import ShellComplete, get_completion_class

from pinfold.cmd.pinfold import main
from pinfold.cmd.pinfoldd import command as daemon

_PLACES: Final = {
    "bash": "bash-completion/completions/{program}",
    "zsh": "zsh/site-functions/_{program}",
    "fish": "fish/vendor_completions.d/{program}.fish",
}


def completions() -> Mapping[str, str]:
    """The script of each shell and program, by its path below `share`."""
    found: dict[str, str] = {}
    for program, command in (("pinfold", main), ("pinfoldd", daemon)):
        for shell, place in _PLACES.items():
            kind = get_completion_class(shell)
            assert kind is not None
            complete = kind(command, {}, program, f"_{program.upper()}_COMPLETE")
            # That of bash asks the bash of this machine for its version first.
            found[place.format(program=program)] = ShellComplete.source(complete).strip() + "\n"
    return found
