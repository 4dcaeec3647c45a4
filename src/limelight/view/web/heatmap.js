// Draws one map with its tokens on both axes.
import { font, inks, prepare } from "./canvas.js";
import { clamp } from "./window.js";
import { visible } from "./words.js";

const SPACE = 13; // pixels from one label to the next, at least
const BIGGEST = 46; // pixels of a cell
const GAP = 7; // between labels and the map
const LEAST = 22; // pixels beside a map: a label of one letter is as high as others
const BOLD = 650;

// Where the map stands on its canvas, and how large the canvas must be.
export function layout({ width, tallest, rows, columns, left, top }) {
  const across = Math.max(40, width - left - 2);
  const cell = Math.min(BIGGEST, across / columns);
  const wanted = rows <= 8 ? Math.max(cell, 22) : cell;
  const down = Math.min(wanted, BIGGEST, Math.max(40, tallest - top) / rows);
  const box = { left, top, width: cell * columns, height: down * rows };
  return { box, width: left + box.width + 2, height: top + box.height + 2 };
}

// Every so many labels have room.
export function labelStep(pixels, cells) {
  return Math.max(1, Math.ceil((SPACE * cells) / pixels));
}

export function labelRoom(pen, tokens, most) {
  pen.font = font(12, BOLD); // any of them may be chosen
  const widest = tokens.reduce((widest, token) => Math.max(widest, pen.measureText(visible(token)).width), 0);
  return Math.max(LEAST, Math.ceil(Math.min(widest, most)) + GAP);
}

// scene: {image, weights, view, cross, width, tallest}; -> the box of the map, which pointers need
export function drawMap(canvas, scene) {
  const { weights, view } = scene;
  const most = clamp(scene.width * 0.2, 56, 130);
  const measure = canvas.getContext("2d");
  const left = labelRoom(measure, weights.queries, most);
  const flat = labelRoom(measure, weights.keys, most);
  const size = { width: scene.width, tallest: scene.tallest, rows: weights.rows, columns: weights.columns };
  const { box, width, height } = layout({ ...size, left, top: flat });
  const pen = prepare(canvas, width, height);
  const ink = inks();
  drawCells(pen, scene.image, view, box, ink);
  if (scene.cross) drawCross(pen, scene.cross, view, box, ink);
  drawLabels(pen, weights.queries, "rows", scene, box, ink);
  drawLabels(pen, weights.keys, "columns", scene, box, ink);
  return box;
}

function drawCells(pen, image, view, box, ink) {
  pen.fillStyle = ink.blank;
  pen.fillRect(box.left, box.top, box.width, box.height);
  // Cells have sharp edges, but of those smaller than a pixel none may be dropped.
  pen.imageSmoothingEnabled = box.width < view.across || box.height < view.down;
  pen.drawImage(image, view.x, view.y, view.across, view.down, box.left, box.top, box.width, box.height);
}

function drawCross(pen, cross, view, box, ink) {
  const [width, height] = [box.width / view.across, box.height / view.down];
  const x = box.left + (cross.column - view.x) * width;
  const y = box.top + (cross.row - view.y) * height;
  pen.save();
  pen.beginPath();
  pen.rect(box.left - 1, box.top - 1, box.width + 2, box.height + 2);
  pen.clip();
  pen.strokeStyle = ink.mark;
  pen.globalAlpha = 0.55;
  pen.lineWidth = 1;
  pen.strokeRect(box.left - 2, y, box.width + 4, height);
  pen.strokeRect(x, box.top - 2, width, box.height + 4);
  pen.globalAlpha = 1;
  pen.lineWidth = 2;
  pen.strokeRect(x, y, width, height);
  pen.restore();
}

function drawLabels(pen, tokens, axis, { view, cross }, box, ink) {
  const isRow = axis === "rows";
  const [from, count, pixels] = isRow ? [view.y, view.down, box.height] : [view.x, view.across, box.width];
  const chosen = cross ? (isRow ? cross.row : cross.column) : -1;
  const step = labelStep(pixels, count);
  const room = (isRow ? box.left : box.top) - GAP;
  for (let i = Math.ceil(from - 0.5); i < from + count && i < tokens.length; i += 1) {
    const at = ((i + 0.5 - from) * pixels) / count;
    const isNear = chosen >= 0 && i !== chosen && Math.abs(i - chosen) * (pixels / count) < SPACE;
    const isIn = at >= 0 && at <= pixels;
    if (isIn && (i === chosen || (i % step === 0 && !isNear))) {
      pen.fillStyle = i === chosen ? ink.text : ink.muted;
      pen.font = font(12, i === chosen ? BOLD : 400);
      drawLabel(pen, fitted(pen, visible(tokens[i]), room), isRow, at, box);
    }
  }
}

function drawLabel(pen, text, isRow, at, box) {
  pen.save();
  pen.textBaseline = "middle";
  pen.textAlign = isRow ? "right" : "left";
  if (isRow) pen.translate(box.left - GAP, box.top + at);
  else pen.translate(box.left + at, box.top - GAP);
  const isShort = pen.measureText(text).width < 14;
  if (!isRow && isShort) pen.textAlign = "center";
  if (!isRow && !isShort) pen.rotate(-Math.PI / 2);
  pen.fillText(text, 0, !isRow && isShort ? -4 : 0);
  pen.restore();
}

export function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}
