"""The demo's language model: a small transformer over characters, in numpy, with its backward.

Its input is the sum of learned vectors for the last characters and for hashed groups of 2, 3 and 4
of them. The groups let so small a model spell within seconds of training, which leaves attention
to learn the rest. Attention is causal with linear biases (ALiBi), which need no parameters.

One set of functions serves training (float32), the gradient check (float64) and inference.
"""

from dataclasses import asdict, dataclass

import numpy as np

Params = dict[str, np.ndarray]
_EPSILON = 1e-5


@dataclass(frozen=True)
class Config:
    """Sizes of the model; config.json of a checkpoint holds exactly these."""

    vocab_size: int = 96
    width: int = 128
    layers: int = 2
    heads: int = 4
    hidden: int = 384
    context: int = 128
    hash_rows: int = 8192

    def to_json(self) -> dict:
        return asdict(self) | {"model_type": "charlm"}

    @staticmethod
    def from_json(values: dict) -> "Config":
        return Config(**{key: value for key, value in values.items() if key != "model_type"})


# The features of a position: its own character, the two before it, and groups of 2, 3, 4.
_SINGLES = 3
_GROUPS = (2, 3, 4)


def embedding_rows(config: Config) -> int:
    return _SINGLES * config.vocab_size + len(_GROUPS) * config.hash_rows


def init(config: Config, seed: int, dtype: type = np.float32) -> Params:
    """Fresh parameters, the same for the same seed."""
    rng = np.random.default_rng(seed)

    def normal(rows: int, columns: int, scale: float) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) * scale).astype(dtype)

    width, hidden = config.width, config.hidden
    params = {
        "embed": normal(embedding_rows(config), width, 0.05),
        "norm": np.ones(width, dtype),
        "head": normal(width, config.vocab_size, 0.02),
        "head_bias": np.zeros(config.vocab_size, dtype),
    }
    for layer in range(config.layers):
        out_scale = (2 * config.layers * width) ** -0.5
        params |= {
            f"layer{layer}.norm1": np.ones(width, dtype),
            f"layer{layer}.qkv": normal(width, 3 * width, width**-0.5),
            f"layer{layer}.out": normal(width, width, out_scale),
            f"layer{layer}.norm2": np.ones(width, dtype),
            f"layer{layer}.up": normal(width, hidden, width**-0.5),
            f"layer{layer}.down": normal(hidden, width, out_scale),
        }
    return params


def feature_rows(tokens: np.ndarray, config: Config) -> np.ndarray:
    """Rows of the embedding table for each position: [batch, time] -> [batch, time, features].

    Before the first position the text counts as empty lines (id 0).
    """
    reach = max(_GROUPS) - 1
    padded = np.pad(tokens.astype(np.int64), ((0, 0), (reach, 0)))
    length = tokens.shape[1]
    shifted = [padded[:, reach - back : reach - back + length] for back in range(reach + 1)]
    rows = [shifted[back] + back * config.vocab_size for back in range(_SINGLES)]
    start = _SINGLES * config.vocab_size
    for size in _GROUPS:
        code = np.zeros_like(shifted[0])
        for back in range(size):
            code = code * config.vocab_size + shifted[back]
        mixed = (code * 2654435761 + size) & 0xFFFFFFFF
        rows.append(start + (mixed ^ (mixed >> 15)) % config.hash_rows)
        start += config.hash_rows
    return np.stack(rows, axis=-1)


def _normalise(x: np.ndarray, gain: np.ndarray) -> tuple[np.ndarray, tuple]:
    inverse = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + _EPSILON)
    unit = x * inverse
    return unit * gain, (unit, inverse, gain)


def _normalise_back(grad: np.ndarray, saved: tuple) -> tuple[np.ndarray, np.ndarray]:
    unit, inverse, gain = saved
    grad_gain = (grad * unit).sum(axis=0)
    scaled = grad * gain
    inner = np.mean(scaled * unit, axis=-1, keepdims=True)
    return inverse * (scaled - unit * inner), grad_gain


def _bias(config: Config, queries: int, keys: int, dtype: np.dtype) -> np.ndarray:
    """ALiBi: a head's penalty grows with distance; what lies ahead is out of reach."""
    slopes = 2.0 ** (-2.0 * np.arange(config.heads))  # 1, 1/4, 1/16, 1/64
    slopes[-1] = 0.0  # One head looks at all distances alike: copying needs that.
    distance = (np.arange(queries) + keys - queries)[:, None] - np.arange(keys)[None, :]
    bias = -slopes[:, None, None] * distance[None]
    return np.where(distance[None] < 0, -1e9, bias).astype(dtype)


def _heads(x: np.ndarray, config: Config) -> np.ndarray:
    """[batch, time, width] -> [batch, heads, time, width/heads]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, config.heads, width // config.heads).transpose(0, 2, 1, 3)


def _join(x: np.ndarray) -> np.ndarray:
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch * length, heads * size)


def _softmax(scores: np.ndarray) -> np.ndarray:
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


class _Block:
    """One transformer layer on rows [batch*time, width]; keeps what its backward needs."""

    def __init__(self, params: Params, layer: int, config: Config):
        self._params = params
        self._name = f"layer{layer}."
        self._config = config

    def _weight(self, name: str) -> np.ndarray:
        return self._params[self._name + name]

    def forward(self, x: np.ndarray, batch: int, past: tuple | None, bias: np.ndarray) -> tuple:
        """Returns the new rows, and the keys and values so far for decoding on."""
        normed, self._saved1 = _normalise(x, self._weight("norm1"))
        qkv = (normed @ self._weight("qkv")).reshape(batch, -1, 3 * self._config.width)
        query, key, value = (_heads(part, self._config) for part in np.split(qkv, 3, axis=-1))
        if past is not None:
            key = np.concatenate([past[0], key], axis=2)
            value = np.concatenate([past[1], value], axis=2)
        query = query * query.shape[-1] ** -0.5
        weights = _softmax(query @ key.transpose(0, 1, 3, 2) + bias)
        mixed = _join(weights @ value)
        x = x + mixed @ self._weight("out")
        normed2, self._saved2 = _normalise(x, self._weight("norm2"))
        active = np.maximum(normed2 @ self._weight("up"), 0)
        self._attention = (normed, query, key, value, weights, mixed)
        self._mlp = (normed2, active)
        return x + active @ self._weight("down"), (key, value)

    def backward(self, grad: np.ndarray, grads: Params) -> np.ndarray:
        grad = self._mlp_back(grad, grads)
        return self._attention_back(grad, grads)

    def _mlp_back(self, grad: np.ndarray, grads: Params) -> np.ndarray:
        normed, active = self._mlp
        grads[self._name + "down"] = active.T @ grad
        grad_active = grad @ self._weight("down").T
        grad_active *= active > 0
        grads[self._name + "up"] = normed.T @ grad_active
        back, grads[self._name + "norm2"] = _normalise_back(
            grad_active @ self._weight("up").T, self._saved2
        )
        return grad + back

    def _attention_back(self, grad: np.ndarray, grads: Params) -> np.ndarray:
        normed, query, key, value, weights, mixed = self._attention
        batch = query.shape[0]
        grads[self._name + "out"] = mixed.T @ grad
        grad_mixed = (grad @ self._weight("out").T).reshape(batch, -1, self._config.width)
        grad_mixed = _heads(grad_mixed, self._config)
        grad_value = weights.transpose(0, 1, 3, 2) @ grad_mixed
        grad_weights = grad_mixed @ value.transpose(0, 1, 3, 2)
        inner = (grad_weights * weights).sum(axis=-1, keepdims=True)
        grad_scores = (grad_weights - inner) * weights
        grad_query = (grad_scores @ key) * query.shape[-1] ** -0.5
        grad_key = grad_scores.transpose(0, 1, 3, 2) @ query
        grad_qkv = np.concatenate([_join(grad_query), _join(grad_key), _join(grad_value)], axis=1)
        grads[self._name + "qkv"] = normed.T @ grad_qkv
        back, grads[self._name + "norm1"] = _normalise_back(
            grad_qkv @ self._weight("qkv").T, self._saved1
        )
        return grad + back


class Decoder:
    """Runs the model over a batch of texts piece by piece, keeping keys and values."""

    def __init__(self, params: Params, config: Config):
        self._params = params
        self._config = config
        self._tokens: np.ndarray | None = None
        self._past: list = [None] * config.layers

    def feed(self, tokens: np.ndarray) -> np.ndarray:
        """Adds [batch, n] tokens; returns the logits [batch, n, vocab] after each of them."""
        seen = tokens if self._tokens is None else np.hstack([self._tokens, tokens])
        batch, fresh = tokens.shape
        self._tokens = seen
        # Groups reach back over the border between pieces, so take some of the old text along.
        tail = seen[:, -(fresh + max(_GROUPS)) :]
        rows = feature_rows(tail, self._config)[:, -fresh:]
        x = self._params["embed"][rows].sum(axis=2).reshape(batch * fresh, -1)
        bias = _bias(self._config, fresh, seen.shape[1], x.dtype)
        for layer in range(self._config.layers):
            block = _Block(self._params, layer, self._config)
            x, self._past[layer] = block.forward(x, batch, self._past[layer], bias)
        x, _ = _normalise(x, self._params["norm"])
        logits = x @ self._params["head"] + self._params["head_bias"]
        return logits.reshape(batch, fresh, -1)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def loss_and_grads(params: Params, tokens: np.ndarray, config: Config) -> tuple[float, Params]:
    """Mean loss (nats a character) of [batch, time+1] tokens, and its gradients.

    The gradient of the embedding is sparse: `embed` holds the changed rows only and
    `embed_rows` says which these are.
    """
    inputs, targets = tokens[:, :-1], tokens[:, 1:].reshape(-1)
    batch, length = inputs.shape
    rows = feature_rows(inputs, config)
    x = params["embed"][rows].sum(axis=2).reshape(batch * length, -1)
    bias = _bias(config, length, length, x.dtype)
    blocks = [_Block(params, layer, config) for layer in range(config.layers)]
    for block in blocks:
        x, _ = block.forward(x, batch, None, bias)
    final, saved = _normalise(x, params["norm"])
    log_probs = log_softmax(final @ params["head"] + params["head_bias"])
    picked = np.arange(len(targets))
    loss = -float(log_probs[picked, targets].mean())

    grad_logits = np.exp(log_probs)
    grad_logits[picked, targets] -= 1
    grad_logits /= len(targets)
    grads = {"head": final.T @ grad_logits, "head_bias": grad_logits.sum(axis=0)}
    grad, grads["norm"] = _normalise_back(grad_logits @ params["head"].T, saved)
    for block in reversed(blocks):
        grad = block.backward(grad, grads)
    grads["embed_rows"], grads["embed"] = _sum_by_row(rows.reshape(batch * length, -1), grad)
    return loss, grads


def _sum_by_row(rows: np.ndarray, grad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adds up the gradient of each embedding row that was used (np.add.at is far slower)."""
    features = rows.shape[1]
    flat = rows.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.add.reduceat(grad[order // features], starts, axis=0)
