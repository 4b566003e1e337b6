"""Where metrics are served, and which fields about them have an effect."""

import pytest

from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.configuration.endpoint import Endpoint, parse_endpoint
from pinfold.policy.text.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "endpoint", "shown"),
    [
        pytest.param(":8891", Endpoint("", 8891), ":8891", id="all addresses"),
        pytest.param("127.0.0.1:0", Endpoint("127.0.0.1", 0), "127.0.0.1:0", id="one address"),
        pytest.param("http://10.0.0.1:80/", Endpoint("10.0.0.1", 80), "10.0.0.1:80", id="as URL"),
        pytest.param(
            "localhost:80", Endpoint("localhost", 80), "localhost:80", id="the machine's own name"
        ),
        pytest.param("[::1]:8891", Endpoint("::1", 8891), "[::1]:8891", id="an IPv6 address"),
    ],
)
def test_endpoints_are_read(text: str, endpoint: Endpoint, shown: str) -> None:
    assert parse_endpoint(text) == endpoint
    assert str(endpoint) == shown
    assert parse_endpoint(shown) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "8891",
        "127.0.0.1",
        "::1:8891",
        ":65536",
        ":٣",
        "https://node:443",
        "http://node:80/metrics",
        "unix:///run/x",
        " :80",
        "a..b:80",
        f"{'a' * 64}:80",
        "node:80\n",
    ],
)
def test_what_is_no_endpoint_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address to listen at — write ':8891' or"):
        parse_endpoint(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        pytest.param("http://x:1", "x", id="a name"),
        pytest.param("node-1.example.com:80", "node-1.example.com", id="a name with a domain"),
        pytest.param("localhost.example.com:80", "localhost.example.com", id="another's localhost"),
        pytest.param("127.1:80", "127.1", id="an address in short"),
        pytest.param("10.0.0.256:80", "10.0.0.256", id="numbers that are too large"),
        pytest.param("[::1::2]:80", "::1::2", id="two gaps"),
    ],
)
def test_what_only_a_name_server_may_know_is_refused(text: str, host: str) -> None:
    with pytest.raises(ConfigError, match=f"{host!r} — write an address of the machine instead"):
        parse_endpoint(text)


def test_a_bad_endpoint_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(
        ConfigError, match=r"c.yaml:1:19: instrumentation.httpEndpoint: 'here' is no"
    ):
        read_config("instrumentation: {httpEndpoint: here}", "c.yaml")


def test_a_bad_pattern_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"metrics.enabled.*'\[' is no pattern"):
        read_config("instrumentation: {metrics: {enabled: ['[']}}", "c.yaml")


HERE = "httpEndpoint: ':8891'"


@pytest.mark.parametrize(
    ("section", "warnings"),
    [
        pytest.param(f"{HERE}, prometheusExport: true", [], id="metrics are served"),
        pytest.param(f"{HERE}, metricsExporter: prometheus", [], id="by the other field, too"),
        pytest.param(HERE, [], id="health alone"),
        pytest.param(
            "prometheusExport: true",
            ["prometheusExport: accepted, but has no effect — set instrumentation.httpEndpoint"],
            id="nowhere to serve them",
        ),
        pytest.param(
            f"{HERE}, metricsExporter: otlp-grpc",
            ["metricsExporter: accepted, but has no effect — metrics are served, never sent"],
            id="nobody to send them to",
        ),
        pytest.param(
            f"{HERE}, logExporter: y",
            ["logExporter: accepted, but has no effect — logs go to"],
            id="logs",
        ),
        pytest.param(
            "samplingRatePerMillion: 5, tracingCollector: 'otlp-grpc://host:4317'",
            [],
            id="traces are sent",
        ),
        pytest.param(
            "samplingRatePerMillion: 5, tracingCollector: otlp-http",
            ["tracingCollector: accepted, but has no effect — traces are sent by gRPC alone"],
            id="traces by HTTP",
        ),
        pytest.param(
            "tracingCollector: otlp-grpc",
            ["tracingCollector: accepted, but has no effect — set samplingRatePerMillion"],
            id="no trace of a million",
        ),
        pytest.param(
            "samplingRatePerMillion: 5",
            ["samplingRatePerMillion: accepted, but has no effect — name a tracingCollector"],
            id="traces for nobody",
        ),
        pytest.param(
            f"{HERE}, reportPeriod: 5s, metrics: {{polled: [policy]}}",
            [
                "metrics.polled: accepted, but has no effect — metrics are computed when",
                "reportPeriod: accepted, but has no effect — metrics are served, never sent",
            ],
            id="periods",
        ),
    ],
)
def test_what_has_no_effect_is_said(section: str, warnings: list[str]) -> None:
    found = read_config(f"instrumentation: {{{section}}}", "c.yaml").warnings
    assert len(found) == len(warnings)
    for said, expected in zip(found, warnings, strict=True):
        assert f"instrumentation.{expected}" in said
