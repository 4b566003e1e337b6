"""Manual pages of the two programs, made from their click commands, so that they cannot differ.

Ours rather than a library: click-man has neither exit statuses nor files, and dates its pages, so
that every build would be another version. Source of the format: man-pages(7), man(7).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from pinfold.cmd.daemon.config_file import DEFAULT_DROP_INS, DEFAULT_PATH
from pinfold.cmd.pinfold import COMMANDS, main
from pinfold.cmd.pinfoldd import command as daemon

_STATUSES: Final = (
    ("0", "All is well."),
    ("1", "The answer is no: an expectation does not hold, something is wrong or differs."),
    ("2", "Bad usage, or input that cannot be read."),
)
_DAEMON_STATUSES: Final = (
    ("0", "It was told to end."),
    ("1", "A fault of its own."),
    ("2", "It cannot work: bad usage, a configuration with faults, no runtime to connect to."),
)
_SETTINGS: Final = (
    (str(DEFAULT_PATH), "The configuration; without it, built-in defaults."),
    (f"{DEFAULT_DROP_INS}/*.yaml", "Drop-ins, in the order of their names."),
)
_STATE: Final = (
    ("/run/pinfold/control.sock", "The socket at which the daemon is asked."),
    ("/var/lib/pinfold", "What the daemon remembers over restarts."),
)
_ENVIRONMENT: Final = (
    ("PINFOLD_FIELD", "One field of the configuration, as in PINFOLD_PIN_CPU=false."),
)


def manual_pages(version: str) -> Mapping[str, str]:
    """The text of each page by its file name: pinfold.1, pinfold-status.1, pinfoldd.8."""
    pages = {
        "pinfold.1": _program_page(version),
        "pinfoldd.8": _daemon_page(version),
    }
    program = _context(main, "pinfold")
    for row in COMMANDS:
        command = main.get_command(program, row.name)
        assert command is not None
        parts = [*_command_parts(_context(command, row.name, program))]
        name = f"pinfold-{row.name}"
        pages[f"{name}.1"] = _page(name, row.summary, version, parts, "1")
    return pages


def _program_page(version: str) -> str:
    listed = [(f"pinfold-{row.name}(1)", row.summary) for row in COMMANDS]
    parts = [
        *_command_parts(_context(main, "pinfold")),
        _section("COMMANDS", *_terms(listed)),
        _section("FILES", *_terms([*_SETTINGS, *_STATE])),
    ]
    summary = (main.help or "").splitlines()[0]
    return _page("pinfold", summary, version, parts, "1", also=("pinfoldd(8)",))


def _daemon_page(version: str) -> str:
    parts = [
        *_command_parts(_context(daemon, "pinfoldd"), _DAEMON_STATUSES),
        _section("ENVIRONMENT", *_terms(_ENVIRONMENT)),
        _section("FILES", *_terms([*_SETTINGS, *_STATE])),
        _section(
            "SIGNALS",
            *_terms(
                [
                    ("SIGHUP", "Read the configuration again."),
                    ("SIGUSR1", "Log in detail; a second one: as before."),
                    ("SIGTERM", "End; containers keep their CPUs and memory."),
                ]
            ),
        ),
    ]
    return _page("pinfoldd", (daemon.help or "").splitlines()[0], version, parts, "8")


def _page(
    name: str,
    summary: str,
    version: str,
    parts: list[str],
    section: str,
    also: tuple[str, ...] = ("pinfold(1)", "pinfoldd(8)"),
) -> str:
    """A page; without a date, so that the same sources give the same page."""
    own = f"{name}({section})"
    return "\n".join(
        [
            f'.TH "{_text(name.upper())}" "{section}" "" "Pinfold {_text(version)}" "Pinfold"',
            _section("NAME", f"{_text(name)} \\- {_text(summary.rstrip('.'))}"),
            *parts,
            _section("SEE ALSO", _text(", ".join(one for one in also if one != own))),
            "",
        ]
    )


def _context(
    command: click.Command, name: str, above: click.Context | None = None
) -> click.Context:
    return click.Context(command, info_name=name, parent=above, **command.context_settings)


def _command_parts(
    context: click.Context, statuses: tuple[tuple[str, str], ...] = _STATUSES
) -> Iterator[str]:
    command = context.command
    yield _section("SYNOPSIS", _synopsis(context))
    yield _section("DESCRIPTION", *_paragraphs(command.help or ""))
    yield _section("OPTIONS", *_options(context))
    if isinstance(command, click.Group) and command is not main:
        yield _section("COMMANDS")
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            below = _context(inner, name, context)
            yield f'.SS "{_text(name)}"'
            yield "\n.PP\n".join([_synopsis(below), "\n".join(_paragraphs(inner.help or ""))])
            yield from _options(below)
    yield _section("EXIT STATUS", *_terms(statuses))


def _synopsis(context: click.Context) -> str:
    pieces = context.command.collect_usage_pieces(context)
    return f"\\fB{_text(context.command_path)}\\fR {_text(' '.join(pieces))}"


def _options(context: click.Context) -> Iterator[str]:
    options = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
    records = [one.get_help_record(context) for one in options]
    yield from _terms([record for record in records if record is not None])


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _terms(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield f".TP\n\\fB{_text(term)}\\fR\n{_text(' '.join(text.split()))}"


def _section(title: str, *lines: str) -> str:
    return "\n".join([f'.SH "{_text(title)}"', *lines])


def _text(text: str) -> str:
    """Text as it is meant: nothing in it is a request or an escape, and hyphens can be copied."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
