"""`pinfold gather`: a support bundle of this node."""

import http.client
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import click
import msgspec

from ....policy.configuration.config import Config
from ....policy.configuration.config_text import config_from_values, format_config
from ....policy.configuration.endpoint import Endpoint, parse_endpoint
from ....topology.drawing.fingerprint import machine_fingerprint, machine_summary
from ....topology.made.snapshot import capture
from ....topology.model.machine import Machine
from ....topology.sets.base_errors import PinfoldError
from ....topology.sysfs.sysfs_tree import open_tree
from ...control.control_client import ControlClient, ControlError
from ...control.documents import REFUSAL, StatusDocument
from ...control.history.history_file import HISTORY_NAME, OLDER_NAME, read_history
from ...report.path_type import FolderType, PathType
from ...report.version import VERSION
from ...state.own_file import ForeignFileError, read_bounded_file
from ..options import control_option
from ..output_file import write_whole
from ..saved_node import DEFAULT_STATE
from .support_bundle import EXPLANATIONS, STATE, pack_bundle

_REFUSED_MAX: Final = 32
_EXPLAIN_SECONDS: Final = 20.0
"""How long explanations are asked for; on a full node each takes a while."""
_HTTP_SECONDS: Final = 5.0
_LIBRARIES: Final = ("grpcio", "protobuf", "msgspec", "click", "psutil", "prometheus-client")


@click.command()
@click.argument(
    "file",
    type=PathType(path_type=Path, dir_okay=False, remedy="name a file in a folder you can write"),
)
@control_option
@click.option(
    "--state-dir",
    type=FolderType(remedy="name that of pinfoldd"),
    default=DEFAULT_STATE,
    show_default=True,
    metavar="DIR",
    help="The daemon's state directory, for its decisions.",
)
@click.option(
    "--sysfs-root",
    metavar="DIR|ARCHIVE",
    default="/",
    help="The machine below DIR instead of this one.",
)
def command(file: Path, control: Path | None, state_dir: Path, sysfs_root: str) -> None:
    """Write FILE (.tar.xz, .tar.gz or .tar) with all that is needed to look into this node.

    Topology, configuration, containers, decisions, metrics and versions: no environment, no host
    name, no addresses, and of annotations only those for Pinfold. Pods and labels have their
    names. What cannot be had is left out and said.
    """
    machine, snapshot = capture(open_tree(sysfs_root))
    texts: dict[str, str] = {}
    missing: list[str] = []
    for name, text in _texts(ControlClient(control), state_dir, machine, missing):
        texts[name] = text
    texts["missing.txt"] = "".join(f"{one}\n" for one in missing)
    content = pack_bundle(snapshot, texts, file.name)
    write_whole(file, content)
    for one in missing:
        click.echo(f"left out: {one}", err=True)
    click.echo(
        f"{file}: {len(machine.online)} cpus, {len(texts)} files of the daemon,"
        f" {len(content)} bytes"
    )


def _texts(
    client: ControlClient, state_dir: Path, machine: Machine, missing: list[str]
) -> Iterator[tuple[str, str]]:
    """Files by name with their texts; what cannot be had is noted."""
    status: StatusDocument | None = None
    config: Config | None = None
    try:
        status = client.status()
        yield "status.json", _json(status)
        yield "audit.json", _json(client.audit(repair=False))
        state = client.state()
        yield STATE, msgspec.json.encode(state).decode()
        config = config_from_values(state.config, "the daemon's configuration")
        yield "config.yaml", format_config(config)
        # One that was made of a line is made of it again.
        if not state.machine.spec and state.machine.fingerprint != machine_fingerprint(machine):
            missing.append(
                f"the daemon's machine ({state.machine.summary}): this one has"
                f" {machine_summary(machine)} — name that one with --sysfs-root"
            )
        paths = [one.container for one in status.containers]
        paths += _refused(state_dir, paths)
        yield EXPLANATIONS, _explanations(client, paths, missing)
    except ControlError as error:
        missing.append(f"the daemon's answers: {error}")
    yield from _history(state_dir, missing)
    if config is not None:
        try:
            yield "metrics.txt", _metrics(config)
        except (OSError, http.client.HTTPException, PinfoldError) as error:
            missing.append(f"metrics: {error}")
    yield "versions.json", json.dumps(_versions(status), indent=2, sort_keys=True)


def _history(state_dir: Path, missing: list[str]) -> Iterator[tuple[str, str]]:
    """The files of kept decisions, of which there are one or two where the daemon keeps any."""
    are_there = False
    for name in (HISTORY_NAME, OLDER_NAME):
        try:
            text = read_bounded_file(state_dir / name).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except (OSError, ForeignFileError) as error:
            missing.append(f"decisions: {error}")
        else:
            yield name, text
        are_there = True
    if not are_there:
        where = f"no {HISTORY_NAME} in {state_dir}"
        missing.append(f"decisions: {where} — name the daemon's folder with --state-dir")


def _refused(state_dir: Path, running: Sequence[str]) -> Iterator[str]:
    """The containers that were refused last and do not run, as far as that is kept."""
    try:
        kept = read_history(state_dir)
    except (OSError, PinfoldError):
        return
    last = {one.path: one for one in kept if one.decision is not None}
    newest = sorted(last.values(), key=lambda one: one.at, reverse=True)
    refused = (one for one in newest if one.decision and one.decision.result == REFUSAL)
    yield from islice((one.path for one in refused if one.path not in running), _REFUSED_MAX)


def _explanations(client: ControlClient, paths: Sequence[str], missing: list[str]) -> str:
    end = time.monotonic() + _EXPLAIN_SECONDS
    found: dict[str, object] = {}
    for path in paths:
        if time.monotonic() > end:
            missing.append(f"{len(paths) - len(found)} explanations: they would take too long")
            break
        try:
            found[path] = msgspec.to_builtins(client.explain(path))
        except ControlError as error:
            # It may have ended meanwhile.
            missing.append(f"the explanation of {path}: {error}")
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)


def _metrics(config: Config) -> str:
    """The page of metrics that the daemon serves. Raises `OSError` and what cannot be parsed."""
    found: Endpoint | None = None
    if config.instrumentation.http_endpoint:
        found = parse_endpoint(config.instrumentation.http_endpoint)
    if found is None or not found.port:
        raise BundleMetricsError("not served — see 'Metrics and health' in the guide")
    host = found.host if found.host not in ("", "0.0.0.0", "::") else "localhost"
    connection = http.client.HTTPConnection(host, found.port, timeout=_HTTP_SECONDS)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode("utf-8", "replace")
    finally:
        connection.close()


class BundleMetricsError(PinfoldError):
    """No metrics are served."""


def _versions(status: StatusDocument | None) -> Mapping[str, object]:
    kernel = os.uname()
    return {
        "pinfold": VERSION,
        "python": platform.python_version(),
        "kernel": {"release": kernel.release, "machine": kernel.machine},
        "runtime": None if status is None else msgspec.to_builtins(status.runtime),
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def _json(document: object) -> str:
    return json.dumps(msgspec.to_builtins(document), indent=1, sort_keys=True, ensure_ascii=False)
