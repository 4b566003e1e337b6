"""The JSON schema of configuration files: current, and wide enough for what is accepted."""

import re
from pathlib import Path

import msgspec
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.schema import config_schema

FILE = Path(__file__).parents[4] / "configs" / "pinfold.schema.json"


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


def test_values_of_enums_may_be_in_any_case_of_letters() -> None:
    definitions = config_schema()["$defs"]
    assert not [name for name, one in definitions.items() if "enum" in one]
    for name, good, bad in (
        ("CpuPriority", ("high", "HIGH", "None"), ("highest", "", "a high")),
        ("SchedulingPolicy", ("fifo", "FIFO", "Rr"), ("fif0", "fifo rr")),
        ("SchedulingFlag", ("reset-on-fork", "Reset-On-FORK"), ("reset_on_fork",)),
        ("MetricsExporter", ("otlp-http", "OTLP-HTTP"), ("otlp",)),
    ):
        listed, written = definitions[name]["anyOf"]
        assert good[0] in listed["enum"]
        pattern = re.compile(written["pattern"])
        assert all(map(pattern.search, good)), name
        assert not any(map(pattern.search, bad)), name
