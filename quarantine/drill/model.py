"""A decoder-only byte-level transformer, small enough for two cores."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from .scale import Scale

INITIAL_SPREAD = 0.02


class Block(nn.Module):
    """Pre-norm causal self-attention and a feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_forward = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next residual stream, float[n, length, width], from the one given."""
        n, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(n, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        result: Tensor = x + self.down(
            functional.gelu(self.up(self.norm_forward(x)), approximate="tanh")
        )
        return result


class Transformer(nn.Module):
    """Token and position embeddings, blocks, and an output tied to the token embedding."""

    def __init__(self, scale: Scale, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, scale.width)
        self.positions = nn.Embedding(scale.seq_len, scale.width)
        self.blocks = nn.ModuleList(Block(scale.width, scale.heads) for _ in range(scale.layers))
        self.norm = nn.LayerNorm(scale.width)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INITIAL_SPREAD)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, float[n, length, vocabulary], for int64[n, length] tokens."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.norm(x) @ self.tokens.weight.T
        return logits


def token_losses(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the cross-entropy of predicting each next token, float[n, length - 1]."""
    logits = model(tokens[:, :-1])
    losses = functional.cross_entropy(
        logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
    )
    return losses.view(tokens.shape[0], -1)
