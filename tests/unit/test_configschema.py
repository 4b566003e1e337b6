"""The JSON schema of configuration files: current, and wide enough for what is accepted."""

from pathlib import Path

import msgspec
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.schema import config_schema

FILE = Path(__file__).parents[2] / "configs" / "pinfold.schema.json"


def test_the_file_is_what_the_command_prints() -> None:
    run = CliRunner().invoke(main, ["config", "schema"])
    assert run.exit_code == 0
    assert run.output == FILE.read_text(), f"pinfold config schema > {FILE.name}"


def test_every_field_is_there_and_unknown_ones_are_not_allowed() -> None:
    section = config_schema()["$defs"]["Config"]
    assert list(section["properties"]) == [
        field.encode_name for field in msgspec.structs.fields(Config)
    ]
    assert section["additionalProperties"] is False


def test_null_restores_a_default_and_amounts_may_be_numbers() -> None:
    definitions = config_schema()["$defs"]
    for name, inner in definitions[Amounts.__name__]["properties"].items():
        kinds = [one["type"] for one in inner["anyOf"]]
        assert sorted(kinds) == ["null", "number", "string"], name
    assert {"type": "null"} in definitions["Config"]["properties"]["pinCPU"]["anyOf"]
    assert definitions["CpuClass"]["properties"]["name"] == {"type": "string"}
