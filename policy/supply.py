"""Which cpus may be used at all, which are reserved, which are isolated."""

from dataclasses import dataclass

from ..topology.cpuset import NO_CPUS, CpuSet, IdListError
from ..topology.machine import Machine
from .config import Config, CpuPriority
from .errors import ConfigError
from .picker import CpuPicker
from .quantity import QuantityError, parse_milli


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """The usable cpus of a machine in three disjoint sets."""

    isolated: CpuSet
    """Isolated by the kernel (isolcpus) and free to be granted exclusively."""
    reserved: CpuSet
    sharable: CpuSet
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> CpuSet:
        """Every cpu that may be used."""
        return self.isolated | self.reserved | self.sharable


def read_supply(machine: Machine, config: Config, picker: CpuPicker) -> Supply:
    """The cpus of `availableResources` and `reservedResources` on this machine.

    Raises `ConfigError` where a value cannot be read or does not fit. Cpus that are not online are
    left out with a warning: a set written for another machine must not stop this one.
    """
    warnings: list[str] = []
    allowed = _allowed(machine, config, warnings)
    isolated = machine.isolated & allowed
    reserved = _reserved(machine, config, allowed, isolated, picker, warnings)
    return Supply(
        isolated=isolated - reserved,
        reserved=reserved,
        sharable=allowed - isolated - reserved,
        warnings=tuple(warnings),
    )


def _allowed(machine: Machine, config: Config, warnings: list[str]) -> CpuSet:
    where = "availableResources.cpu"
    text = config.available_resources.cpu if config.available_resources else None
    if text is None:
        return machine.online
    kind, colon, value = text.partition(":")
    if kind == "cpuset" and colon:
        wanted = _cpus(where, text, value)
        if absent := wanted - machine.online:
            warnings.append(f"{where}: cpus {absent} of {text!r} are not online")
        allowed = wanted & machine.online
    elif kind == "exclude-cpuset" and colon:
        allowed = machine.online - _cpus(where, text, value)
    else:
        raise ConfigError(
            f"{where}: {text!r} does not say which cpus — write 'cpuset:0-3' or 'exclude-cpuset:0'"
        )
    if not allowed:
        raise ConfigError(
            f"{where}: {text!r} leaves no cpu — online are {machine.online}, name some of them"
        )
    return allowed


def _reserved(
    machine: Machine,
    config: Config,
    allowed: CpuSet,
    isolated: CpuSet,
    picker: CpuPicker,
    warnings: list[str],
) -> CpuSet:
    where = "reservedResources.cpu"
    text = config.reserved_resources.cpu or "1"
    kind, colon, value = text.partition(":")
    if kind == "cpuset" and colon:
        wanted = _cpus(where, text, value)
        if absent := wanted - machine.online:
            warnings.append(f"{where}: cpus {absent} of {text!r} are not online")
        reserved = wanted & machine.online
        if outside := reserved - allowed:
            raise ConfigError(
                f"{where}: cpus {outside} of {text!r} are not among the available cpus {allowed}"
                " — take them out here or add them to availableResources.cpu"
            )
    elif kind == "exclude-cpuset" and colon:
        reserved = allowed - _cpus(where, text, value)
    else:
        reserved = _pick_reserved(where, text, allowed - isolated, picker)
    if not reserved:
        raise ConfigError(f"{where}: {text!r} reserves no cpu — reserve at least one")
    if reserved & isolated and len(reserved) > 1:
        raise ConfigError(
            f"{where}: {text!r} reserves the isolated cpus {reserved & isolated} among others"
            " — reserve one isolated cpu alone or none"
        )
    return reserved


def _pick_reserved(where: str, text: str, usable: CpuSet, picker: CpuPicker) -> CpuSet:
    try:
        milli = parse_milli(text)
    except QuantityError as error:
        raise ConfigError(
            f"{where}: failed to parse {text!r}: {error}"
            " — write '750m', '2', 'cpuset:0-3' or 'exclude-cpuset:4-7'"
        ) from error
    count = -(-milli // 1000)
    if count == 0:
        return NO_CPUS
    picked = picker.pick(usable.mask, count, CpuPriority.NORMAL)
    if picked is None:
        raise ConfigError(
            f"{where}: {text!r} reserves {count} cpus of {len(usable)} usable ones ({usable})"
            " — reserve fewer"
        )
    return CpuSet(picked)


def _cpus(where: str, text: str, value: str) -> CpuSet:
    try:
        return CpuSet.parse(value)
    except IdListError as error:
        raise ConfigError(f"{where}: failed to parse {text!r}: {error}") from error
