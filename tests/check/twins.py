"""Broken twins: an original with one typical mistake, and the promise that it breaks."""

from typing import NamedTuple
from zlib import crc32


class Twin(NamedTuple):
    original: str  # a file of originals/
    name: str  # the class or function that is checked
    old: str  # the code that is replaced: in the whole file, or in the class that begins with `after`
    new: str
    promise: str  # the promise that is broken
    after: str = ""

    def __str__(self) -> str:
        return f"{self.original}-{self.name}-{self.promise}-{crc32(self.new.encode()) % 1000:03}"


def _of(original: str, name: str, *changes: tuple[str, ...]) -> list[Twin]:
    """(promise, old, new) or (promise, old, new, after)"""
    return [Twin(original, name, old, new, promise, *after) for promise, old, new, *after in changes]


D2L = [
    *_of(
        "d2l_style",
        "masked_softmax",
        ("softmax-axis", "return torch.softmax(X, dim=-1)", "return torch.softmax(X, dim=1)"),
        ("mask-has-effect", 'X.masked_fill(hidden, -float("inf"))', "X"),
        ("large-scores", '-float("inf")', "-1e4"),
        ("masked-weight", '-float("inf")', "0.0"),
        ("mask-polarity", "steps >= valid", "steps < valid"),
        ("masked-weight", "steps >= valid", "steps > valid"),
        (
            "right-lengths",
            "valid_lens.unsqueeze(1).expand(-1, X.shape[1])",
            "valid_lens[:1].expand(X.shape[:2])",
        ),
        (
            "right-lengths",
            "valid_lens.unsqueeze(1).expand(-1, X.shape[1])",
            "valid_lens.repeat(X.shape[1]).reshape(X.shape[0], X.shape[1])",
        ),
        ("in-place", "X.masked_fill(hidden", "X.masked_fill_(hidden"),
        (
            "masked-values-leak",
            'return torch.softmax(X.masked_fill(hidden, -float("inf")), dim=-1)',
            "return torch.softmax(X, dim=-1) * ~hidden",
        ),
    ),
    *_of(
        "d2l_style",
        "DotProductAttention",
        ("scale", "/ math.sqrt(d)", "/ d"),
        ("scale", "/ math.sqrt(d)", ""),
        ("scale", "d = queries.shape[-1]", "d = queries.shape[1]"),
        (
            "mask-has-effect",
            "masked_softmax(scores, valid_lens)",
            "masked_softmax(scores, None)",
            "class DotProductAttention",
        ),
        (
            "dropout-train",
            "torch.bmm(self.dropout(self.attention_weights), values)",
            "torch.bmm(self.attention_weights, values)",
            "class DotProductAttention",
        ),
        (
            "dropout-eval",
            "self.dropout(self.attention_weights)",
            "nn.functional.dropout(self.attention_weights, self.dropout.p)",
            "class DotProductAttention",
        ),
        ("softmax-axis", "return torch.softmax(X, dim=-1)", "return torch.softmax(X, dim=-2)"),
        ("rows-sum-to-one", "return torch.softmax(X, dim=-1)", "return torch.sigmoid(X)"),
        ("in-place", "d = queries.shape[-1]", "d = queries.shape[-1]\n        queries += 1"),
    ),
    *_of(
        "d2l_style",
        "AdditiveAttention",
        (
            "query-matters",
            "torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))",
            "queries.unsqueeze(2) + keys.unsqueeze(1)",
        ),
        (
            "mask-has-effect",
            "masked_softmax(scores, valid_lens)",
            "masked_softmax(scores, None)",
            "class AdditiveAttention",
        ),
        ("projection-unused", "self.W_q(queries), self.W_k(keys)", "self.W_q(queries), self.W_q(keys)"),
        ("edge-shapes", "scores = self.w_v(features).squeeze(-1)", "scores = self.w_v(features).squeeze()"),
        (
            "dropout-train",
            "self.dropout(self.attention_weights)",
            "self.attention_weights",
            "class AdditiveAttention",
        ),
        (
            "masked-values-leak",
            "torch.bmm(self.dropout(self.attention_weights), values)",
            "torch.bmm(self.attention_weights, values) + values.mean(1, keepdim=True)",
            "class AdditiveAttention",
        ),
    ),
    *_of(
        "d2l_style",
        "MultiHeadAttention",
        (
            "right-lengths",
            "torch.repeat_interleave(valid_lens, self.num_heads, dim=0)",
            "valid_lens.repeat(self.num_heads, *[1] * (valid_lens.dim() - 1))",
        ),
        (
            "heads-mix-positions",
            "X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1).transpose(1, 2)",
            "X = X.reshape(X.shape[0], self.num_heads, X.shape[1], -1)",
        ),
        (
            "heads-mix-positions",
            "return X.transpose(1, 2).reshape(X.shape[0], X.shape[2], -1)",
            "return X.reshape(X.shape[0], X.shape[2], -1)",
        ),
        (
            "mask-has-effect",
            "self.attention(queries, keys, values, valid_lens)",
            "self.attention(queries, keys, values, None)",
        ),
        (
            "output-projection",
            "return self.W_o(self.merge(self.attention(queries, keys, values, valid_lens)))",
            "return self.merge(self.attention(queries, keys, values, valid_lens))",
        ),
        ("projection-unused", "keys = self.split(self.W_k(keys))", "keys = self.split(self.W_q(keys))"),
        ("scale", "d = queries.shape[-1]", "d = queries.shape[-1] * 2"),
    ),
    *_of(
        "d2l_style",
        "PositionalEncoding",
        ("positions-buffer", ".to(X)", "", "class PositionalEncoding"),
        (
            "positions-formula",
            "self.P[:, :, 0::2] = torch.sin(angles)",
            "self.P[:, :, 0:2:] = torch.sin(angles)[:, :2]",
        ),
        ("positions-formula", "num_hiddens, 2, dtype", "2 * num_hiddens, 4, dtype"),
        ("positions-formula", "self.P[:, :, 1::2] = torch.cos", "self.P[:, :, 1::2] = torch.sin"),
        ("positions-added", "X = X + self.P", "X = 0 * X + self.P"),
        ("positions-differ", "self.P[:, : X.shape[1], :]", "self.P[:, 3:4, :]"),
        ("dropout-train", "return self.dropout(X)", "return X", "class PositionalEncoding"),
    ),
    *_of(
        "d2l_style",
        "PositionWiseFFN",
        ("nonlinearity", "self.dense2(self.relu(self.dense1(X)))", "self.dense2(self.dense1(X))"),
        ("hidden-width", "nn.LazyLinear(ffn_num_hiddens)", "nn.LazyLinear(ffn_num_outputs)"),
        ("position-wise", "self.dense1(X)", "self.dense1(X + X.mean(1, keepdim=True))"),
        ("in-place", "self.dense1(X)", "self.dense1(X.mul_(0.5))"),
    ),
    *_of(
        "d2l_style",
        "TransformerEncoderBlock",
        ("mask-has-effect", "self.attention(X, X, X, valid_lens)", "self.attention(X, X, X, None)"),
        ("residual", "return self.ln(self.dropout(Y) + X)", "return self.ln(self.dropout(Y))"),
        ("residual", "return self.addnorm2(Y, self.ffn(Y))", "return self.addnorm2(X, self.ffn(Y))"),
        (
            "norms",
            "self.addnorm2 = AddNorm(num_hiddens, dropout)",
            "self.addnorm2 = self.addnorm1",
            "class TransformerEncoderBlock",
        ),
        ("norm-axis", "self.ln = nn.LayerNorm(norm_shape)", "self.ln = nn.BatchNorm1d(3)"),
        (
            "hidden-width",
            "PositionWiseFFN(ffn_num_hiddens, num_hiddens)",
            "PositionWiseFFN(64, num_hiddens)",
            "class TransformerEncoderBlock",
        ),
    ),
    *_of(
        "d2l_style",
        "TransformerEncoder",
        ("mask-has-effect", "X = blk(X, valid_lens)", "X = blk(X, None)"),
        ("depth", "for _ in range(num_blks)", "for _ in range(1)"),
        (
            "positions-differ",
            "X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens))",
            "X = self.embedding(X) * math.sqrt(self.num_hiddens)",
        ),
        ("dtype-device", ".to(X)", "", "class PositionalEncoding"),
    ),
    *_of(
        "d2l_style",
        "TransformerDecoderBlock",
        (
            "cross-padding",
            "self.attention2(Y, enc_outputs, enc_outputs, enc_valid_lens)",
            "self.attention2(Y, enc_outputs, enc_outputs, None)",
        ),
        ("causality", "torch.arange(1, steps + 1", "torch.arange(2, steps + 2"),
        ("causality", "if self.training:", "if not self.training:"),
        ("incremental", "state[2][self.i] = key_values", "state[2][self.i] = X"),
        ("residual", "Y = self.addnorm1(X, X2)", "Y = self.addnorm1(X2, X2)"),
        ("norms", "self.addnorm3 = AddNorm(num_hiddens, dropout)", "self.addnorm3 = self.addnorm2"),
        ("projection-unused", "Z = self.addnorm2(Y, Y2)", "Z = self.addnorm2(Y, Y)"),
    ),
    *_of(
        "d2l_style",
        "TransformerDecoder",
        ("incremental", "start = 0 if seen is None else seen.shape[1]", "start = 0"),
        ("cross-padding", "return [enc_outputs, enc_valid_lens, [None]", "return [enc_outputs, None, [None]"),
    ),
]

UVA = [
    *_of(
        "uva_style",
        "scaled_dot_product",
        ("scale", "d_k = q.size()[-1]", "d_k = q.size()[-2]"),
        ("scale", "attn_logits / math.sqrt(d_k)", "attn_logits * math.sqrt(d_k)"),
        ("softmax-axis", "F.softmax(attn_logits, dim=-1)", "F.softmax(attn_logits, dim=-2)"),
        ("mask-has-effect", "attn_logits = attn_logits.masked_fill", "attn_logits.masked_fill"),
        ("large-scores", "-9e15", "-1e3"),
        ("masked-weight", "-9e15", "1e-9"),
        ("half", "-9e15", "-1e14"),
        (
            "masked-values-leak",
            "    values = torch.matmul(attention, v)",
            "    values = torch.matmul(attention, v) + 0.1 * v.sum(-2, keepdim=True)",
        ),
        ("fully-masked", "-9e15", '-float("inf")'),
    ),
    *_of(
        "uva_style",
        "MultiheadAttention",
        ("mask-has-effect", "scaled_dot_product(q, k, v, mask=mask)", "scaled_dot_product(q, k, v)"),
        ("right-lengths", "mask = mask.unsqueeze(1)", "mask = mask[:1].unsqueeze(1)"),
        ("heads-mix-positions", "values = values.permute(0, 2, 1, 3)", "pass"),
        (
            "heads-mix-positions",
            "qkv = qkv.reshape(batch_size, seq_length, self.num_heads, 3 * self.head_dim)\n"
            "        qkv = qkv.permute(0, 2, 1, 3)",
            "qkv = qkv.reshape(batch_size, self.num_heads, seq_length, 3 * self.head_dim)",
        ),
        (
            "projection-unused",
            "scaled_dot_product(q, k, v, mask=mask)",
            "scaled_dot_product(q, q, v, mask=mask)",
        ),
        ("output-projection", "o = self.o_proj(values)", "o = values"),
        ("edge-shapes", "o = self.o_proj(values)", "o = self.o_proj(values).squeeze()"),
        ("scale", "d_k = q.size()[-1]", "d_k = 2 * q.size()[-1]"),
    ),
    *_of(
        "uva_style",
        "EncoderBlock",
        ("mask-has-effect", "self.self_attn(x, mask=mask)", "self.self_attn(x)"),
        ("norms", "self.norm2 = nn.LayerNorm(input_dim)", "self.norm2 = self.norm1"),
        ("hidden-width", "self.linear_net = nn", "dim_feedforward = 32\n        self.linear_net = nn"),
        ("nonlinearity", "            nn.ReLU(inplace=True),\n", ""),
        ("residual", "x = x + self.dropout(attn_out)", "x = self.dropout(attn_out)"),
        ("residual", "x = x + self.dropout(linear_out)", "x = self.dropout(linear_out)"),
        ("norms", "        x = self.norm2(x)\n", ""),
        ("in-place", "x = x + self.dropout(attn_out)", "x += self.dropout(attn_out)"),
    ),
    *_of(
        "uva_style",
        "TransformerEncoder",
        ("mask-has-effect", "x = layer(x, mask=mask)", "x = layer(x)"),
        (
            "depth",
            "[EncoderBlock(**block_args) for _ in range(num_layers)]",
            "[EncoderBlock(**block_args)] * num_layers",
        ),
        ("masked-values-leak", "x = layer(x, mask=mask)", "x, mask = layer(x, mask=mask), None"),
    ),
    *_of(
        "uva_style",
        "PositionalEncoding",
        (
            "positions-buffer",
            'self.register_buffer("pe", pe.unsqueeze(0), persistent=False)',
            "self.pe = pe.unsqueeze(0)",
        ),
        ("positions-formula", "-math.log(10000.0) / d_model", "-math.log(1000.0) / d_model"),
        ("positions-added", "x = x + self.pe[:, : x.size(1)]", "x = x * 0 + self.pe[:, : x.size(1)]"),
        ("in-place", "x = x + self.pe[:, : x.size(1)]", "x += self.pe[:, : x.size(1)]"),
        ("positions-differ", "x = x + self.pe[:, : x.size(1)]", "x = x + self.pe[:, x.size(1)]"),
    ),
    *_of(
        "uva_style",
        "TransformerPredictor",
        ("positions-differ", "if add_positional_encoding:", "if True:"),
        ("mask-has-effect", "x = self.transformer(x, mask=mask)", "x = self.transformer(x)"),
        (
            "dropout-train",
            "nn.Sequential(nn.Dropout(input_dropout), nn.Linear(input_dim, model_dim))",
            "nn.Sequential(nn.Linear(input_dim, model_dim))",
        ),
    ),
    *_of(
        "uva_style",
        "img_to_patch",
        ("patch-order", "x = x.permute(0, 2, 4, 1, 3, 5)", "x = x.permute(0, 4, 2, 1, 3, 5)"),
        ("patch-order", "x = x.permute(0, 2, 4, 1, 3, 5)", "x = x.permute(0, 2, 4, 1, 5, 3)"),
        (
            "patch-order",
            "H // patch_size, patch_size, W // patch_size, patch_size",
            "patch_size, H // patch_size, patch_size, W // patch_size",
        ),
    ),
    *_of(
        "uva_style",
        "AttentionBlock",
        ("heads-mix-positions", '"""Of (seq, batch, dim)."""', '"""Of (batch, seq, dim)."""'),
        ("residual", "x = x + self.attn(inp_x, inp_x, inp_x)[0]", "x = self.attn(inp_x, inp_x, inp_x)[0]"),
        ("norms", "self.layer_norm_2(x)", "self.layer_norm_1(x)"),
    ),
    *_of(
        "uva_style",
        "VisionTransformer",
        ("class-token", "cls = x[0]", "cls = x[-1]"),
        ("class-token", "torch.cat([cls_token, x], dim=1)", "torch.cat([x, cls_token], dim=1)"),
        (
            "all-patches",
            "        x = x.transpose(0, 1)\n        x = self.transformer(x)\n        cls = x[0]",
            "        x = self.transformer(x)\n        cls = x[:, 0]",
        ),
        ("positions-differ", "x = x + self.pos_embedding[:, : T + 1]", "x = x + self.pos_embedding[:, :1]"),
        ("patch-order", "x = x.permute(0, 2, 4, 1, 3, 5)", "x = x.permute(0, 4, 2, 1, 3, 5)"),
    ),
]

ANNOTATED = [
    *_of(
        "annotated_style",
        "subsequent_mask",
        ("causality", "diagonal=1", "diagonal=0"),
        (
            "causality",
            "torch.triu(torch.ones(1, size, size), diagonal=1)",
            "torch.tril(torch.ones(1, size, size), -1)",
        ),
        ("causality", "return future == 0", "return future >= 0"),
    ),
    *_of(
        "annotated_style",
        "attention",
        ("scale", "d_k = query.size(-1)", "d_k = query.size(0)"),
        ("softmax-axis", "scores.softmax(dim=-1)", "scores.softmax(dim=1)"),
        ("large-scores", "masked_fill(mask == 0, -1e9)", "masked_fill(mask == 0, -100)"),
        (
            "mask-has-effect",
            "scores = scores.masked_fill(mask == 0, -1e9)",
            "scores.masked_fill(mask == 0, -1e9)",
        ),
        ("rows-sum-to-one", "scores.softmax(dim=-1)", "scores.softmax(dim=-1) / 2"),
    ),
    *_of(
        "annotated_style",
        "MultiHeadedAttention",
        ("mask-has-effect", "mask=mask, dropout=self.dropout", "dropout=self.dropout"),
        (
            "heads-mix-positions",
            "lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)",
            "lin(x).view(nbatches, self.h, -1, self.d_k)",
        ),
        ("output-projection", "return self.linears[-1](x)", "return x"),
        ("edge-shapes", "nbatches = query.size(0)", "nbatches = 5"),
        ("dropout-train", "mask=mask, dropout=self.dropout", "mask=mask"),
        (
            "projection-unused",
            "zip(self.linears, (query, key, value), strict=False)",
            "zip([self.linears[0]] * 3, (query, key, value), strict=False)",
        ),
    ),
    *_of(
        "annotated_style",
        "PositionwiseFeedForward",
        ("nonlinearity", "self.w_1(x).relu()", "self.w_1(x)"),
        ("dropout-train", "self.dropout(self.w_1(x).relu())", "self.w_1(x).relu()"),
        (
            "hidden-width",
            "self.w_1 = nn.Linear(d_model, d_ff)\n        self.w_2 = nn.Linear(d_ff, d_model)",
            "self.w_1 = nn.Linear(d_model, 2048)\n        self.w_2 = nn.Linear(2048, d_model)",
        ),
        ("projection-unused", "return self.w_2(", "return (lambda h: h[..., : x.shape[-1]])("),
    ),
    *_of(
        "annotated_style",
        "EncoderLayer",
        ("mask-has-effect", "self.self_attn(x, x, x, mask)", "self.self_attn(x, x, x)"),
        (
            "residual",
            "return x + self.dropout(sublayer(self.norm(x)))",
            "return self.dropout(sublayer(self.norm(x)))",
        ),
        (
            "norms",
            "return self.sublayer[1](x, self.feed_forward)",
            "return self.sublayer[0](x, self.feed_forward)",
        ),
        (
            "dropout-train",
            "return x + self.dropout(sublayer(self.norm(x)))",
            "return x + sublayer(self.norm(x))",
        ),
        (
            "norm-axis",
            "mean = x.mean(-1, keepdim=True)\n        std = x.std(-1, keepdim=True)",
            "mean = x.mean((1, 2), keepdim=True)\n        std = x.std((1, 2), keepdim=True)",
        ),
    ),
    *_of(
        "annotated_style",
        "DecoderLayer",
        ("cross-padding", "self.src_attn(x, m, m, src_mask)", "self.src_attn(x, m, m)"),
        ("mask-has-effect", "self.self_attn(x, x, x, tgt_mask)", "self.self_attn(x, x, x)"),
        ("projection-unused", "self.src_attn(x, m, m, src_mask)", "self.self_attn(x, m, m, src_mask)"),
        (
            "norms",
            "return self.sublayer[2](x, self.feed_forward)",
            "return self.sublayer[1](x, self.feed_forward)",
        ),
    ),
    *_of(
        "annotated_style",
        "Encoder",
        ("mask-has-effect", "x = layer(x, mask)", "x = layer(x, None)"),
        (
            "depth",
            "self.layers = clones(layer, N)",
            "self.layers = nn.ModuleList([layer] * N)",
            "class Encoder(nn",
        ),
        ("closing-norm", "return self.norm(x)", "return x", "class Encoder(nn"),
    ),
    *_of(
        "annotated_style",
        "Decoder",
        ("cross-padding", "x = layer(x, memory, src_mask, tgt_mask)", "x = layer(x, memory, None, tgt_mask)"),
        (
            "mask-has-effect",
            "x = layer(x, memory, src_mask, tgt_mask)",
            "x = layer(x, memory, src_mask, None)",
        ),
    ),
    *_of(
        "annotated_style",
        "make_model",
        (
            "cross-padding",
            "self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)",
            "self.decoder(self.tgt_embed(tgt), memory, None, tgt_mask)",
        ),
        (
            "mask-has-effect",
            "self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)",
            "self.decoder(self.tgt_embed(tgt), memory, src_mask, None)",
        ),
        (
            "positions-formula",
            "pe[:, 1::2] = torch.cos(position * div_term)",
            "pe[:, 1::2] = torch.cos(position / div_term)",
        ),
    ),
]

TORCH = [
    *_of(
        "torch_style",
        "MultiheadAttention",
        (
            "mask-has-effect",
            "scores = scores.masked_fill(key_padding_mask[:, None, None, :], -math.inf)",
            "pass",
        ),
        ("mask-polarity", "key_padding_mask[:, None, None, :]", "~key_padding_mask[:, None, None, :]"),
        ("scale", "self.head_dim**-0.5", "D**-0.5"),
        ("projection-unused", "F.linear(key, w_k, b_k)", "F.linear(key, w_q, b_q)"),
        ("heads-mix-positions", "mixed.transpose(1, 2).reshape(B, T, D)", "mixed.reshape(B, T, D)"),
        (
            "dropout-eval",
            "F.dropout(weights, self.dropout, self.training)",
            "F.dropout(weights, self.dropout)",
        ),
        ("dropout-train", "F.dropout(weights, self.dropout, self.training)", "weights"),
        ("right-lengths", "key_padding_mask[:, None, None, :]", "key_padding_mask[:1, None, None, :]"),
    ),
    *_of(
        "torch_style",
        "TransformerEncoderLayer",
        ("mask-has-effect", "key_padding_mask=src_key_padding_mask, ", "", "class TransformerEncoderLayer"),
        ("mask-has-effect", "attn_mask=src_mask, ", ""),
        ("residual", "return self.norm2(src + self.dropout(fed))", "return self.norm2(self.dropout(fed))"),
        ("norms", "return self.norm2(src + self.dropout(fed))", "return self.norm1(src + self.dropout(fed))"),
        ("nonlinearity", "F.gelu(self.linear1(src))", "self.linear1(src)"),
    ),
    *_of(
        "torch_style",
        "TransformerDecoderLayer",
        ("causality", ".triu(1)", ".triu(2)"),
        ("causality", "if tgt_mask is None:", "if tgt_mask is None and self.training:"),
        (
            "cross-padding",
            "key_padding_mask=memory_key_padding_mask, need_weights=False",
            "need_weights=False",
        ),
        (
            "residual",
            "tgt = self.norm2(tgt + self.dropout(crossed))",
            "tgt = self.norm2(self.dropout(crossed))",
        ),
    ),
    *_of(
        "torch_style",
        "generate_square_subsequent_mask",
        ("causality", "torch.triu(", "torch.tril("),
        ("causality", 'float("-inf")', "-1.0"),
    ),
    *_of(
        "torch_style",
        "PositionalEncoding",
        ("positions-differ", '"""Of (seq_len, batch, d_model)."""', '"""Of (batch, seq_len, d_model)."""'),
        ("positions-buffer", 'self.register_buffer("pe", pe)', "self.pe = pe"),
    ),
]

PLAIN = [
    *_of(
        "plain_style",
        "masked_softmax",
        ("masked-weight", "torch.finfo(scores.dtype).min", "-1.0"),
        ("softmax-axis", ".softmax(dim)", ".softmax(0)"),
        ("mask-has-effect", "scores.masked_fill(hidden, torch.finfo(scores.dtype).min)", "scores"),
    ),
    *_of(
        "plain_style",
        "ScaledDotProductAttention",
        ("scale", "q / self.temperature", "q / self.temperature**2"),
        ("large-scores", "* torch.finfo(attn.dtype).min", "* -1000.0"),
        (
            "dropout-eval",
            "self.dropout(F.softmax(attn, dim=-1))",
            "F.dropout(F.softmax(attn, dim=-1), self.dropout.p)",
        ),
    ),
    *_of(
        "plain_style",
        "BahdanauAttention",
        ("query-matters", "torch.tanh(self.Wa(query) + self.Ua(keys))", "self.Wa(query) + self.Ua(keys)"),
        ("softmax-axis", "F.softmax(scores, dim=-1)", "F.softmax(scores, dim=0)"),
        ("mask-polarity", ">= lengths[:, None, None]", "< lengths[:, None, None]"),
        ("projection-unused", "self.Wa(query) + self.Ua(keys)", "self.Wa(query) + self.Wa(keys)"),
    ),
    *_of(
        "plain_style",
        "SelfAttention",
        ("softmax-axis", "dim=3", "dim=1"),
        ("scale", "energy / (self.head_dim**0.5)", "energy / ((self.heads * self.head_dim) ** 0.5)"),
        ("large-scores", 'float("-1e20")', 'float("-1e2")'),
        ("heads-mix-positions", '"nhql,nlhd->nqhd"', '"nhql,nlhd->nhqd"'),
    ),
    *_of(
        "plain_style",
        "TransformerBlock",
        ("residual", "self.norm2(forward + x)", "self.norm2(forward + query)"),
        (
            "mask-has-effect",
            "self.attention(value, key, query, mask)",
            "self.attention(value, key, query, None)",
        ),
        ("hidden-width", "forward_expansion * embed_size", "4 * embed_size"),
    ),
    *_of(
        "plain_style",
        "create_look_ahead_mask",
        ("causality", "torch.tril(torch.ones(size, size))", "torch.tril(torch.ones(size, size), -1)"),
        ("causality", "1 - torch.tril(torch.ones(size, size))", "torch.triu(torch.ones(size, size))"),
    ),
    *_of(
        "plain_style",
        "positional_encoding",
        ("positions-formula", "2 * (columns // 2)", "2 * columns"),
        (
            "positions-differ",
            "positions = torch.arange(length)[:, None]",
            "positions = torch.full((length, 1), length)",
        ),
    ),
    *_of(
        "plain_style",
        "LearnedPositionalEmbedding",
        (
            "positions-differ",
            "torch.arange(x.shape[1], device=x.device)",
            "torch.zeros(x.shape[1], dtype=torch.long)",
        ),
        ("positions-added", "return x + self.table(places)", "return self.table(places).expand_as(x)"),
    ),
    *_of(
        "plain_style",
        "CausalSelfAttention",
        ("causality", "torch.tril(torch.ones(", "torch.ones_like(torch.ones("),
        ("causality", "att = att.masked_fill(", "att = att if not self.training else att.masked_fill("),
        ("scale", "math.sqrt(k.size(-1))", "math.sqrt(C)"),
        (
            "heads-mix-positions",
            "(att @ v).transpose(1, 2).contiguous().view(B, T, C)",
            "(att @ v).reshape(B, T, C)",
        ),
    ),
    *_of(
        "plain_style",
        "MLP",
        ("nonlinearity", "F.gelu(self.c_fc(x))", "self.c_fc(x)"),
        (
            "dropout-train",
            "self.dropout(self.c_proj(F.gelu(self.c_fc(x))))",
            "self.c_proj(F.gelu(self.c_fc(x)))",
        ),
        ("position-wise", "F.gelu(self.c_fc(x))", "F.gelu(self.c_fc(x)).cumsum(1)"),
    ),
    *_of(
        "plain_style",
        "Block",
        ("residual", "x = x + self.attn(self.ln_1(x))", "x = self.attn(self.ln_1(x))"),
        ("residual", "x = x + self.attn(self.ln_1(x))", "x = self.ln_1(x)\n        x = x + self.attn(x)"),
        ("norms", "self.mlp(self.ln_2(x))", "self.mlp(self.ln_1(x))"),
    ),
    *_of(
        "plain_style",
        "GPT",
        ("causality", "torch.tril(torch.ones(", "torch.ones_like(torch.ones("),
        ("depth", "[Block(config) for _ in range(config.n_layer)]", "[Block(config)] * config.n_layer"),
        ("positions-differ", "self.wte(idx) + self.wpe(places)", "self.wte(idx) + self.wpe(places[-1:])"),
        (
            "dropout-eval",
            "self.drop(self.wte(idx) + self.wpe(places))",
            "F.dropout(self.wte(idx) + self.wpe(places), self.drop.p)",
        ),
    ),
    *_of(
        "plain_style",
        "PatchEmbedding",
        ("patch-order", ".flatten(2).transpose(1, 2)", ".transpose(2, 3).flatten(2).transpose(1, 2)"),
        (
            "patch-order",
            ".flatten(2).transpose(1, 2)",
            ".flatten(2).reshape(len(x), -1, self.proj.out_channels)",
        ),
    ),
    *_of(
        "plain_style",
        "ViT",
        ("class-token", "self.norm(x)[:, 0]", "self.norm(x)[:, -1]"),
        ("positions-differ", "x + self.pos_embedding", "x + self.pos_embedding[:, :1]"),
        (
            "residual",
            "x = x + self.attn(y, y, y, need_weights=False)[0]",
            "x = self.attn(y, y, y, need_weights=False)[0]",
        ),
        ("all-patches", "dropout=dropout, batch_first=True", "dropout=dropout"),
        (
            "depth",
            "[ViTBlock(dim, heads, mlp_dim, dropout) for _ in range(depth)]",
            "[ViTBlock(dim, heads, mlp_dim, dropout)] * depth",
        ),
    ),
]

PUBLIC = [
    *_of(
        "public_style",
        "sdp_attention",
        ("causality", "triu(diagonal=1)", "triu(diagonal=2)"),
        ("causality", "if is_causal:", "if is_causal and training:"),
        ("dropout-train", "F.dropout(weights, dropout_p, training)", "weights"),
        ("dropout-eval", "F.dropout(weights, dropout_p, training)", "F.dropout(weights, dropout_p)"),
        ("dtype-device", "query.new_zeros(length, size)", "torch.zeros(length, size)"),
    ),
    *_of(
        "public_style",
        "Head",
        ("scale", " * self.key.out_features**-0.5", "", "class Head("),
        ("softmax-axis", "scores.softmax(-1)", "scores.softmax(-2)", "class Head("),
        ("projection-unused", "@ self.value(x)", "@ self.key(x)", "class Head("),
        ("mask-has-effect", "scores = scores.masked_fill(hidden", "scores.masked_fill(hidden", "class Head("),
    ),
    *_of("public_style", "causal_mask", ("causality", ".unsqueeze(1) + past_len", ".unsqueeze(1)")),
    *_of("public_style", "make_std_mask", ("causality", "tgt != pad", "tgt == pad")),
    *_of(
        "public_style",
        "MultiHead",
        ("in-place", "msk.bool()", "msk.logical_not_().logical_not()"),
        ("scale", "self.key.out_features**-0.5", "x.shape[-1] ** -0.5"),
    ),
    *_of(
        "public_style",
        "BatchedAttention",
        ("heads-mix-positions", "= num_heads, batch_first", "= num_heads, True"),
        ("scale", "F.scaled_dot_product_attention(q, k, v)", "F.scaled_dot_product_attention(q / 2, k, v)"),
    ),
    *_of(
        "public_style",
        "CachedCausalAttention",
        ("incremental", '["k"], k], 2)', '["k"], k.flip(1)], 2)'),
        ("causality", ".tril(k.shape[2] - length)", ".tril(k.shape[2] - length + 1)"),
    ),
    *_of(
        "public_style",
        "PositionwiseFeedForward",
        ("closing-residual", "self.layer_norm(x + residual)", "self.layer_norm(x)"),
        ("projection-unused", "self.layer_norm(x + residual)", "x + residual"),
    ),
    *_of(
        "public_style",
        "EncoderLayer",
        ("residual", "enc_input + self.dropout(mixed)", "self.dropout(mixed)"),
    ),
    *_of(
        "public_style",
        "TextClassifier",
        ("masked-values-leak", "x = x.masked_fill(pad.unsqueeze(-1), 0.0)", "pass"),
        ("edge-shapes", ".squeeze(1)", ".squeeze()"),
        ("positions-differ", "self.tok(tokens) + self.pos(steps)", "self.tok(tokens) + self.pos(steps[-1:])"),
    ),
    *_of(
        "public_style",
        "Seq2SeqTransformer",
        ("cross-padding", "            memory_key_padding_mask,\n", "            None,\n"),
        ("causality", "            tgt_mask,\n", "            None,\n"),
    ),
    *_of(
        "public_style",
        "PatchEmbedding",
        ("patch-order", "self.rows, self.columns = height", "self.columns, self.rows = height"),
        ("patch-order", "cut.permute(0, 2, 4, 3, 5, 1)", "cut.permute(0, 4, 2, 3, 5, 1)"),
    ),
]

COURSE = [
    *_of("course_style", "look_ahead", ("dtype-device", ", device=x.device", "")),
    *_of("course_style", "causal_mask", ("causality", ".tril(kv_len - q_len)", ".tril()")),
    *_of(
        "course_style",
        "BahdanauAttention",
        ("edge-shapes", ".squeeze(-1)", ".squeeze()"),
        ("mask-has-effect", "mask == 0", "mask == 2"),
        (
            "query-matters",
            "torch.tanh((s @ self.W).unsqueeze(1) + h @ self.U)",
            "((s @ self.W).unsqueeze(1) + h @ self.U)",
        ),
    ),
    *_of(
        "course_style",
        "StepAttention",
        ("softmax-axis", "F.softmax(e, dim=1)", "F.softmax(e, dim=0)"),
        ("masked-weight", "torch.finfo(e.dtype).min", "0.0", "class StepAttention"),
    ),
    *_of(
        "course_style",
        "RecurrentDecoder",
        ("cross-padding", "self.attention(hidden, enc_out, mask)", "self.attention(hidden, enc_out)"),
        ("projection-unused", "torch.cat([word, context], dim=1)", "torch.cat([word, context * 0], dim=1)"),
    ),
    *_of(
        "course_style",
        "BlocDecodeur",
        (
            "residual",
            "self.n2(y + self.croisee(y, memoire, memoire))",
            "self.n2(self.croisee(y, memoire, memoire))",
        ),
        ("norms", "return self.n3(", "return self.n2("),
        ("nonlinearity", "nn.ReLU()", "nn.Identity()"),
        (
            "hidden-width",
            "nn.Linear(d, pf_dim), nn.ReLU(), nn.Linear(pf_dim, d)",
            "nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)",
        ),
    ),
    *_of(
        "course_style",
        "SpeechFeedForward",
        ("nonlinearity", "self.act(h)", "h"),
        ("position-wise", "self.shrink(self.act(h))", "self.shrink(self.act(h + h.roll(1, 1)))"),
    ),
    *_of(
        "course_style",
        "GatedFeedForward",
        ("hidden-width", "hidden = cfg.hidden_dim", "hidden = 4 * cfg.dim"),
    ),
    *_of("course_style", "LearnedPos", ("edge-shapes", "[: x.size(1)]", "")),
    *_of(
        "course_style",
        "GPTLayer",
        ("incremental", "torch.cat([kv[1], v], dim=2)", "torch.cat([v, kv[1]], dim=2)"),
        ("causality", "attn_mask=shown", "attn_mask=None"),
    ),
    *_of(
        "course_style",
        "CharModel",
        ("causality", "hide = True", "hide = targets is not None"),
        ("incremental", "start = caches[0]", "start = 0 and caches[0]"),
        ("depth", "range(cfg.n_layers)", "range(2)", "class CharModel"),
        ("residual", "x = x + self.wo(", "x = self.norm(x) + self.wo(", "class CharLayer"),
    ),
    *_of(
        "course_style",
        "SeriesEncoder",
        ("mask-has-effect", "src_key_padding_mask=missing", "src_key_padding_mask=None"),
        ("depth", "range(cfg.n_layers)", "range(2)"),
    ),
    *_of(
        "course_style", "SatzKlassifikator", ("padding", "x = x.masked_fill(leer.unsqueeze(-1), 0.0)", "pass")
    ),
    *_of(
        "course_style",
        "Patchify",
        ("patch-order", "x.permute(0, 2, 4, 1, 3, 5)", "x.permute(0, 4, 2, 1, 3, 5)"),
    ),
    *_of(
        "course_style",
        "Seq2SeqAttentionDecoder",
        (
            "cross-padding",
            "self.attention(hidden_state[-1], outputs, mask)",
            "self.attention(hidden_state[-1], outputs)",
        ),
        ("incremental", "[outputs, hidden_state, lens]", "[outputs, state[1], lens]"),
    ),
    *_of(
        "course_style",
        "LuongDecoder",
        ("softmax-axis", "energy.softmax(dim=2)", "energy.softmax(dim=1)"),
        ("large-scores", "torch.finfo(energy.dtype).min", "-20.0"),
    ),
    *_of(
        "course_style",
        "TwoMaskAttention",
        (
            "mask-has-effect",
            "visible = shown if visible is None else visible & shown",
            "visible = shown if visible is None else visible",
        ),
    ),
    *_of(
        "course_style",
        "NormPlacedEncoderLayer",
        ("residual", "x = x + self.attention(z, z, z)", "x = z + self.attention(z, z, z)"),
        (
            "residual",
            "x = self.norm1(x + self.attention(x, x, x))",
            "x = self.norm1(self.attention(x, x, x))",
        ),
    ),
    *_of(
        "course_style",
        "PlacedPositions",
        ("dtype-device", "torch.arange(x.shape[1], device=x.device)", "torch.arange(x.shape[1])"),
    ),
    *_of("course_style", "target_mask", ("causality", "tgt != pad", "tgt != 0")),
]

TWINS = [*D2L, *UVA, *ANNOTATED, *TORCH, *PLAIN, *PUBLIC, *COURSE]
