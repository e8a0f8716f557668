"""Probes of a torch model, sampled every k steps: what the monitor takes as extra signals.

    probes = Probes(model, optimizer, every=10)
    with probes.step(step):
        logits = model(tokens)
        probes.logits(logits)
        loss.backward()
        probes.gradients()
        optimizer.step()
    monitor.update(step, loss=loss, **probes.values())

On a step that is not sampled nothing is measured, nothing is copied and no device is waited
for. On a sampled one all figures are brought to the host in one transfer, in `values`.
What cannot be measured (a ragged batch, sparse gradients) is said in `unavailable`: no probe stops
a training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from .attention import intercept, largest_logit

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

TINY = 1e-12
ATTENTION, WHOLE = "attention_logit/", "attention_logit/model"
# Rows whose mean second moment is below this share of the median are rarely seen.
RARE = 0.01
# The names under which DDP and torch.compile hold the model that they wrap.
WRAPPERS = ("module", "_orig_mod")


class Probes:
    """Measures one model; `layers` are its parts by name (children of its module lists if None)."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        *,
        every: int = 10,
        layers: Mapping[str, nn.Module] | None = None,
    ) -> None:
        if every < 1:
            raise ValueError(f"every is {every}; it must be at least 1")
        self.every = every
        self.unavailable: dict[str, str] = {}
        self._model, self._optimizer = model, optimizer
        self._layers = dict(layers) if layers is not None else find_layers(model)
        self._found: dict[str, Tensor] = {}
        self._sampling = False
        self._inside: list[str] = []
        # One for all steps: a compiled model would be compiled anew for each other one.
        self._intercepted = intercept(self._attended, self._failed("attention_logit"))
        for name, layer in self._layers.items():
            layer.register_forward_pre_hook(self._enter(name))
            layer.register_forward_hook(self._leave(name))

    @property
    def sampling(self) -> bool:
        """Whether the step under way is measured."""
        return self._sampling

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Measure what happens inside, if `step` is one of the sampled."""
        self._found, self._inside = {}, []
        self._sampling = step % self.every == 0
        if not self._sampling:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(self._intercepted)
            before = self._guarded("update_ratio", self._weights)
            try:
                yield
                if before is not None:
                    self._guarded("update_ratio", self._updates, before)
            finally:
                self._sampling = False
        if "attention_logit" not in self.unavailable and not any(
            name.startswith("attention_logit") for name in self._found
        ):
            self.unavailable["attention_logit"] = (
                "no attention call passed through Python; use probes.attention(name, q, k, ...)"
            )

    def logits(self, logits: Tensor) -> None:
        """Measure the mean log-sum-exp of the output logits [..., vocabulary]."""
        if self._sampling:
            self._guarded("output_lse", self._output, logits)

    def _output(self, logits: Tensor) -> None:
        self._found["output_lse"] = logits.detach().float().logsumexp(-1).mean()

    def attention(
        self,
        name: str,
        query: Tensor,
        key: Tensor,
        *,
        scale: float | None = None,
        mask: Tensor | None = None,
        causal: bool = True,
    ) -> None:
        """Measure the attention of layer `name`, for kernels that cannot be intercepted.

        Arguments as in `attention.largest_logit`.
        """
        if self._sampling:
            top = largest_logit(query, key, scale=scale, mask=mask, causal=causal)
            self._keep(f"attention_logit/{name}", top)

    def gradients(self) -> None:
        """Measure the gradient norm of each layer; call it after backward, before clipping."""
        if self._sampling:
            self._guarded("grad_norm", self._gradients)

    def _gradients(self) -> None:
        for name, layer in self._layers.items():
            norms = [
                _whole(each.grad.detach().float().norm())
                for each in layer.parameters()
                if each.grad is not None
            ]
            if norms:
                self._found[f"grad_norm/{name}"] = _root_of_squares(norms)
        bad = [
            _whole(each.grad.detach().isfinite().logical_not().sum())
            for each in self._model.parameters()
            if each.grad is not None
        ]
        if bad:
            self._found["nonfinite"] = sum(bad[1:], bad[0]).float()

    def values(self) -> dict[str, float]:
        """Return what the last step measured, empty if it was not sampled."""
        names = list(self._found)
        if not names:
            return {}
        tensors = [self._found[name].float().reshape(1) for name in names]
        row = tensors[0].new_empty(len(tensors))
        for index, tensor in enumerate(tensors):
            row[index : index + 1] = tensor
        self._found = {}
        return _without_copy(dict(zip(names, row.tolist(), strict=True)))

    def _enter(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            if self._sampling:
                self._inside.append(name)

        return hook

    def _leave(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if not self._sampling:
                return
            if self._inside and self._inside[-1] == name:
                self._inside.pop()
            self._guarded(f"activation/{name}", self._passed, name, args, output)

        return hook

    def _passed(self, name: str, args: Any, output: Any) -> None:
        tensor = output[0] if isinstance(output, tuple) else output
        if not hasattr(tensor, "detach"):
            return
        self._keep(f"activation/{name}", _root_mean_square(tensor))
        given: Any = args[0] if args else None
        if getattr(given, "shape", None) == tensor.shape and given.dtype.is_floating_point:
            # What the layer adds to the residual stream that runs through it.
            self._keep(f"residual/{name}", _root_mean_square(tensor.detach() - given.detach()))

    def _guarded(self, what: str, measure: Callable[..., Any], *args: Any) -> Any:
        """Return what `measure` returns; None, and why in `unavailable`, where it fails."""
        try:
            return measure(*args)
        except Exception as error:  # whatever torch raises, the training goes on
            self._failed(what)(error)
            return None

    def _failed(self, what: str) -> Callable[[Exception], None]:
        def note(error: Exception) -> None:
            self.unavailable[what] = f"it cannot be measured here: {error}"

        return note

    def _attended(self, top: Tensor) -> None:
        self._keep(f"attention_logit/{self._inside[-1] if self._inside else 'model'}", top)

    def _keep(self, name: str, value: Tensor) -> None:
        """Keep the larger of several figures of one name (micro-batches, several calls)."""
        known = self._found.get(name)
        self._found[name] = value if known is None else known.maximum(value)

    def _weights(self) -> dict[str, list[Tensor]]:
        return {
            name: [each.detach().clone() for each in layer.parameters()]
            for name, layer in self._layers.items()
        }

    def _updates(self, before: dict[str, list[Tensor]]) -> None:
        """Measure update-to-weight ratios, and those of embedding rows that are rarely seen."""
        for name, layer in self._layers.items():
            old = before[name]
            moved = [
                _whole((new.detach() - past).float().norm())
                for new, past in zip(layer.parameters(), old, strict=True)
            ]
            if moved:
                size = _root_of_squares([_whole(past.float().norm()) for past in old])
                self._found[f"update_ratio/{name}"] = _root_of_squares(moved) / (size + TINY)
            self._rare_rows(layer, old)

    def _rare_rows(self, layer: nn.Module, old: list[Tensor]) -> None:
        if not _is(layer, "Embedding") or self._optimizer is None:
            return
        weight = next(layer.parameters())
        moments = self._optimizer.state.get(weight, {}).get("exp_avg_sq")
        if moments is None or not old:
            return
        rows = moments.detach().float().mean(-1)
        rare = rows <= RARE * rows.median() + TINY**2
        change = (weight.detach() - old[0]).float().norm(dim=-1)
        ratio = change / (old[0].float().norm(dim=-1) + TINY)
        worst = _whole(ratio.masked_fill(rare.logical_not(), 0.0).amax())
        self._keep("rare_update_ratio", worst)


def find_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the members of the model's module lists, its embeddings and its output by name."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        parent = name.rpartition(".")[0]
        inside = any(parent == each or parent.startswith(f"{each}.") for each in found)
        if inside or not name:
            continue
        listed = bool(parent) and _is(model.get_submodule(parent), "ModuleList")
        at_top = all(part in WRAPPERS for part in parent.split(".") if part)
        if listed or _is(module, "Embedding") or (_is(module, "Linear") and at_top):
            found[name] = module
    return found


def _is(module: nn.Module, kind: str) -> bool:
    """Whether `module` is of torch's class `kind`, or of one that FSDP made of it."""
    return any(each.__name__ == kind for each in type(module).__mro__)


def _without_copy(values: dict[str, float]) -> dict[str, float]:
    """Leave out the logit of the whole model where it is that of a layer, seen once more.

    A compiler that runs its graph in Python passes the attention of each layer by a second time.
    """
    layers = [each for name, each in values.items() if name.startswith(ATTENTION) and name != WHOLE]
    if layers and values.get(WHOLE) == max(layers):
        del values[WHOLE]
    return values


def _root_mean_square(tensor: Tensor) -> Tensor:
    return _whole(tensor.detach().float().square().mean().sqrt())


def _root_of_squares(norms: list[Tensor]) -> Tensor:
    total = norms[0].square()
    for norm in norms[1:]:
        total = total + norm.square()
    return total.sqrt()


def _whole(value: Tensor) -> Tensor:
    """Return a sharded figure as a whole one; all ranks measure on the same steps."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value
