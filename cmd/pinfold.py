"""The command line: one group, each sub-command in a module of its own, imported when called."""

import importlib
from typing import Any, Final, NamedTuple

import click

from .commands.exit_status import StatusCommand, output_errors


class CommandRow(NamedTuple):
    """One sub-command: `module` (in `commands/`) holds a click command named `command`."""

    name: str
    module: str
    summary: str


COMMANDS: Final = (
    CommandRow("topology", "topology", "Show this machine, or another, as Pinfold sees it."),
    CommandRow("pools", "pools", "Show the pool tree and its supply."),
    CommandRow("simulate", "simulate", "Place pods or run scenarios without a cluster."),
    CommandRow("lint", "lint", "Check annotations and configuration."),
    CommandRow("rebalance", "rebalance", "Plan moves that place running containers better."),
    CommandRow("replay", "replay", "Make kept decisions again, to compare configurations."),
    CommandRow("config", "config_command", "Check, compare and show configurations."),
    CommandRow("capture", "capture", "Save this machine's topology for --sysfs-root."),
    CommandRow("status", "node.status", "Show pools, containers and health of the running daemon."),
    CommandRow("ps", "node.status", "The same as status."),
    CommandRow("top", "node.top", "Show what pools and containers use of what they were granted."),
    CommandRow("describe", "node.describe", "Explain the places of all containers of a pod."),
    CommandRow("explain", "node.explain", "Say why a container is where it is."),
    CommandRow("follow", "node.follow", "Show decisions as they are made."),
    CommandRow("audit", "node.audit", "Compare every pin with what the kernel has."),
    CommandRow("gather", "bundle.gather", "Save all that is needed to look into this node."),
    CommandRow("demo", "demo", "Run the daemon with example pods and explain the placements."),
)


class Program(StatusCommand, click.Group):
    """The group over `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return [row.name for row in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; its module is imported here and not before."""
        for row in COMMANDS:
            if row.name == cmd_name:
                command = importlib.import_module(f"pinfold.cmd.commands.{row.module}").command
                assert isinstance(command, click.Command)
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first argument. Raises `click.UsageError`, with the nearest name."""
        name, known = args[0], self.list_commands(ctx)
        if name in known or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        # Imported here: few commands are misspelt.
        from ..policy.text.suggestion import nearest

        if near := nearest(name, known):
            raise click.UsageError(f"No such command {name!r}. Did you mean {near!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, from the table: no sub-command is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(row.name, row.summary) for row in COMMANDS])

    def invoke(self, ctx: click.Context) -> Any:
        """The result of the sub-command."""
        with output_errors():
            return super().invoke(ctx)


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
