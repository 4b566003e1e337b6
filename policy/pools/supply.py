"""The supply of a machine: usable, reserved and isolated cpus, and usable memory."""

from msgspec import Struct

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..configuration.config import Amounts, Config
from ..cpus.picker import CpuPicker
from ..model.cpu_preference import CpuPriority
from ..model.request import CpuType, Isolation, Request
from ..text.errors import ConfigError
from ..text.quantity import AllCpusBut, CpuAmount, CpuQuantity, OnlyCpus, QuantityError
from .memory_supply import ALL_MEMORY, MemorySupply, read_memory_supply


class Supply(Struct, frozen=True, kw_only=True):
    """The usable cpus of a machine in three disjoint sets, and its usable memory."""

    isolated: CpuSet
    """Isolated by the kernel (isolcpus) and free to be granted exclusively."""
    reserved: CpuSet
    sharable: CpuSet
    memory: MemorySupply = ALL_MEMORY
    warnings: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings for an operator, with that of a supply of reserved cpus alone."""
        if self.usable:
            return self.warnings
        alone = (
            f"reservedResources.cpu: every cpu ({self.reserved}) is reserved, so all containers but"
            " those on reserved cpus are refused — reserve fewer"
        )
        return (*self.warnings, alone)

    @property
    def usable(self) -> CpuSet:
        """Every cpu for containers that are not of the system."""
        return self.isolated | self.sharable

    def eligible(self, request: Request) -> CpuSet:
        """Every cpu that a request may ever be granted, however many are taken at the moment."""
        if request.cpu_type is CpuType.RESERVED:
            return self.reserved
        if not self.isolated or not self.sharable:
            return self.usable
        wishes = request.wishes
        if not any([one.wants_isolated for one in wishes]):
            return self.sharable
        # Beside isolated cpus of its own a part of its time may be on those that it shares.
        is_firm = [
            one.isolation is Isolation.REQUIRED and not one.needs_shared_cpu for one in wishes
        ]
        return self.isolated if all(is_firm) else self.usable

    @property
    def allowed(self) -> CpuSet:
        """Every cpu that may be used."""
        return self.isolated | self.reserved | self.sharable


def read_supply(
    machine: Machine, config: Config, picker: CpuPicker, kept: CpuSet = NO_CPUS
) -> Supply:
    """The supply that `availableResources` and `reservedResources` come to on this machine.

    `kept`: cpus that were reserved before, and stay so where it is not said which are to be.
    Raises `ConfigError` where a value cannot be read or does not fit. Cpus that are not online are
    left out with a warning: a set written for another machine must not stop this one. Where only
    offline cpus are missing for what fitted while they were online, others stand in for them, with
    a warning: a refusal would leave containers on the offline ones.
    """
    warnings: list[str] = []
    allowed = _allowed(machine, config, warnings)
    isolated = machine.isolated & allowed
    reserved = _reserved(machine, config, allowed, isolated, picker, warnings, kept)
    memory = read_memory_supply(machine, config)
    return Supply(
        isolated=isolated - reserved,
        reserved=reserved,
        sharable=allowed - isolated - reserved,
        memory=memory,
        warnings=(*warnings, *memory.warnings),
    )


def _allowed(machine: Machine, config: Config, warnings: list[str]) -> CpuSet:
    where = "availableResources.cpu"
    text = config.available_resources.cpu
    match _parse(where, config.available_resources):
        case None:
            return machine.online
        case OnlyCpus(wanted):
            allowed = _online(where, text, wanted, machine, warnings)
            gone = wanted & machine.offline
        case AllCpusBut(unwanted):
            allowed = machine.online - unwanted
            gone = machine.offline - unwanted
        case CpuQuantity():
            raise ConfigError(
                f"{where}: {text!r} does not say which cpus"
                " — write 'cpuset:0-3' or 'exclude-cpuset:0'"
            )
    if not allowed and gone:
        warnings.append(
            f"{where}: no cpu of {text!r} is online (offline are {gone}):"
            f" cpus {machine.online} are available instead"
        )
        return machine.online
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
    kept: CpuSet,
) -> CpuSet:
    where = "reservedResources.cpu"
    text = config.reserved_resources.cpu
    # A machine of nothing but isolated cpus can spare one of those.
    ordinary = allowed - isolated or allowed
    gone = NO_CPUS
    match _parse(where, config.reserved_resources):
        case OnlyCpus(wanted):
            reserved = _online(where, text, wanted, machine, warnings)
            gone = wanted & machine.offline
            if outside := reserved - allowed:
                raise ConfigError(
                    f"{where}: cpus {outside} of {text!r} are not among the available cpus"
                    f" {allowed} — take them out here or add them to availableResources.cpu"
                )
        case AllCpusBut(unwanted):
            reserved = allowed - unwanted
            gone = machine.offline - unwanted
        case CpuQuantity(milli):
            wanted_count = -(-milli // 1000)
            count = _count(wanted_count, ordinary, isolated, machine)
            if count < wanted_count:
                warnings.append(
                    f"{where}: {text!r} reserves {wanted_count} cpus, and cpus {machine.offline}"
                    f" are offline: {count} of them"
                )
            reserved = _pick(where, text, count, ordinary, picker, kept)
        case None:
            reserved = _pick(where, "one cpu", 1, ordinary, picker, kept)
    if not reserved and gone:
        count = _count(len(gone), ordinary, isolated, machine)
        reserved = _pick(where, text, count, ordinary, picker, kept)
        warnings.append(
            f"{where}: no cpu of {text!r} is online (offline are {gone}):"
            f" cpus {reserved} are reserved instead"
        )
    if reserved == allowed and len(allowed) == 1:
        # The only cpu: kube-system and the others share it, as they would without us.
        warnings.append(f"{where}: {text or 'one cpu'!r} is the only cpu: nothing is reserved")
        return NO_CPUS
    if not reserved:
        raise ConfigError(f"{where}: {text!r} reserves no cpu — reserve some of {allowed}")
    if reserved & isolated and len(reserved) > 1:
        raise ConfigError(
            f"{where}: {text!r} reserves the isolated cpus {reserved & isolated} among others"
            " — reserve one isolated cpu alone or none"
        )
    return reserved


def _count(wanted: int, ordinary: CpuSet, isolated: CpuSet, machine: Machine) -> int:
    """How many cpus to reserve: fewer than wanted where only offline ones are missing for them."""
    if isolated and ordinary <= isolated:
        return 1 if machine.offline else wanted
    if len(ordinary) < wanted <= len(ordinary) + len(machine.offline):
        return max(len(ordinary) - 1, 1)
    return wanted


def _parse(where: str, amounts: Amounts) -> CpuAmount | None:
    try:
        return amounts.cpu_amount
    except QuantityError as error:
        raise ConfigError(f"{where}: {error}") from error


def _online(
    where: str, text: str | None, wanted: CpuSet, machine: Machine, warnings: list[str]
) -> CpuSet:
    if absent := wanted - machine.online:
        warnings.append(f"{where}: cpus {absent} of {text!r} are not online")
    return wanted & machine.online


def _pick(
    where: str,
    text: str | None,
    count: int,
    usable: CpuSet,
    picker: CpuPicker,
    kept: CpuSet,
) -> CpuSet:
    kept &= usable
    if len(kept) > count:
        usable, kept = kept, NO_CPUS
    # Who runs on them should not have to do so in another socket, too.
    picked = picker.extend(kept.mask, usable.mask, count - len(kept), CpuPriority.NORMAL)
    if picked is None:
        raise ConfigError(
            f"{where}: {text!r} reserves {count} cpus of {len(usable)} usable ones ({usable})"
            " — reserve fewer"
        )
    return kept | CpuSet(picked)
