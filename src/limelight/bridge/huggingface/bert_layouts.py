"""The names of settings and tensors in BERT, RoBERTa and DistilBERT."""

from collections.abc import Mapping
from dataclasses import dataclass

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class Layout:
    """The names of the settings and of the tensors of a family."""

    settings: Mapping[str, str]  # ours -> theirs
    prefix: str
    blocks: str
    parts: Mapping[str, str]  # of a block
    norm: str  # of the embeddings
    masked: Mapping[str, str]  # of the output network for hidden tokens
    masked_bias: str
    classes: Mapping[str, str]  # of the output network for classes
    head: str = "tanh"
    first: int = 0  # the first row of the table of positions
    types: bool = True  # whether there is a table of segments
    epsilon: float = 1e-12


BERT_PARTS = {
    "self_attention.query": "attention.self.query",
    "self_attention.key": "attention.self.key",
    "self_attention.value": "attention.self.value",
    "self_attention.output": "attention.output.dense",
    "self_residual.norm": "attention.output.LayerNorm",
    "feedforward.expand": "intermediate.dense",
    "feedforward.contract": "output.dense",
    "feedforward_residual.norm": "output.LayerNorm",
}
BERT_SETTINGS = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "depth": "num_hidden_layers",
    "activation": "hidden_act",
}
LAYOUTS = {
    "bert": Layout(
        BERT_SETTINGS,
        prefix="bert.",
        blocks="encoder.layer",
        parts=BERT_PARTS,
        norm="embeddings.LayerNorm",
        masked={
            "transform.0": "cls.predictions.transform.dense",
            "transform.2": "cls.predictions.transform.LayerNorm",
        },
        masked_bias="cls.predictions.bias",
        classes={"output.0": "bert.pooler.dense", "output.3": "classifier"},
    ),
    "roberta": Layout(
        BERT_SETTINGS,
        prefix="roberta.",
        blocks="encoder.layer",
        parts=BERT_PARTS,
        norm="embeddings.LayerNorm",
        masked={"transform.0": "lm_head.dense", "transform.2": "lm_head.layer_norm"},
        masked_bias="lm_head.bias",
        classes={"output.0": "classifier.dense", "output.3": "classifier.out_proj"},
        first=2,
    ),
    "distilbert": Layout(
        {
            "width": "dim",
            "heads": "n_heads",
            "hidden": "hidden_dim",
            "depth": "n_layers",
            "activation": "activation",
        },
        prefix="distilbert.",
        blocks="transformer.layer",
        parts={
            "self_attention.query": "attention.q_lin",
            "self_attention.key": "attention.k_lin",
            "self_attention.value": "attention.v_lin",
            "self_attention.output": "attention.out_lin",
            "self_residual.norm": "sa_layer_norm",
            "feedforward.expand": "ffn.lin1",
            "feedforward.contract": "ffn.lin2",
            "feedforward_residual.norm": "output_layer_norm",
        },
        norm="embeddings.LayerNorm",
        masked={"transform.0": "vocab_transform", "transform.2": "vocab_layer_norm"},
        masked_bias="vocab_projector.bias",
        classes={"output.0": "pre_classifier", "output.3": "classifier"},
        head="relu",
        types=False,
    ),
}
