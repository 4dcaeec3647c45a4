// Draws the visible part of the flow: with 512 tokens that is a small part.
import { font, themeColours } from "./canvas.js";
import { headColour } from "./colours.js";
import { displayToken } from "./format.js";
import { truncate } from "./heatmap.js";
import { opacity, rowHeight, thickness, yOf } from "./lines.js";

const MAX_HEIGHT = 640; // of the visible part; more tokens scroll
const MAX_WIDTH = 900;
const FAINT = 0.02; // tokens with a smaller share of the weight are faded

// The geometry of the drawing: lines run from x = left to x = right, `limits` are the first and last visible
// row.
export function shapeOf({ rows, columns }, availableWidth, labelWidths, scrollTop) {
  const tokens = Math.max(rows, columns);
  const height = rowHeight(tokens);
  const total = tokens * height;
  const viewHeight = Math.min(total, MAX_HEIGHT);
  const width = Math.min(availableWidth, MAX_WIDTH);
  const side = Math.min(Math.max(...labelWidths, 48) + 18, width * 0.3);
  const top = Math.max(0, Math.min(scrollTop, total - viewHeight));
  const limits = [Math.floor(top / height), Math.ceil((top + viewHeight) / height)];
  return { height, total, viewHeight, width, top, limits, left: side, right: width - side };
}

export function drawLines(ctx, lines, { rows, columns }, { height, left, right }) {
  const middle = (left + right) / 2;
  for (const { head, row, column, weight } of lines) {
    const [from, to] = [yOf(row, rows, columns, height), yOf(column, columns, rows, height)];
    ctx.beginPath();
    ctx.moveTo(left, from);
    ctx.bezierCurveTo(middle, from, middle, to, right, to);
    ctx.strokeStyle = headColour(head);
    ctx.globalAlpha = opacity(weight);
    ctx.lineWidth = thickness(weight);
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
}

// shares: the share of each token of the other side in the weight of the focused token; null without a focus
export function drawTokens(ctx, side, weights, shape, focus, shares) {
  const tokens = weights[side];
  const other = weights[side === "queries" ? "keys" : "queries"].length;
  const colours = themeColours();
  const isOther = focus !== null && focus.side !== side;
  tokens.forEach((token, index) => {
    const y = yOf(index, tokens.length, other, shape.height);
    const at = y / shape.height;
    if (at < shape.limits[0] || at > shape.limits[1]) return;
    const isFocus = focus !== null && !isOther && focus.index === index;
    const share = isFocus ? 1 : isOther ? shares[index] : 0;
    drawShare(ctx, side, y, share, shape, isFocus ? 1 : 0.25, colours);
    ctx.globalAlpha = focus === null || isFocus || share > FAINT ? 1 : 0.5;
    ctx.fillStyle = isFocus ? colours.surface : colours.text;
    ctx.font = font(Math.min(13, shape.height - 3), isFocus ? 650 : 400);
    drawToken(ctx, side, displayToken(token), y, shape);
    ctx.globalAlpha = 1;
  });
}

function drawToken(ctx, side, text, y, { left, right }) {
  const isQuery = side === "queries";
  ctx.textBaseline = "middle";
  ctx.textAlign = isQuery ? "right" : "left";
  ctx.fillText(truncate(ctx, text, left - 16), isQuery ? left - 8 : right + 8, y);
}

function drawShare(ctx, side, y, share, { height, left, right }, alpha, colours) {
  const length = (left - 2) * Math.min(1, share);
  ctx.fillStyle = colours.accent;
  ctx.globalAlpha = alpha;
  ctx.fillRect(side === "queries" ? left - length : right, y - height / 2 + 1, length, height - 2);
  ctx.globalAlpha = 1;
}
