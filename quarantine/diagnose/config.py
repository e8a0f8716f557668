"""How the monitor is scaled to a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """The monitor's scale; the defaults are for real pretraining runs.

    Attributes:
        warmup_steps: No spike or divergence is judged at or before this step of the log.
        window: Logged points in the rolling baseline.
        blip_z: A point this many standard deviations over the trend is at least recorded.
        persist: Consecutive points over which evidence is added up.
        false_page_rate: Pages per logged point that noise alone may cause.
        noise_floor: Least standard deviation of the loss, as a share of its level.
        gradient_floor: Least standard deviation of the log of the gradient norm.
        gradient_jump: Ratio to its trend at which a gradient norm can confirm a single point.
        divergence_steps: Steps without recovery that turn a spike into a divergence.
        divergence_rise: Share by which the smoothed loss must exceed its best to diverge slowly.
        divergence_points: Least logged points that a divergence must last.
        finite_points: Finite points in a row that end a nonfinite event.
        rule: "robust", or "classic" for the dual-average rule and nothing else.
    """

    warmup_steps: int = 500
    window: int = 128
    blip_z: float = 5.0
    persist: int = 4
    false_page_rate: float = 4e-5
    noise_floor: float = 0.004
    gradient_floor: float = 0.02
    gradient_jump: float = 10.0
    divergence_steps: int = 200
    divergence_rise: float = 0.02
    divergence_points: int = 32
    finite_points: int = 50
    rule: Literal["robust", "classic"] = "robust"

    def __post_init__(self) -> None:
        self._check_counts()
        self._check_rates()
        if self.rule not in ("robust", "classic"):
            raise ValueError(f"rule is {self.rule!r}; use 'robust' or 'classic'")

    def _check_counts(self) -> None:
        for name in ("divergence_steps", "divergence_points", "finite_points"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps is {self.warmup_steps}; it must not be negative")
        if self.window < 16:
            raise ValueError(f"window is {self.window} points; a baseline needs at least 16")
        if not 3 <= self.persist <= 8:
            raise ValueError(f"persist is {self.persist}; it must be 3 to 8 points")

    def _check_rates(self) -> None:
        if not 0 < self.false_page_rate < 0.01:
            raise ValueError(
                f"false_page_rate is {self.false_page_rate}; it must be above 0 and below 0.01"
            )
        for name in ("blip_z", "noise_floor", "gradient_floor", "divergence_rise"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if not self.gradient_jump > 1:
            raise ValueError(f"gradient_jump is {self.gradient_jump}; it must be above 1")

    @property
    def settle_points(self) -> int:
        """Points after a change of context at whose end the new level is accepted."""
        return max(16, self.window // 4)

    @property
    def least_points(self) -> int:
        """Points that the baseline needs before it judges."""
        return max(16, self.window // 2)

    def changed(self, **fields: Any) -> MonitorConfig:
        """Return a copy with `fields` replaced."""
        return replace(self, **fields)

    @classmethod
    def for_short_run(cls, steps: int) -> MonitorConfig:
        """Return a scale for a demonstration of `steps` logged steps, a few hundred."""
        if steps < 64:
            raise ValueError(f"a run of {steps} steps is too short to be monitored; use 64 or more")
        window = min(128, max(32, steps // 8))
        return cls(
            warmup_steps=min(500, max(24, steps // 4)),
            window=window,
            false_page_rate=1e-6,
            noise_floor=0.008,
            divergence_steps=min(200, max(24, steps // 5)),
            divergence_rise=0.05,
            divergence_points=16,
            finite_points=8,
        )
