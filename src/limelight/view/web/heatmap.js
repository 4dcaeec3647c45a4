// Draws one attention map with tokens on both axes.
import { font, prepare, themeColours } from "./canvas.js";
import { displayToken } from "./format.js";
import { clamp } from "./viewport.js";

const LABEL_SPACING = 13; // minimum distance of two labels in pixels
const MAX_CELL = 46; // maximum size of a cell in pixels
const GAP = 7; // pixels between labels and the map
const MIN_MARGIN = 22; // pixels for labels: also short labels need the height of a line
const BOLD = 650;

// The position of the map on its canvas (`box`), and the size of the canvas.
export function layout({ width, maxHeight, rows, columns, left, top }) {
  const cellWidth = Math.min(MAX_CELL, Math.max(40, width - left - 2) / columns);
  const preferredHeight = rows <= 8 ? Math.max(cellWidth, 22) : cellWidth;
  const cellHeight = Math.min(preferredHeight, MAX_CELL, Math.max(40, maxHeight - top) / rows);
  const box = { left, top, width: cellWidth * columns, height: cellHeight * rows };
  return { box, width: left + box.width + 2, height: top + box.height + 2 };
}

// Every n-th label is drawn, so that labels do not overlap; returns n.
export function labelStep(pixels, cells) {
  return Math.max(1, Math.ceil((LABEL_SPACING * cells) / pixels));
}

// The width of the longest label and its gap, at most `maxWidth` and the gap.
export function labelWidth(ctx, tokens, maxWidth) {
  ctx.font = font(12, BOLD); // any label may become the selected one
  const widths = tokens.map((token) => ctx.measureText(displayToken(token)).width);
  const widest = widths.reduce((a, b) => Math.max(a, b), 0);
  return Math.max(MIN_MARGIN, Math.ceil(Math.min(widest, maxWidth)) + GAP);
}

// scene: { image, weights, view, crosshair, width, maxHeight }. Returns the box of the map on the canvas.
export function drawMap(canvas, scene) {
  const { weights, view } = scene;
  const maxLabel = clamp(scene.width * 0.2, 56, 130);
  const measure = canvas.getContext("2d");
  const left = labelWidth(measure, weights.queries, maxLabel);
  const top = labelWidth(measure, weights.keys, maxLabel);
  const { rows, columns } = weights;
  const { box, width, height } = layout({ ...scene, rows, columns, left, top });
  const ctx = prepare(canvas, width, height);
  const colours = themeColours();
  drawCells(ctx, scene.image, view, box, colours);
  if (scene.crosshair) drawCrosshair(ctx, scene.crosshair, view, box, colours);
  drawLabels(ctx, weights.queries, "rows", scene, box, colours);
  drawLabels(ctx, weights.keys, "columns", scene, box, colours);
  return box;
}

function drawCells(ctx, image, view, box, colours) {
  ctx.fillStyle = colours.blank;
  ctx.fillRect(box.left, box.top, box.width, box.height);
  // Sharp edges, except for cells smaller than a pixel: smoothing keeps all of them visible.
  ctx.imageSmoothingEnabled = box.width < view.width || box.height < view.height;
  ctx.drawImage(image, view.x, view.y, view.width, view.height, box.left, box.top, box.width, box.height);
}

function drawCrosshair(ctx, crosshair, view, box, colours) {
  const [width, height] = [box.width / view.width, box.height / view.height];
  const x = box.left + (crosshair.column - view.x) * width;
  const y = box.top + (crosshair.row - view.y) * height;
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left - 1, box.top - 1, box.width + 2, box.height + 2);
  ctx.clip();
  ctx.strokeStyle = colours.mark;
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = 1;
  ctx.strokeRect(box.left - 2, y, box.width + 4, height);
  ctx.strokeRect(x, box.top - 2, width, box.height + 4);
  ctx.globalAlpha = 1;
  ctx.lineWidth = 2;
  ctx.strokeRect(x, y, width, height);
  ctx.restore();
}

function drawLabels(ctx, tokens, axis, { view, crosshair }, box, colours) {
  const isRow = axis === "rows";
  const [from, count, pixels] = isRow ? [view.y, view.height, box.height] : [view.x, view.width, box.width];
  const selected = crosshair ? (isRow ? crosshair.row : crosshair.column) : -1;
  const step = labelStep(pixels, count);
  const space = (isRow ? box.left : box.top) - GAP;
  for (let i = Math.ceil(from - 0.5); i < from + count && i < tokens.length; i += 1) {
    const at = ((i + 0.5 - from) * pixels) / count;
    const distance = (Math.abs(i - selected) * pixels) / count;
    const isNear = selected >= 0 && i !== selected && distance < LABEL_SPACING;
    const isInside = at >= 0 && at <= pixels;
    if (isInside && (i === selected || (i % step === 0 && !isNear))) {
      ctx.fillStyle = i === selected ? colours.text : colours.muted;
      ctx.font = font(12, i === selected ? BOLD : 400);
      drawLabel(ctx, truncate(ctx, displayToken(tokens[i]), space), isRow, at, box);
    }
  }
}

function drawLabel(ctx, text, isRow, at, box) {
  ctx.save();
  ctx.textBaseline = "middle";
  ctx.textAlign = isRow ? "right" : "left";
  if (isRow) ctx.translate(box.left - GAP, box.top + at);
  else ctx.translate(box.left + at, box.top - GAP);
  const isShort = ctx.measureText(text).width < 14;
  if (!isRow && isShort) ctx.textAlign = "center";
  if (!isRow && !isShort) ctx.rotate(-Math.PI / 2);
  ctx.fillText(text, 0, !isRow && isShort ? -4 : 0);
  ctx.restore();
}

// Cuts a text to a width in pixels.
export function truncate(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  const characters = Array.from(text);
  const cut = () => `${characters.join("")}…`;
  while (characters.length > 1 && ctx.measureText(cut()).width > width) characters.pop();
  return cut();
}
