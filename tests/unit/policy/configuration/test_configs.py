import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import parse_config_document, read_config
from pinfold.policy.configuration.idle_fields import IDLE_FIELDS
from pinfold.policy.configuration.section import Section

CONFIGS = Path(__file__).parents[4] / "configs"
DEFAULT = CONFIGS / "pinfold.yaml"
EXAMPLE = re.compile(r"((?:^#     .*\n)+)", re.MULTILINE)


def sections(section: type[Section]) -> Iterator[type[Section]]:
    """The section and all those inside it."""
    yield section
    for field in msgspec.structs.fields(section):
        for inner in (field.type, *get_args(field.type)):
            if isinstance(inner, type) and issubclass(inner, Section):
                yield from sections(inner)


@functools.cache
def fields_in_use() -> set[str]:
    """The attributes that code outside the configuration's own modules reads off a `config`."""
    return {
        node.attr
        for room in ("policy", "nri", "cmd")
        for path in (CONFIGS.parent / room).rglob("*.py")
        if path.parent.name != "configuration"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name | ast.Attribute)
        and ast.unparse(node.value).endswith("config")
    }


def examples() -> list[str]:
    found = EXAMPLE.findall(DEFAULT.read_text())
    return [re.sub(r"^#     ", "", block, flags=re.MULTILINE) for block in found]


def test_the_default_file_changes_nothing() -> None:
    checked = read_config(DEFAULT.read_text(), "pinfold.yaml")
    assert checked.config == Config()
    assert checked.warnings == ()


def test_the_default_file_sets_every_field() -> None:
    values = parse_config_document(DEFAULT.read_text(), "pinfold.yaml").values
    assert set(values) == {field.encode_name for field in msgspec.structs.fields(Config)}


@pytest.mark.parametrize("section", list(sections(Config)), ids=lambda section: section.__name__)
def test_the_default_file_names_every_field_of(section: type[Section]) -> None:
    text = DEFAULT.read_text()
    for field in msgspec.structs.fields(section):
        assert re.search(rf"\b{field.encode_name}\b", text), f"{field.encode_name} is not explained"


@pytest.mark.parametrize(
    "field", msgspec.structs.fields(Config), ids=lambda field: field.encode_name
)
def test_a_field_has_an_effect_or_says_that_it_has_none(field: msgspec.structs.FieldInfo) -> None:
    is_idle = field.name not in fields_in_use()
    says_so = (field.encode_name,) in IDLE_FIELDS
    assert says_so == is_idle, (
        f"policy/configuration/idle_fields.py: IDLE_FIELDS and {field.encode_name!r}"
    )
    text = DEFAULT.read_text()
    explained_so = f"# No effect in this version.\n{field.encode_name}:" in text
    assert explained_so == is_idle, f"configs/pinfold.yaml: the comment of {field.encode_name!r}"


@pytest.mark.parametrize("example", examples(), ids=lambda text: text.split(":")[0])
def test_examples_in_its_comments_are_good(example: str) -> None:
    assert read_config(example, "example").config != Config()


@pytest.mark.parametrize(
    ("file", "version"), [("containerd/nri-1.7.toml", 2), ("containerd/nri-2.toml", 3)]
)
def test_containerd_is_told_to_listen(file: str, version: int) -> None:
    settings = tomllib.loads((CONFIGS / file).read_text())
    assert settings["version"] == version
    nri = settings["plugins"]["io.containerd.nri.v1.nri"]
    assert nri["disable"] is False
    assert nri["disable_connections"] is False
    assert nri["socket_path"] == "/var/run/nri/nri.sock"


def test_crio_is_told_to_listen() -> None:
    nri = tomllib.loads((CONFIGS / "crio" / "20-nri.conf").read_text())["crio"]["nri"]
    assert nri["enable_nri"] is True
    assert nri["nri_disable_connections"] is False
