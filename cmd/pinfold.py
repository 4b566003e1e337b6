"""The command line: one group, each sub-command in a module of its own, imported when called."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click

from ..topology.errors import PinfoldError

BAD_USAGE: Final = 2
_INTERRUPTED: Final = 130


class Row(NamedTuple):
    """One sub-command: `module` (beside this one) holds a click command named `command`."""

    name: str
    module: str
    summary: str


COMMANDS: Final = (
    Row("topology", "topology", "Show this machine, or another, as Pinfold sees it."),
    Row("pools", "pools", "Show the pool tree and its supply."),
    Row("simulate", "simulate", "Place pods or run scenarios without a cluster."),
    Row("lint", "lint", "Check annotations and configuration."),
    Row("config", "configcommand", "Show the configuration in force."),
    Row("capture", "capture", "Save this machine's topology for --sysfs-root."),
    Row("demo", "demo", "Run the daemon with example pods and explain the placements."),
)


class Program(click.Group):
    """The group over `COMMANDS`. Exit status: what the command returns (0 or 1), 2 for errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return [row.name for row in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; its module is imported here and not before."""
        for row in COMMANDS:
            if row.name == cmd_name:
                command = importlib.import_module(f"pinfold.cmd.{row.module}").command
                assert isinstance(command, click.Command)
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, from the table: no sub-command is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(row.name, row.summary) for row in COMMANDS])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and leave the process with its status."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except PinfoldError as error:
            click.echo(str(error), err=True)
            status = BAD_USAGE
        except click.ClickException as error:
            click.echo(_usage_text(error), err=True)
            status = BAD_USAGE
        except BrokenPipeError:
            # The reader (head, less) has seen enough.
            _give_up_output()
            status = 0
        except OSError as error:
            # Files that were named say so themselves; what has no name is our own output.
            if error.filename is not None:
                raise
            _give_up_output()
            reason = (error.strerror or str(error)).lower()
            click.echo(f"standard output: {reason} — write to another place", err=True)
            status = BAD_USAGE
        except (click.Abort, KeyboardInterrupt):
            status = _INTERRUPTED
        sys.exit(status if type(status) is int else 0)


def _give_up_output() -> None:
    """Send what is still to be written nowhere: closing stdout must not fail a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_text(error: click.ClickException) -> str:
    """A usage error as `where: what — how to fix`."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    if not isinstance(context, click.Context):
        return f"pinfold: {message}"
    return f"{context.command_path}: {message} — see '{context.command_path} --help'"


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(package_name="pinfold", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Place containers on the right cpus and memory nodes, and say why."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


if __name__ == "__main__":
    main(prog_name="pinfold")
