"""Probes of a torch model: what they measure is what a slow and plain calculation gives."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helpers_probes
import pytest
import torch
from helpers_probes import Block, Model, trained
from torch import Tensor, nn
from torch.nn import functional

from shardward.quarantine.diagnose.attention import largest_logit
from shardward.quarantine.diagnose.probes import Probes, find_layers
from shardward.quarantine.diagnose.replicas import differing_ranks, odd_ones, parameter_checksum


def plain(q: Tensor, k: Tensor) -> float:
    """Return the largest causal logit over all queries, the slow way."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    seen = torch.ones(logits.shape[-2:], dtype=torch.bool).tril()
    return float(logits.masked_fill(~seen, -math.inf).max())


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def probes(model: Model) -> Probes:
    return Probes(model, torch.optim.AdamW(model.parameters(), lr=1e-2), every=2)


def test_the_layers_are_the_members_of_module_lists_and_the_ends(model: Model) -> None:
    assert list(find_layers(model)) == ["embed", "blocks.0", "blocks.1", "head"]


def test_attention_logits_are_those_after_norm_and_rotation(model: Model, probes: Probes) -> None:
    values = trained(model, probes, 2)

    for index, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        assert block.seen is not None
        true = plain(*block.seen)
        assert values[f"attention_logit/blocks.{index}"] == pytest.approx(true, rel=1e-5)
        assert true <= 1 / math.sqrt(8) + 1e-6


def test_a_hook_on_the_projections_would_have_lied(model: Model, probes: Probes) -> None:
    """Under QK-norm what the projections give has nothing to do with the logits."""
    given: list[Tensor] = []
    block: Any = model.blocks[0]
    block.qkv.register_forward_hook(lambda module, args, output: given.append(output.detach()))
    values = trained(model, probes, 2)
    heads = given[0].reshape(2, 16, 8, 8).transpose(1, 2)

    assert plain(heads[:, :4], heads[:, 4:6]) > 100 * values["attention_logit/blocks.0"]


def test_a_step_that_is_not_sampled_measures_nothing(model: Model, probes: Probes) -> None:
    assert trained(model, probes, 1) == {}


def test_gradient_norms_are_those_of_the_layers(model: Model, probes: Probes) -> None:
    values = trained(model, probes, 2)

    for name, layer in find_layers(model).items():
        grads = [each.grad for each in layer.parameters() if each.grad is not None]
        true = math.sqrt(sum(float(grad.square().sum()) for grad in grads))
        assert values[f"grad_norm/{name}"] == pytest.approx(true, rel=1e-5)
    assert values["nonfinite"] == 0


def test_update_ratios_are_those_of_the_step(model: Model, probes: Probes) -> None:
    before = model.head.weight.detach().clone()
    values = trained(model, probes, 2)

    true = float((model.head.weight.detach() - before).norm() / before.norm())
    assert values["update_ratio/head"] == pytest.approx(true, rel=1e-4)


def test_activations_and_what_a_layer_adds_to_the_residual_stream(
    model: Model, probes: Probes
) -> None:
    seen: dict[str, Tensor] = {}
    model.blocks[1].register_forward_hook(
        lambda module, args, output: seen.update(given=args[0].detach(), out=output.detach())
    )
    values = trained(model, probes, 2)

    added = seen["out"] - seen["given"]
    assert values["activation/blocks.1"] == pytest.approx(float(seen["out"].square().mean().sqrt()))
    assert values["residual/blocks.1"] == pytest.approx(float(added.square().mean().sqrt()))
    assert "residual/embed" not in values


def test_rows_with_tiny_second_moments_that_leap_are_seen(model: Model, probes: Probes) -> None:
    for step in range(1, 6):
        trained(model, probes, step)
    calm = trained(model, probes, 6)["rare_update_ratio"]
    assert probes._optimizer is not None
    state = probes._optimizer.state[model.embed.weight]
    state["exp_avg_sq"][60:] = 1e-20
    state["exp_avg"][60:] = 1e-3

    assert trained(model, probes, 8)["rare_update_ratio"] > 100 * max(calm, 1e-6)


def test_values_that_are_not_finite_are_counted(model: Model, probes: Probes) -> None:
    with torch.no_grad():
        model.blocks[1].out.weight[0, 0] = math.nan  # type: ignore[union-attr, operator]

    assert trained(model, probes, 2)["nonfinite"] > 0


def test_the_log_sum_exp_of_the_output_is_its_mean(model: Model, probes: Probes) -> None:
    tokens = torch.arange(16).reshape(1, 16)
    with probes.step(2):
        logits = model(tokens)
        probes.logits(logits)

    true = float(torch.logsumexp(logits.detach(), -1).mean())
    assert probes.values()["output_lse"] == pytest.approx(true, rel=1e-5)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_mask_hides_the_logits_it_hides(kind: str) -> None:
    q, k = torch.randn(2, 4, 9, 8), torch.randn(2, 4, 9, 8)
    k[:, :, 3] *= 100
    seen = torch.ones(9, 9, dtype=torch.bool)
    seen[:, 3] = False
    mask = seen if kind == "bool" else torch.zeros(9, 9).masked_fill(~seen, -math.inf)

    true = (q @ k.transpose(-1, -2) / math.sqrt(8)).masked_fill(~seen, -math.inf).max()
    assert float(largest_logit(q, k, mask=mask)) == pytest.approx(float(true), rel=1e-5)


def test_sampled_queries_give_a_lower_bound() -> None:
    q, k = torch.randn(1, 2, 300, 8), torch.randn(1, 2, 300, 8)

    assert float(largest_logit(q, k, causal=True)) <= plain(q, k) + 1e-6
    assert float(largest_logit(q, k, causal=True, queries=300)) == pytest.approx(plain(q, k))


def test_a_model_with_a_kernel_of_its_own_says_that_attention_is_unavailable() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(64, 8)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embed(tokens)
            mixed: Tensor = (x @ x.transpose(-1, -2)).softmax(-1) @ x
            return mixed @ self.embed.weight.T

    model = Own()
    probes = Probes(model, torch.optim.SGD(model.parameters(), lr=0.1), every=1)
    trained(model, probes, 1)

    assert "probes.attention" in probes.unavailable["attention_logit"]


def test_attention_can_be_reported_by_the_model(probes: Probes) -> None:
    q, k = torch.randn(1, 4, 8, 8), torch.randn(1, 2, 8, 8)
    with probes.step(2):
        probes.attention("blocks.7", q, k)

    assert probes.values()["attention_logit/blocks.7"] == pytest.approx(plain(q, k), rel=1e-5)


def test_a_compiled_model_is_probed_alike_and_compiled_once(model: Model) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    probes = Probes(model, torch.optim.AdamW(model.parameters(), lr=1e-3), every=1)
    compiled: Any = torch.compile(model, backend=backend)
    values = [trained(compiled, probes, step) for step in (1, 2, 3)]
    plain_model = Model()
    plain_probes = Probes(
        plain_model, torch.optim.AdamW(plain_model.parameters(), lr=1e-3), every=1
    )
    true = trained(plain_model, plain_probes, 1)

    assert len(graphs) == 1
    # The graph runs in Python here, so that each attention passes by twice.
    assert values[0].keys() == true.keys()
    for name in ("attention_logit/blocks.0", "grad_norm/head", "activation/blocks.1"):
        assert values[0][name] == pytest.approx(true[name], rel=1e-4)
        assert name in values[2]


def test_one_flipped_bit_changes_the_checksum(model: Model) -> None:
    before = parameter_checksum(model)
    with torch.no_grad():
        model.head.weight.view(torch.int32)[3, 5] ^= 1

    assert parameter_checksum(model) != before


def test_swapped_parameters_change_the_checksum() -> None:
    pair = nn.ParameterList([nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))])
    swapped = nn.ParameterList([pair[1], pair[0]])

    assert parameter_checksum(pair) != parameter_checksum(swapped)


def test_a_single_process_has_no_other_ranks(model: Model) -> None:
    assert differing_ranks(parameter_checksum(model)) == []


def test_ranks_measure_alike_under_ddp_and_fsdp_and_a_flipped_bit_is_found(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["2", str(port), str(tmp_path)]
    ranks = [
        subprocess.Popen(
            [sys.executable, helpers_probes.__file__, str(number), *words],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for number in range(2)
    ]
    assert [each.wait(timeout=120) for each in ranks] == [0, 0]

    wide, same, flipped, split = torch.load(tmp_path / "0")
    assert (same, flipped) == ([], [0, 1])
    for name, value in wide.items():
        if name.startswith(("grad_norm", "update_ratio", "attention_logit")):
            assert split[name] == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("checksums", "odd"), [([7, 7, 9], [2]), ([7, 7, 7], []), ([7, 9], [0, 1]), ([5], [])]
)
def test_the_majority_of_ranks_is_right(checksums: list[int], odd: list[int]) -> None:
    assert odd_ones(checksums) == odd


def test_an_exception_in_a_step_ends_the_sampling(model: Model, probes: Probes) -> None:
    with pytest.raises(RuntimeError, match="out of memory"), probes.step(2):
        raise RuntimeError("out of memory")

    assert not probes.sampling
    trained(model, probes, 3)
    assert probes.values() == {}


class Odd(nn.Module):
    def __init__(self, attend: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8)])
        self.attend = attend

    def forward(self, x: torch.Tensor) -> object:
        return self.attend(self.blocks[0](x))


def attended(q: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, q, q)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "attend",
    [lambda x: attended(x[0, 0]), lambda x: attended(x[:0]), lambda x: attended(ragged(x))],
    ids=["two dimensions", "an empty batch", "ragged"],
)
def test_attention_that_cannot_be_measured_stops_no_training(
    attend: Callable[[torch.Tensor], object],
) -> None:
    model = Odd(attend)
    probes = Probes(model, every=1)
    with probes.step(1):
        model(torch.randn(2, 4, 6, 8))

    assert "attention_logit" in probes.unavailable
    assert "activation/blocks.0" in probes.values()


def ragged(x: torch.Tensor) -> torch.Tensor:
    values, ends = x.transpose(1, 2).flatten(0, 1), torch.tensor([0, 4, 12])
    whole: torch.Tensor = torch.nested.nested_tensor_from_jagged(values, ends)
    return whole.transpose(1, 2)


def test_sparse_gradients_stop_no_training() -> None:
    model = nn.Sequential(nn.Embedding(9, 8, sparse=True))
    probes = Probes(model, torch.optim.SparseAdam(model.parameters()), every=1)
    with probes.step(1):
        model(torch.tensor([1, 2])).sum().backward()
        probes.gradients()

    assert "grad_norm" in probes.unavailable


@pytest.mark.parametrize("wrapper", ["module", "_orig_mod"])
def test_the_output_layer_is_found_in_a_wrapper(wrapper: str, model: Model) -> None:
    whole = nn.Module()
    whole.add_module(wrapper, model)

    assert set(find_layers(whole)) == {f"{wrapper}.{name}" for name in find_layers(model)}


def test_an_embedding_that_was_given_a_class_of_its_own_is_found() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(9, 8)})
    model["embed"].__class__ = type("FSDPEmbedding", (nn.Embedding,), {})

    assert set(find_layers(model)) == {"embed"}
