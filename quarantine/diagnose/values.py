"""The values a monitor is given: numbers, or scalars that still lie on a device.

Reading a scalar from a device waits for everything the device was asked to do before. So its copy
to the host is only begun, and the step is judged when the next one comes: by then the copy is
there, or is waited for no longer than that earlier step takes. All ranks judge a step at the same
moment that way, whatever their devices are at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, SupportsFloat, cast


class Item(Protocol):
    """A scalar tensor or array, as far as the monitor cares."""

    def item(self) -> float:
        """Return the value."""


Value = float | SupportsFloat | Item


@dataclass(slots=True)
class Observation:
    """One step's values on the host, and the planned change that was announced for it."""

    step: int
    announced: str | None
    values: dict[str, float]


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """A step whose device scalars are on their way."""

    step: int
    announced: str | None
    values: dict[str, Any]
    arrivals: list[Any] = field(default_factory=list)

    def settled(self) -> Observation:
        """Return the values, once the copies are done."""
        for arrival in self.arrivals:
            arrival.synchronize()
        values = {name: number(value) for name, value in self.values.items()}
        return Observation(self.step, self.announced, values)


class Inbox:
    """Takes the values of each step, and gives out what can be judged."""

    def __init__(self) -> None:
        self._waiting: _Waiting | None = None

    def take(self, step: int, values: dict[str, Value], announced: str | None) -> list[Observation]:
        """Return the observations that are complete: an earlier step's, and this one's if all
        of its values lie on the host. `values` is given away."""
        ready = self.flush() if self._waiting is not None else []
        for value in values.values():
            if type(value) is not float:
                break
        else:
            floats = cast("dict[str, float]", values)
            return [*ready, Observation(step, announced, floats)]
        if not any(map(_on_device, values.values())):
            numbers = {name: number(value) for name, value in values.items()}
            return [*ready, Observation(step, announced, numbers)]
        waiting = _Waiting(step=step, announced=announced, values=dict(values))
        kinds = set()
        for name, value in values.items():
            if _on_device(value):
                copied: Any = value
                kinds.add(copied.device.type)
                waiting.values[name] = copied.detach().to("cpu", non_blocking=True)
        waiting.arrivals = [event for kind in sorted(kinds) if (event := _arrival(kind))]
        self._waiting = waiting
        return ready

    def flush(self) -> list[Observation]:
        """Return the observation that waits, now."""
        waiting, self._waiting = self._waiting, None
        return [] if waiting is None else [waiting.settled()]


def number(value: Value) -> float:
    """Return `value` as a float; a tensor is read with `.item()`, which waits for its device."""
    if isinstance(value, float):
        return value
    return float(value) if isinstance(value, SupportsFloat) else float(value.item())


def _on_device(value: object) -> bool:
    if isinstance(value, float):
        return False
    return getattr(getattr(value, "device", None), "type", "cpu") != "cpu"


def _arrival(kind: str) -> Any:
    """Return an event on the current stream of the devices of `kind`, such as "cuda".

    None for devices that torch has no events of, such as XLA's: there reading the copy waits.
    """
    make = getattr(getattr(import_module("torch"), kind, None), "Event", None)
    if make is None:
        return None
    event = make()
    event.record()
    return event
