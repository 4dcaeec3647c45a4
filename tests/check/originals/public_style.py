"""Correct code as in public repositories: fused attention, caches, flags of calls, heads as modules."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def pair(size):
    return size if isinstance(size, tuple) else (size, size)


def sdp_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, training=False):
    """A boolean attn_mask is True where a key takes part."""
    length, size = query.shape[-2], key.shape[-2]
    bias = query.new_zeros(length, size)
    if is_causal:
        future = torch.ones(length, size, dtype=torch.bool, device=query.device).triu(diagonal=1)
        bias = bias.masked_fill(future, -math.inf)
    if attn_mask is not None:
        bias = bias + torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -math.inf)
    weights = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias, dim=-1)
    weights = F.dropout(weights, dropout_p, training)
    return weights @ value


def causal_mask(tgt_len, past_len=0):
    """(tgt_len, past_len + tgt_len), True where a position may be seen."""
    rows = torch.arange(tgt_len).unsqueeze(1) + past_len
    return torch.arange(past_len + tgt_len).unsqueeze(0) <= rows


def make_std_mask(tgt, pad):
    """Hides padding and what comes later."""
    size = tgt.shape[-1]
    return (tgt != pad).unsqueeze(-2) & torch.ones(1, size, size, dtype=torch.bool).tril()


class Head(nn.Module):
    def __init__(self, dim, head_size):
        super().__init__()
        self.key = nn.Linear(dim, head_size, bias=False)
        self.query = nn.Linear(dim, head_size, bias=False)
        self.value = nn.Linear(dim, head_size, bias=False)

    def forward(self, x, hidden):
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, None, :], -math.inf)
        return scores.softmax(-1) @ self.value(x)


class MultiHead(nn.Module):
    """msk (B, T) is True at padding."""

    def __init__(self, n_emb, n_h):
        super().__init__()
        self.heads = nn.ModuleList(Head(n_emb, n_emb // n_h) for _ in range(n_h))
        self.proj = nn.Linear(n_emb, n_emb)

    def forward(self, x, msk=None):
        hidden = None if msk is None else msk.bool()
        return self.proj(torch.cat([head(x, hidden) for head in self.heads], dim=-1))


class BatchedAttention(nn.Module):
    """multi-head attention over (N, L, E), or (L, N, E) without batch_first"""

    def __init__(self, embed_dim, num_heads, batch_first=False):
        super().__init__()
        self.num_heads, self.batch_first = num_heads, batch_first
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        if not self.batch_first:
            x = x.transpose(0, 1)
        n, length, width = x.shape
        q, k, v = self.in_proj(x).view(n, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
        return self.out_proj(mixed if self.batch_first else mixed.transpose(0, 1))


class CachedCausalAttention(nn.Module):
    """causal; a cache is a dict that is filled as decoding goes on"""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        q, k, v = self.wqkv(x).view(batch, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        shown = torch.ones(length, k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - length)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=shown)
        return self.wo(mixed.transpose(1, 2).reshape(batch, length, width))


class PositionwiseFeedForward(nn.Module):
    """a whole sub-layer: norm(x + f(x))"""

    def __init__(self, d_in, d_hid, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_in, d_hid)
        self.w_2 = nn.Linear(d_hid, d_in)
        self.layer_norm = nn.LayerNorm(d_in, eps=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        residual = x
        x = self.dropout(self.w_2(F.relu(self.w_1(x))))
        return self.layer_norm(x + residual)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, d_inner, n_head, dropout=0.1):
        super().__init__()
        self.slf_attn = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.pos_ffn = PositionwiseFeedForward(d_model, d_inner, dropout=dropout)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, enc_input, slf_attn_mask=None):
        mixed, _ = self.slf_attn(enc_input, enc_input, enc_input, key_padding_mask=slf_attn_mask)
        return self.pos_ffn(self.norm(enc_input + self.dropout(mixed)))


class TextClassifier(nn.Module):
    """tokens (batch, time), lengths (batch,) -> one logit a text"""

    def __init__(self, vocab_size, dim=64, heads=4, ff=128, layers=2, max_len=256):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, dim)
        self.pos = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim_feedforward=ff, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 1)

    def forward(self, tokens, lengths):
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        pad = steps >= lengths.unsqueeze(1)
        x = self.encoder(self.tok(tokens) + self.pos(steps), src_key_padding_mask=pad)
        x = x.masked_fill(pad.unsqueeze(-1), 0.0)
        return self.out(x.sum(dim=1) / lengths.unsqueeze(1)).squeeze(1)


class Seq2SeqTransformer(nn.Module):
    """Sequences come as (length, batch); padding masks as (batch, length), True at padding."""

    def __init__(
        self, num_encoder_layers, num_decoder_layers, emb_size, nhead, src_vocab_size, tgt_vocab_size
    ):
        super().__init__()
        self.transformer = nn.Transformer(
            emb_size, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward=20, dropout=0.0
        )
        self.generator = nn.Linear(emb_size, tgt_vocab_size)
        self.src_tok_emb = nn.Embedding(src_vocab_size, emb_size)
        self.tgt_tok_emb = nn.Embedding(tgt_vocab_size, emb_size)
        self.register_buffer("pos_table", torch.randn(64, 1, emb_size))

    def forward(
        self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, memory_key_padding_mask
    ):
        src_emb = self.src_tok_emb(src) + self.pos_table[: len(src)]
        tgt_emb = self.tgt_tok_emb(trg) + self.pos_table[: len(trg)]
        outs = self.transformer(
            src_emb,
            tgt_emb,
            src_mask,
            tgt_mask,
            None,
            src_padding_mask,
            tgt_padding_mask,
            memory_key_padding_mask,
        )
        return self.generator(outs)


class PatchEmbedding(nn.Module):
    def __init__(self, image_size, patch_size, dim, channels=3):
        super().__init__()
        (height, width), self.patch = pair(image_size), pair(patch_size)
        self.rows, self.columns = height // self.patch[0], width // self.patch[1]
        self.proj = nn.Linear(channels * self.patch[0] * self.patch[1], dim)

    def forward(self, img):
        cut = img.reshape(len(img), -1, self.rows, self.patch[0], self.columns, self.patch[1])
        return self.proj(cut.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2))
