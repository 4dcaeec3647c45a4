"""Translation models of other libraries, on padded batches, with our weights: all give the same output.

Each maps a source (B, S), its lengths (B) (None if all are equal) and a target (B, T) to (B, T, V).
"""

import importlib.util
import math
from collections.abc import Iterable
from copy import deepcopy

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from bench.book import Book, Embedding
from limelight.bridge import to_torch
from limelight.models.transformer import Transformer, TransformerConfig

PAD, BEGIN, END = 0, 1, 2
# JoeyNMT requires a protobuf of 2022, so it may not be installed (see the Makefile).
JOEY = importlib.util.find_spec("joeynmt") is not None


def _attention(ours: str, theirs: str, parts: Iterable[str]) -> dict[str, str]:
    our_parts = ("query", "key", "value", "output")
    return {f"{ours}.{a}": f"{theirs}.{b}" for a, b in zip(our_parts, parts, strict=True)}


# Our name of a submodule of a block -> theirs.
MARIAN = {
    **_attention("self_attention", "self_attn", ("q_proj", "k_proj", "v_proj", "out_proj")),
    "self_residual.norm": "self_attn_layer_norm",
    **_attention("cross_attention", "encoder_attn", ("q_proj", "k_proj", "v_proj", "out_proj")),
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feedforward.expand": "fc1",
    "feedforward.contract": "fc2",
    "feedforward_residual.norm": "final_layer_norm",
}
BOOK = {name: name for name in MARIAN}
JOEY_PARTS = ("q_layer", "k_layer", "v_layer", "output_layer")
JOEY_FEEDFORWARD = {
    "feedforward.expand": "feed_forward.pwff_layer.0",
    "feedforward.contract": "feed_forward.pwff_layer.3",
    "feedforward_residual.norm": "feed_forward.layer_norm",
}
JOEY_ENCODER = JOEY_FEEDFORWARD | {
    **_attention("self_attention", "src_src_att", JOEY_PARTS),
    "self_residual.norm": "layer_norm",
}
JOEY_DECODER = JOEY_FEEDFORWARD | {
    **_attention("self_attention", "trg_trg_att", JOEY_PARTS),
    "self_residual.norm": "x_layer_norm",
    **_attention("cross_attention", "src_trg_att", JOEY_PARTS),
    "cross_residual.norm": "dec_layer_norm",
}


@torch.no_grad()
def fill(theirs: nn.Module, ours: nn.Module) -> None:
    """Copy our parameters. The book's attention and Marian's output have no biases."""
    for name, parameter in theirs.named_parameters():
        parameter.copy_(ours.get_parameter(name))


def fill_blocks(theirs: Iterable[nn.Module], ours: Iterable[nn.Module], names: dict[str, str]) -> None:
    for their_block, our_block in zip(theirs, ours, strict=True):
        parts = dict(our_block.named_modules())
        for our_name, their_name in names.items():
            if our_name in parts:  # an encoder has no cross-attention
                fill(their_block.get_submodule(their_name), parts[our_name])


def book(config: TransformerConfig, ours: Transformer) -> Book:
    embeddings = (ours.source_embedding, ours.target_embedding)
    theirs = Book(
        (embeddings[0].num_embeddings, embeddings[1].num_embeddings),
        (config.encoder_depth, config.decoder_depth),
        config.width,
        config.hidden,
        config.heads,
        config.dropout,
    )
    fill(theirs.source_embedding.tokens, ours.source_embedding)
    fill(theirs.target_embedding.tokens, ours.target_embedding)
    fill_blocks(theirs.encoder, ours.encoder.blocks, BOOK)
    fill_blocks(theirs.decoder, ours.decoder.blocks, BOOK)
    fill(theirs.output, ours.output)
    return theirs


class Torch(nn.Module):
    """nn.Transformer with a padding mask for the source. The target needs none: its padding comes last, and
    the causal mask hides it; `tgt_is_causal` tells the kernel that the mask is causal."""

    def __init__(self, config: TransformerConfig, ours: Transformer) -> None:
        super().__init__()
        self.source, self.target = (
            Embedding(embedding.num_embeddings, config.width, config.dropout)
            for embedding in (ours.source_embedding, ours.target_embedding)
        )
        fill(self.source.tokens, ours.source_embedding)
        fill(self.target.tokens, ours.target_embedding)
        self.transformer = nn.Transformer(config.width, config.heads, 1, 1, batch_first=True)
        self.transformer.encoder, self.transformer.decoder = to_torch(ours.encoder), to_torch(ours.decoder)
        self.output = deepcopy(ours.output)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        padding = None if lengths is None else torch.arange(source.shape[1]) >= lengths.unsqueeze(1)
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        x = self.transformer(
            self.source(source),
            self.target(target),
            tgt_mask=later,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return self.output(x)


def marian(config: TransformerConfig, ours: Transformer) -> MarianMTModel:
    """Hugging Face's model, with the same sinusoidal positions, the same scale and fused attention."""
    shared = config.tied == "all"
    sinusoids = ours.source_positions.table
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=ours.source_embedding.num_embeddings,
            decoder_vocab_size=ours.target_embedding.num_embeddings,
            max_position_embeddings=len(sinusoids),
            d_model=config.width,
            encoder_layers=config.encoder_depth,
            decoder_layers=config.decoder_depth,
            encoder_ffn_dim=config.hidden,
            decoder_ffn_dim=config.hidden,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            activation_function=config.activation,
            dropout=config.dropout,
            attention_dropout=config.dropout,
            activation_dropout=config.dropout,
            scale_embedding=True,
            share_encoder_decoder_embeddings=shared,
            tie_word_embeddings=shared,
            pad_token_id=PAD,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            forced_eos_token_id=None,
            attn_implementation="sdpa",
        )
    )
    for part in (theirs.model.encoder, theirs.model.decoder):
        part.embed_positions.weight.copy_(sinusoids)
    fill(theirs.model.encoder.embed_tokens, ours.source_embedding)
    fill(theirs.model.decoder.embed_tokens, ours.target_embedding)
    fill_blocks(theirs.model.encoder.layers, ours.encoder.blocks, MARIAN)
    fill_blocks(theirs.model.decoder.layers, ours.decoder.blocks, MARIAN)
    fill(theirs.lm_head, ours.output)
    return theirs


class Marian(nn.Module):
    def __init__(self, config: TransformerConfig, ours: Transformer) -> None:
        super().__init__()
        self.model = marian(config, ours)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        real = None if lengths is None else torch.arange(source.shape[1]) < lengths.unsqueeze(1)
        return self.model(
            input_ids=source, attention_mask=real, decoder_input_ids=target, use_cache=False
        ).logits


class Joey(nn.Module):
    """JoeyNMT's encoder and decoder, with embeddings of torch: its own need configuration files."""

    def __init__(self, config: TransformerConfig, ours: Transformer) -> None:
        super().__init__()
        from joeynmt.decoders import TransformerDecoder
        from joeynmt.encoders import TransformerEncoder

        sizes = {
            "hidden_size": config.width,
            "ff_size": config.hidden,
            "num_heads": config.heads,
            "dropout": config.dropout,
            "emb_dropout": config.dropout,
            "layer_norm": "post",
        }
        self.source, self.target = deepcopy(ours.source_embedding), deepcopy(ours.target_embedding)
        self.encoder = TransformerEncoder(num_layers=config.encoder_depth, **sizes)
        self.decoder = TransformerDecoder(
            num_layers=config.decoder_depth, vocab_size=self.target.num_embeddings, **sizes
        )
        self.scale = math.sqrt(config.width)
        fill_blocks(self.encoder.layers, ours.encoder.blocks, JOEY_ENCODER)
        fill_blocks(self.decoder.layers, ours.decoder.blocks, JOEY_DECODER)
        fill(self.decoder.output_layer, ours.output)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        size = source.shape[1]
        real = torch.ones(len(source), 1, size, dtype=torch.bool)
        if lengths is not None:
            real = torch.arange(size) < lengths.view(-1, 1, 1)
        memory, hidden = self.encoder(self.source(source) * self.scale, lengths, real)
        return self.decoder(
            self.target(target) * self.scale,
            memory,
            hidden,
            real,
            unroll_steps=target.shape[1],
            hidden=None,
            trg_mask=torch.ones(len(target), 1, target.shape[1], dtype=torch.bool),
        )[0]
