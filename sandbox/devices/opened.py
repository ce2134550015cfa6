"""The gate of a contract on this machine."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import DeviceLost
from ridgeline.sandbox.devices.cards import Cards
from ridgeline.sandbox.devices.gate import CardGate, Choice, Waiting
from ridgeline.sandbox.devices.kind import device_kind
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.devices.settings import gate_settings
from ridgeline.sandbox.devices.tools import installed, tools_of
from ridgeline.sandbox.devices.values import Vendor

RETRY_S = 600.0


@contextlib.contextmanager
def card_for(contract: Contract, *, wait_s: float, say: Callable[[str], None]) -> Iterator[Mapping[str, str]]:
    """An idle card for one block, for callers without a campaign; yields the environment that binds to it.

    On a processor its lease, and nothing to bind. Raises DeviceBusy and DeviceLost.
    """
    gate = gate_of(contract, retry_s=min(RETRY_S, wait_s), max_s=wait_s, say=say)
    if gate is None:
        with lease("cpu", wait_s=wait_s):
            yield {}
        return
    with gate.held() as bound:
        yield bound.environment


def gate_of(
    contract: Contract,
    *,
    retry_s: float,
    max_s: float,
    say: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
) -> CardGate | None:
    """None for a contract of this machine's processor. Times in seconds; raises BadSetting.

    `stopped`: whether its waits shall end, because somebody asked for it.
    """
    kind = device_kind(contract)
    if kind == "cpu":
        return None
    vendor: Vendor = kind
    if kind == "nvidia" and contract.target_gpu is None and not installed("nvidia") and installed("amd"):
        vendor = "amd"  # Triton without a named device runs on either
    return _gate(
        vendor,
        wanted=contract.target_gpu,
        waiting=Waiting(retry_s=retry_s, max_s=max_s, stopped=stopped),
        say=say,
    )


def any_gate(*, retry_s: float, max_s: float, say: Callable[[str], None]) -> CardGate:
    """The gate of this machine's cards, for commands without a contract. Times in seconds.

    Raises DeviceLost where no vendor's tool is installed, and BadSetting.
    """
    vendors: tuple[Vendor, ...] = ("nvidia", "amd")
    vendor = next((one for one in vendors if installed(one)), None)
    if vendor is None:
        raise DeviceLost("neither nvidia-smi nor amd-smi nor rocm-smi is on PATH, so no GPU can be known to be idle")
    return _gate(vendor, wanted=None, waiting=Waiting(retry_s=retry_s, max_s=max_s), say=say)


def _gate(vendor: Vendor, *, wanted: str | None, waiting: Waiting, say: Callable[[str], None]) -> CardGate:
    settings = gate_settings()
    return CardGate(
        Cards(tools_of(vendor), settings=settings),
        vendor=vendor,
        settings=settings,
        choice=Choice(wanted=wanted, environment=os.environ),
        waiting=waiting,
        say=say,
    )
