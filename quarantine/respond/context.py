"""The facts about a run that every later question needs, recorded once at its creation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...loader.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What was trained, with what and where; pass `to_json()` to `Run.create(context=…)`.

    Attributes:
        parameters: number of weights.
        precision: such as "bf16" or "fp32".
        optimizer: its name.
        betas, eps: of the optimizer; (0, 0) and 0 where it has none.
        schedule: the learning rate's, in words, with its peak.
        deterministic: whether determinism flags were on.
        code: version or commit of the training code.
        parallel: layout, such as {"data": 64, "tensor": 8}.
        more: anything else worth keeping.
    """

    parameters: int
    precision: str
    optimizer: str
    betas: tuple[float, float] = (0.0, 0.0)
    eps: float = 0.0
    schedule: str
    deterministic: bool
    code: str
    parallel: Mapping[str, int] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.parameters < 1:
            raise UsageError(f"a model of {self.parameters} parameters is none")
        if not all(0 <= beta < 1 for beta in self.betas) or self.eps < 0:
            raise UsageError(f"betas {self.betas} or epsilon {self.eps} is out of range")
        for name in ("precision", "optimizer", "schedule", "code"):
            if not getattr(self, name).strip():
                raise UsageError(f"the run context lacks its {name}")

    def to_json(self) -> dict[str, Any]:
        """Return the context as a JSON object."""
        return {**asdict(self), "betas": list(self.betas)}
