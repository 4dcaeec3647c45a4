// Draws what of the flow is in sight: at 512 tokens that is a small part.
import { font, inks } from "./canvas.js";
import { headColour } from "./colours.js";
import { fitted } from "./heatmap.js";
import { opacity, placeOf, rowHeight, thickness } from "./lines.js";
import { visible } from "./words.js";

const TALLEST = 640; // of what is seen at once; more tokens scroll
const WIDEST = 900;
const FAINT = 0.02; // a token with less of the weight steps back

export function shapeOf({ rows, columns }, room, labels, scrolled) {
  const tokens = Math.max(rows, columns);
  const height = rowHeight(tokens);
  const total = tokens * height;
  const seen = Math.min(total, TALLEST);
  const width = Math.min(room, WIDEST);
  const side = Math.min(Math.max(...labels, 48) + 18, width * 0.3);
  const top = Math.max(0, Math.min(scrolled, total - seen));
  const limits = [Math.floor(top / height), Math.ceil((top + seen) / height)];
  return { height, total, seen, width, top, limits, left: side, right: width - side };
}

export function drawLines(pen, lines, { rows, columns }, { height, left, right }) {
  const middle = (left + right) / 2;
  for (const { head, row, column, weight } of lines) {
    const [from, to] = [placeOf(row, rows, columns, height), placeOf(column, columns, rows, height)];
    pen.beginPath();
    pen.moveTo(left, from);
    pen.bezierCurveTo(middle, from, middle, to, right, to);
    pen.strokeStyle = headColour(head);
    pen.globalAlpha = opacity(weight);
    pen.lineWidth = thickness(weight);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

// shares: how much of the focus's weight each token of the other side has; null without a focus
export function drawTokens(pen, side, weights, shape, focus, shares) {
  const tokens = weights[side];
  const other = weights[side === "queries" ? "keys" : "queries"].length;
  const ink = inks();
  const isOther = focus !== null && focus.side !== side;
  tokens.forEach((token, index) => {
    const y = placeOf(index, tokens.length, other, shape.height);
    const at = y / shape.height;
    if (at < shape.limits[0] || at > shape.limits[1]) return;
    const isFocus = focus !== null && !isOther && focus.index === index;
    const share = isFocus ? 1 : isOther ? shares[index] : 0;
    drawShare(pen, side, y, share, shape, isFocus ? 1 : 0.25, ink);
    pen.globalAlpha = focus === null || isFocus || share > FAINT ? 1 : 0.5;
    pen.fillStyle = isFocus ? ink.surface : ink.text;
    pen.font = font(Math.min(13, shape.height - 3), isFocus ? 650 : 400);
    drawToken(pen, side, visible(token), y, shape);
    pen.globalAlpha = 1;
  });
}

function drawToken(pen, side, text, y, { left, right }) {
  const isQuery = side === "queries";
  pen.textBaseline = "middle";
  pen.textAlign = isQuery ? "right" : "left";
  pen.fillText(fitted(pen, text, left - 16), isQuery ? left - 8 : right + 8, y);
}

function drawShare(pen, side, y, share, { height, left, right }, alpha, ink) {
  const length = (left - 2) * Math.min(1, share);
  pen.fillStyle = ink.accent;
  pen.globalAlpha = alpha;
  pen.fillRect(side === "queries" ? left - length : right, y - height / 2 + 1, length, height - 2);
  pen.globalAlpha = 1;
}
