"""Correct code of students: one-letter names, other languages, configurations, recurrent decoders, caches."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Setup:
    n_features: int = 6
    dim: int = 32
    n_heads: int = 4
    hidden_dim: int = 48
    n_layers: int = 3
    max_len: int = 64


def look_ahead(x):
    """For x (B, T, D): 0 where one may look, -inf in the future."""
    length = x.size(1)
    return torch.full((length, length), -math.inf, device=x.device).triu(1)


def causal_mask(q_len, kv_len=None):
    """(q_len, kv_len), True where a query may look; the queries are the last of the positions."""
    kv_len = q_len if kv_len is None else kv_len
    return torch.ones(q_len, kv_len, dtype=torch.bool).tril(kv_len - q_len)


def heads_of(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


class BahdanauAttention(nn.Module):
    """One state s (B, D) of a decoder looks at h (B, T, D); mask (B, T): 1 = word, 0 = padding."""

    def __init__(self, dec_dim, enc_dim, att_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(dec_dim, att_dim) / dec_dim**0.5)
        self.U = nn.Parameter(torch.randn(enc_dim, att_dim) / enc_dim**0.5)
        self.v = nn.Parameter(torch.randn(att_dim, 1) / att_dim**0.5)

    def forward(self, s, h, mask=None):
        e = (torch.tanh((s @ self.W).unsqueeze(1) + h @ self.U) @ self.v).squeeze(-1)
        if mask is not None:
            e = e.masked_fill(mask == 0, torch.finfo(e.dtype).min)
        a = torch.softmax(e, dim=-1)
        return torch.bmm(a.unsqueeze(1), h).squeeze(1), a


class StepAttention(nn.Module):
    """Bahdanau's, of one step: state (B, D), enc_outputs (B, S, D), src_mask (B, S)."""

    def __init__(self, dim):
        super().__init__()
        self.of_state = nn.Linear(dim, dim, bias=False)
        self.of_words = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, state, enc_outputs, src_mask=None):
        e = self.v(torch.tanh(self.of_state(state).unsqueeze(1) + self.of_words(enc_outputs))).squeeze(-1)
        if src_mask is not None:
            e = e.masked_fill(~src_mask, torch.finfo(e.dtype).min)
        a = F.softmax(e, dim=1)
        return torch.einsum("bs,bsd->bd", a, enc_outputs), a


class RecurrentDecoder(nn.Module):
    """tgt (B, T), enc_out (B, S, H), hidden (B, H), src_lens (B,) -> logits (B, T, V)"""

    def __init__(self, vocab_size, emb_dim, hid_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_dim)
        self.attention = StepAttention(hid_dim)
        self.rnn = nn.GRUCell(emb_dim + hid_dim, hid_dim)
        self.out = nn.Linear(hid_dim, vocab_size)

    def forward(self, tgt, enc_out, hidden, src_lens=None):
        mask = None
        if src_lens is not None:
            mask = torch.arange(enc_out.size(1), device=enc_out.device) < src_lens[:, None]
        logits = []
        for word in self.embedding(tgt).unbind(1):
            context, _ = self.attention(hidden, enc_out, mask)
            hidden = self.rnn(torch.cat([word, context], dim=1), hidden)
            logits.append(self.out(hidden))
        return torch.stack(logits, dim=1)


class TetesMultiples(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, q, k, v, visible=None):
        q, k, v = heads_of(self.wq(q), self.h), heads_of(self.wk(k), self.h), heads_of(self.wv(v), self.h)
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if visible is not None:
            s = s.masked_fill(~visible, torch.finfo(s.dtype).min)
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class BlocDecodeur(nn.Module):
    """y : (B, T, d) ; memoire : (B, S, d)"""

    def __init__(self, d, h, pf_dim):
        super().__init__()
        self.soi, self.croisee = TetesMultiples(d, h), TetesMultiples(d, h)
        self.ff = nn.Sequential(nn.Linear(d, pf_dim), nn.ReLU(), nn.Linear(pf_dim, d))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d) for _ in range(3))

    def forward(self, y, memoire):
        causal = torch.ones(y.size(1), y.size(1), dtype=torch.bool, device=y.device).tril()
        y = self.n1(y + self.soi(y, y, y, causal))
        y = self.n2(y + self.croisee(y, memoire, memoire))
        return self.n3(y + self.ff(y))


class SpeechFeedForward(nn.Module):
    """A norm before, none after: (batch, frames, dim) in and out."""

    def __init__(self, dim, ff_dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.expand, self.act, self.shrink = nn.Linear(dim, ff_dim), nn.GELU(), nn.Linear(ff_dim, dim)

    def forward(self, frames):
        h = self.expand(self.norm(frames))
        return self.shrink(self.act(h))


class GatedFeedForward(nn.Module):
    def __init__(self, cfg: Setup):
        super().__init__()
        hidden = cfg.hidden_dim
        self.w1 = nn.Linear(cfg.dim, hidden, bias=False)
        self.w3 = nn.Linear(cfg.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, cfg.dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LearnedPos(nn.Module):
    def __init__(self, cfg: Setup):
        super().__init__()
        self.table = nn.Embedding(cfg.max_len, cfg.dim)

    def forward(self, x):
        return x + self.table.weight[: x.size(1)]


class GPTLayer(nn.Module):
    """forward(x), or forward(new, kv) with keys and values of what came before; -> y, (k, v)"""

    def __init__(self, cfg: Setup):
        super().__init__()
        self.heads = cfg.n_heads
        self.ln1, self.ln2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.wqkv, self.wo = nn.Linear(cfg.dim, 3 * cfg.dim), nn.Linear(cfg.dim, cfg.dim)
        self.ffn = GatedFeedForward(cfg)

    def forward(self, x, kv=None):
        q, k, v = (heads_of(part, self.heads) for part in self.wqkv(self.ln1(x)).chunk(3, -1))
        if kv is not None:
            k, v = torch.cat([kv[0], k], dim=2), torch.cat([kv[1], v], dim=2)
        shown = causal_mask(x.size(1), k.size(2)).to(x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=shown).transpose(1, 2).flatten(2)
        x = x + self.wo(y)
        return x + self.ffn(self.ln2(x)), (k, v)


class CharModel(nn.Module):
    """chars (B, T) -> logits (B, T, V), and the loss where targets are given"""

    def __init__(self, vocab, cfg: Setup):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, cfg.dim), nn.Embedding(cfg.max_len, cfg.dim)
        self.layers = nn.ModuleList(CharLayer(cfg) for _ in range(cfg.n_layers))
        self.norm, self.out = nn.LayerNorm(cfg.dim), nn.Linear(cfg.dim, vocab)

    def forward(self, chars, targets=None, caches=None):
        """caches: an empty dict for each layer, filled as decoding goes on"""
        start = caches[0]["k"].size(2) if caches and caches[0] else 0
        x = self.tok(chars) + self.pos(torch.arange(start, start + chars.size(1), device=chars.device))
        hide = True
        for i, layer in enumerate(self.layers):
            x = layer(x, None if caches is None else caches[i], hide)
        logits = self.out(self.norm(x))
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class CharLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, self.norm, self.wo = cfg.n_heads, nn.LayerNorm(cfg.dim), nn.Linear(cfg.dim, cfg.dim)
        self.wqkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.end, self.ffn = nn.LayerNorm(cfg.dim), GatedFeedForward(cfg)

    def forward(self, x, cache, hide):
        q, k, v = (heads_of(part, self.heads) for part in self.wqkv(self.norm(x)).chunk(3, -1))
        if cache:
            k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
        shown = causal_mask(x.size(1), k.size(2)).to(x.device) if hide else None
        x = x + self.wo(F.scaled_dot_product_attention(q, k, v, attn_mask=shown).transpose(1, 2).flatten(2))
        return x + self.ffn(self.end(x))


class SeriesEncoder(nn.Module):
    """series (B, T, n_features); missing (B, T), True = nothing was measured -> (B, T, dim)"""

    def __init__(self, cfg: Setup):
        super().__init__()
        self.embed = nn.Linear(cfg.n_features, cfg.dim)
        self.pos = nn.Parameter(torch.randn(1, cfg.max_len, cfg.dim) * 0.02)
        make = nn.TransformerEncoderLayer
        self.layers = nn.ModuleList(
            make(cfg.dim, cfg.n_heads, cfg.hidden_dim, 0.0, batch_first=True) for _ in range(cfg.n_layers)
        )

    def forward(self, series, missing=None):
        x = self.embed(series)
        x = x + self.pos[:, : x.shape[1]]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=missing)
        return x


class SatzKlassifikator(nn.Module):
    """Wörter (B, T) -> Klassen (B, K); das Wort 0 ist keines."""

    def __init__(self, woerter, klassen, d=32, koepfe=4, tiefe=2):
        super().__init__()
        self.einbettung = nn.Embedding(woerter, d, padding_idx=0)
        self.ort = nn.Parameter(torch.randn(64, d))
        self.schichten = nn.ModuleList(
            nn.TransformerEncoderLayer(d, koepfe, 2 * d, 0.0, batch_first=True) for _ in range(tiefe)
        )
        self.kopf = nn.Linear(d, klassen)

    def forward(self, ids):
        leer = ids == 0
        x = self.einbettung(ids) + self.ort[: ids.size(1)]
        for schicht in self.schichten:
            x = schicht(x, src_key_padding_mask=leer)
        x = x.masked_fill(leer.unsqueeze(-1), 0.0)
        return self.kopf(x.sum(1) / (~leer).sum(1, keepdim=True))


class Patchify(nn.Module):
    """image (B, C, H, W) -> (B, H/p · W/p, dim), row by row"""

    def __init__(self, p, dim, chans=3):
        super().__init__()
        self.p = p
        self.proj = nn.Linear(chans * p * p, dim)

    def forward(self, img):
        b, c, h, w = img.shape
        x = img.reshape(b, c, h // self.p, self.p, w // self.p, self.p)
        return self.proj(x.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * self.p * self.p))


class Seq2SeqAttentionDecoder(nn.Module):
    """X (batch, steps), state: what the encoder gave, its last hidden state, its lengths"""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers):
        super().__init__()
        self.attention = StepAttention(num_hiddens)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size + num_hiddens, num_hiddens, num_layers)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(self, enc_outputs, enc_valid_lens):
        outputs, hidden_state = enc_outputs  # (steps, batch, hiddens), (layers, batch, hiddens)
        return outputs.permute(1, 0, 2), hidden_state, enc_valid_lens

    def forward(self, X, state):
        outputs, hidden_state, lens = state
        steps = torch.arange(outputs.shape[1], device=outputs.device)
        mask = None if lens is None else steps < lens[:, None]
        answers = []
        for x in self.embedding(X).unbind(1):
            context, _ = self.attention(hidden_state[-1], outputs, mask)
            out, hidden_state = self.rnn(torch.cat([context, x], dim=-1).unsqueeze(0), hidden_state)
            answers.append(out)
        return self.dense(torch.cat(answers)).permute(1, 0, 2), [outputs, hidden_state, lens]


class LuongDecoder(nn.Module):
    """tgt (B, T), hidden (1, B, H), enc (B, S, H), src_mask (B, S): 1 = word, 0 = padding"""

    def __init__(self, vocab_size, emb_size, hidden_size):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, emb_size)
        self.gru = nn.GRU(emb_size, hidden_size, batch_first=True)
        self.general = nn.Linear(hidden_size, hidden_size, bias=False)
        self.mix, self.out = nn.Linear(2 * hidden_size, hidden_size), nn.Linear(hidden_size, vocab_size)

    def forward(self, tgt, hidden, enc, src_mask=None):
        states, hidden = self.gru(self.embed(tgt), hidden)
        energy = states @ self.general(enc).mT
        if src_mask is not None:
            energy = energy.masked_fill(src_mask.unsqueeze(1) == 0, torch.finfo(energy.dtype).min)
        attn = energy.softmax(dim=2)
        return self.out(torch.tanh(self.mix(torch.cat([states, attn @ enc], dim=2)))), hidden, attn


class TwoMaskAttention(nn.Module):
    """key_padding_mask (N, S), True = ignored; attn_mask (T, S), True = not allowed"""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.inner = TetesMultiples(embed_dim, num_heads)

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        visible = None
        if attn_mask is not None:
            visible = ~attn_mask[None, None]
        if key_padding_mask is not None:
            shown = ~key_padding_mask[:, None, None]
            visible = shown if visible is None else visible & shown
        return self.inner(query, key, value, visible)


class NormPlacedEncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, dim_feedforward, norm_first=False):
        super().__init__()
        self.norm_first, self.attention = norm_first, TetesMultiples(d_model, nhead)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def feed(self, x):
        return self.linear2(F.relu(self.linear1(x)))

    def forward(self, src):
        x = src
        if self.norm_first:
            z = self.norm1(x)
            x = x + self.attention(z, z, z)
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attention(x, x, x))
        return self.norm2(x + self.feed(x))


class PlacedPositions(nn.Module):
    """positional encoding that is learned"""

    def __init__(self, max_len, dim):
        super().__init__()
        self.table = nn.Embedding(max_len, dim)

    def forward(self, x):
        return x + self.table(torch.arange(x.shape[1], device=x.device))


def target_mask(tgt, pad=0):
    """Hides padding and what comes later."""
    size = tgt.shape[-1]
    future = torch.ones(1, size, size, dtype=torch.bool, device=tgt.device).triu(1)
    return (tgt != pad).unsqueeze(-2) & ~future
