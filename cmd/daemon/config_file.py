"""The configuration this process runs with: files, drop-ins, environment and settings."""

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from os.path import samestat
from pathlib import Path
from typing import Final

from ...policy.configuration.config_text import (
    CheckedConfig,
    build_config,
    environment_document,
    environment_warnings,
    parse_config_document,
    setting_document,
)
from ...policy.text.errors import ConfigError
from ...policy.text.yaml_document import Document, faulty_document

# `make install` writes another SYSCONFDIR here.
CONFIG_FOLDER: Final = Path("/etc/pinfold")
DEFAULT_PATH: Final = CONFIG_FOLDER / "pinfold.yaml"
MAX_BYTES: Final = 64 << 20
"""Of a file that is read as text; what is longer was named by mistake."""
DEFAULT_DROP_INS: Final = CONFIG_FOLDER / "conf.d"


class ConfigFileError(ConfigError):
    """A configuration file cannot be read at all."""


class LoadedConfig(CheckedConfig, frozen=True, kw_only=True):
    """A usable configuration. `sources`: the files it came from, in the order they were applied."""

    sources: tuple[Path, ...] = ()


def load_config(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
    may_be_pipe: bool = False,
) -> LoadedConfig:
    """The configuration of a file, its drop-ins, the environment and settings, in this order.

    Without a path: the default file, if there is one, and the default folder of drop-ins. With
    one: that file and the drop-ins in the folder of its name and ".d". Raises `ConfigError`: one
    line for each fault of any of them, and `ConfigFileError` where a file cannot be read.
    """
    sources, warnings = find_sources(path)
    documents: list[Document] = []
    is_readable = True
    for source in sources:
        try:
            text = read_file(source, may_be_pipe=may_be_pipe, may_be_null=True)
            documents.append(parse_config_document(text, str(source)))
        except ConfigFileError as error:
            is_readable = False
            documents.append(faulty_document(str(source), str(error)))
    documents.append(environment_document(environment or {}))
    warnings.extend(environment_warnings(environment or {}))
    documents.extend(setting_document(setting) for setting in settings)
    try:
        checked = build_config(documents)
    except ConfigError as error:
        raise error if is_readable else ConfigFileError(str(error)) from error
    return LoadedConfig(
        config=checked.config,
        warnings=(*warnings, *checked.warnings),
        document=checked.document,
        sources=tuple(sources),
    )


def find_sources(path: Path | None) -> tuple[list[Path], list[str]]:
    """The files to read, in the order they apply, and warnings about files passed over."""
    if path is None:
        files = [DEFAULT_PATH] if _is_there(DEFAULT_PATH) else []
        folder = DEFAULT_DROP_INS
    else:
        files = [path]
        folder = Path(f"{path}.d")
    warnings: list[str] = []
    try:
        found = sorted(folder.iterdir(), key=lambda one: one.name) if _is_there(folder) else []
    except NotADirectoryError:
        found = []
    except OSError as error:
        raise ConfigFileError(f"{folder}: {error.strerror} — make it readable") from error
    for one in found:
        # Editors and mounted ConfigMaps leave hidden entries beside the real ones.
        if one.name.startswith("."):
            continue
        if one.suffix == ".yaml":
            files.append(one)
        elif one.suffix in (".yml", ".json"):
            warnings.append(f"{one}: passed over — rename it to {one.stem}.yaml")
    return files, warnings


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        # Not to be taken for absent: the defaults would hold without a word.
        raise ConfigFileError(f"{path}: {error.strerror} — make it readable") from error
    return True


def read_file(path: Path, *, may_be_pipe: bool = False, may_be_null: bool = False) -> str:
    """The text of a regular file of at most `MAX_BYTES`. Raises `ConfigFileError`.

    The null device, where it will do, is an empty file.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if may_be_pipe and stat.S_ISFIFO(found.st_mode):
                # Read to its end, as standard input; one that nobody writes to is at its end.
                os.set_blocking(file.fileno(), True)
            elif not (
                stat.S_ISREG(found.st_mode)
                or (may_be_null and samestat(found, os.stat(os.devnull)))
            ):
                raise ConfigFileError(f"{path}: not a regular file — name a readable file")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigFileError(f"{path}: {error.strerror} — name a readable file") from error
    return _text(content, str(path))


def read_input(name: str) -> str:
    """The text of a file, or of standard input for "-", as `read_file` has it.

    A pipe will do: a shell gives the output of a command as one, `pinfold lint <(helm template .)`.
    """
    if name != "-":
        return read_file(Path(name), may_be_pipe=True)
    try:
        # Absent where the process was started with it closed.
        content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigFileError(f"{input_name(name)}: {reason} — name a readable file") from error
    return _text(content, input_name(name))


def input_name(name: str) -> str:
    """The name of a file in messages: "-" is standard input."""
    return "standard input" if name == "-" else name


def _text(content: bytes, name: str) -> str:
    if len(content) > MAX_BYTES:
        raise ConfigFileError(f"{name}: more than {MAX_BYTES >> 20} MiB — split it")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigFileError(f"{name}: not UTF-8 at byte {error.start} — save it as UTF-8") from (
            error
        )


def _open_at_once(path: str, flags: int) -> int:
    """A file descriptor; a pipe that nobody writes to would otherwise never open."""
    return os.open(path, flags | os.O_NONBLOCK)
