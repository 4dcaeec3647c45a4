"""Pictures of attention, on matplotlib's Figure interface: no global state, no screen needed."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from limelight.errors import wrong

COLOURS = "viridis"  # even steps for every kind of colour vision, and in grey


def draw_attention(
    weights: Tensor,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
) -> Figure:
    """(H, T, S) -> a sheet with one map a head

    Row: who looks. Column: what is looked at. `queries` and `keys` are the tokens; for
    self-attention `keys` may be left out.
    """
    if weights.dim() != 3:
        raise wrong("weights", f"of shape {tuple(weights.shape)}", "(H, T, S), one sequence")
    heads, rows, columns = weights.shape
    keys = queries if keys is None and rows == columns else keys
    for name, tokens, size in (("queries", queries, rows), ("keys", keys, columns)):
        if tokens is not None and len(tokens) != size:
            raise wrong(name, f"{len(tokens)} tokens", f"{size}, as the weights")
    across = min(heads, 4)
    down = math.ceil(heads / across)
    figure = Figure(
        figsize=(1.2 + across * max(2.2, 0.3 * columns), 1.2 + down * max(2.2, 0.3 * rows)),
        layout="constrained",
    )
    grid = figure.subplots(down, across, squeeze=False).flatten()
    for head, axes in enumerate(grid):
        if head < heads:
            _draw_map(axes, weights[head], queries, keys)
            axes.set_title(f"head {head}", fontsize=10)
        else:
            axes.set_axis_off()
    figure.colorbar(grid[0].images[0], ax=list(grid), label="weight", shrink=0.8)
    figure.supylabel("query: who looks", fontsize=10)
    figure.supxlabel("key: what is looked at", fontsize=10)
    if title:
        figure.suptitle(title, fontsize=12)
    return figure


def _draw_map(
    axes: Axes, weights_TS: Tensor, queries: Sequence[str] | None, keys: Sequence[str] | None
) -> None:
    # One scale for all heads: a weak head must not look like a strong one.
    axes.imshow(weights_TS.float().cpu().numpy(), cmap=COLOURS, vmin=0.0, vmax=1.0)
    if queries is not None:
        axes.set_yticks(range(len(queries)), _plain(queries), fontsize=8)
    if keys is not None:
        axes.set_xticks(range(len(keys)), _plain(keys), fontsize=8, rotation=90)


def _plain(tokens: Sequence[str]) -> list[str]:
    """A dollar sign in a token is a dollar sign, not the beginning of a formula."""
    return [token.replace("$", r"\$") for token in tokens]
