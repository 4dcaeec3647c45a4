"""The settings of a config class, read from its JSON schema: keys, allowed values, defaults and meanings."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

Schema = dict[str, Any]

REQUIRED = "required"  # in place of a default
TYPES = {
    "integer": "integer",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "array": "list of text",
    "object": "number per name",
}
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
LARGEST = 10**9  # larger bounds are those of number formats

# What the settings are called elsewhere, and here.
SYNONYMS = {
    "augment": ("augmentation", "augmentations", "transform", "transforms"),
    "average": ("ema", "ema_decay", "swa"),
    "batch": ("batch_size", "bs", "minibatch"),
    "causal": ("autoregressive", "is_causal"),
    "clip": ("clip_grad", "grad_clip", "gradient_clip", "max_grad_norm", "clip_norm"),
    "decay": ("weight_decay", "wd", "l2"),
    "depth": ("layers", "num_layers", "n_layers", "n_layer", "blocks", "num_blocks", "num_hidden_layers"),
    "dropout": ("dropout_rate", "drop", "p_drop", "dropout_p"),
    "encoder_depth": ("layers", "num_layers", "depth", "encoder_layers", "num_encoder_layers"),
    "decoder_depth": ("decoder_layers", "num_decoder_layers"),
    "freeze": ("frozen", "freeze_layers", "frozen_layers", "unfreeze"),
    "epochs": ("epoch", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs"),
    "evaluate_every": ("eval_every", "eval_interval", "eval_steps"),
    "heads": ("head", "num_heads", "n_heads", "n_head", "nhead", "num_attention_heads"),
    "hidden": ("d_ff", "ff", "ffn", "dim_feedforward", "feedforward", "mlp_dim", "mlp", "intermediate_size"),
    "limit": ("max_examples", "max_samples", "subset", "num_examples"),
    "longest": ("max_len", "max_length", "max_seq_len", "seq_len"),
    "optimiser": ("optimizer", "optim"),
    "patch": ("patch_size",),
    "path": ("data", "file", "folder", "dataset"),
    "patience": ("early_stopping", "early_stop"),
    "pooling": ("pool",),
    "positions": ("pos", "pos_emb", "positional_encoding", "position_encoding"),
    "precision": ("dtype", "amp", "bf16"),
    "rate": ("lr", "learning_rate"),
    "rates": ("learning_rates", "layer_lrs", "discriminative_lr", "lr_factors"),
    "save_every": ("save_interval", "checkpoint_every", "save_steps"),
    "schedule": ("scheduler", "lr_scheduler", "lr_schedule"),
    "seed": ("random_seed", "random_state"),
    "size": ("vocab_size", "vocab", "vocabulary_size"),
    "smoothing": ("label_smoothing",),
    "vocabulary_size": ("vocab_size", "vocab"),
    "warmup": ("warmup_steps", "warm_up"),
    "width": (
        "d_model",
        "dim",
        "embed_dim",
        "emb_dim",
        "embedding_dim",
        "n_embd",
        "hidden_size",
        "model_dim",
    ),
}


@dataclass(frozen=True)
class Setting:
    """One setting, with its value in an experiment; without an experiment, the value is the default."""

    key: str
    allowed: str
    default: Any
    meaning: str
    value: Any

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition(".")[2]


@dataclass(frozen=True)
class Section:
    """The settings of one config: `kind` is set if there are several kinds to choose from."""

    name: str
    kind: str
    meaning: str
    settings: tuple[Setting, ...]


def path_of(section: Section) -> str:
    """The section and its kind, such as "model.vit"."""
    return f"{section.name}.{section.kind}" if section.kind else section.name


def sections(schema: Schema, values: dict[str, Any] | None = None) -> list[Section]:
    """All sections of the schema of a config; with `values`, the sections of these values."""
    return list(_walk(schema, schema, "", "", (), values))


def _walk(
    schema: Schema, place: Schema, name: str, kind: str, kinds: Collection[str], values: Any
) -> Iterator[Section]:
    """The section of one part of the schema and those below it; `kinds` are the kinds that it can have."""
    place = resolve(schema, place)
    own, below = list[Setting](), list[Section]()
    known = values if isinstance(values, dict) else {}
    for field_name, field in place.get("properties", {}).items():
        key = f"{name}.{field_name}" if name else field_name
        inside = known.get(field_name)
        choices = field.get("discriminator", {}).get("mapping", {})
        chosen = str(inside.get("kind")) if isinstance(inside, dict) else ""
        for one in [chosen] if chosen in choices else choices:
            below += _walk(schema, {"$ref": choices[one]}, key, one, choices, inside)
        if "$ref" in field:
            below += _walk(schema, field, key, "", (), inside)
        elif not choices:
            default = field.get("default", REQUIRED)
            allowed = _one_of(kinds) if kinds and field_name == "kind" else _allowed(field)
            value = known.get(field_name, default)
            own.append(Setting(key, allowed, default, field.get("description", ""), value))
    meaning = str(place.get("description", "")).partition("\n\n")[0]
    yield Section(name, kind, " ".join(meaning.split()), tuple(own))
    yield from below


def resolve(schema: Schema, place: Schema) -> Schema:
    """The part of a schema that a part refers to."""
    while "$ref" in place:
        place = schema["$defs"][place["$ref"].rsplit("/", 1)[-1]]
    return place


def _allowed(field: Schema) -> str:
    """The allowed values of a field, as text: "integer, at least 1, at most 1,000"."""
    options = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    if "enum" in field or "const" in field:
        return _one_of(field.get("enum", [field.get("const")]))
    words = [TYPES.get(str(options[0].get("type")), "list")]
    if options[0].get("items", {}).get("type") == "number":
        words = ["list of numbers"]
    for bound, word in BOUNDS.items():
        limit = options[0].get(bound, field.get(bound))
        if limit is not None and abs(limit) <= LARGEST:
            words.append(f"{word} {limit:,}")
    return ", ".join(words)


def _one_of(values: Iterable[object]) -> str:
    """ "a, b or c" """
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def is_called(key: str, name: str) -> bool:
    """Whether this is the name of a setting, here or elsewhere: `lr` is train.rate."""
    last = key.rpartition(".")[2]
    return name.replace("-", "_") in (last, *SYNONYMS.get(last, ()))


def suggest_key(key: str, known: list[str]) -> str | None:
    """The known key that `key` most likely means: in another section, under another name, or misspelled."""
    *path, last = key.replace("-", "_").split(".")
    called = [last, *(name for name, others in SYNONYMS.items() if last in others)]
    by_name = [other for name in called for other in known if other.rpartition(".")[2] == name]
    in_section = [other for other in by_name if other.startswith(".".join([*path, ""]))] if path else []
    near = get_close_matches(key, known, n=1)
    names = get_close_matches(last, [other.rpartition(".")[2] for other in known], n=1, cutoff=0.75)
    near += [other for other in known if names and other.rpartition(".")[2] == names[0]]
    return next(iter([*in_section, *by_name, *near]), None)
