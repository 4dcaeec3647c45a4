// Saves images and data as files.
import { font, themeColours } from "./canvas.js";
import { make } from "./dom.js";

const DIGITS = 6;
const MARGIN = 16; // pixels around an image
const TITLE_HEIGHT = 30; // pixels above it

// The record with its weights as numbers: weights[map][head][query][key].
export function dataOf(record, maps) {
  const round = (weight) => Number(weight.toFixed(DIGITS));
  const numbers = (count, each) => Array.from({ length: count }, (_, i) => each(i));
  const weights = maps.map((map) =>
    numbers(map.heads, (head) => numbers(map.rows, (row) => Array.from(map.row(head, row), round))),
  );
  return { ...record, weights };
}

export function saveData(record, maps) {
  const text = JSON.stringify(dataOf(record, maps));
  download(new Blob([text], { type: "application/json" }), `${fileName(record.name)}.json`);
}

export async function saveImage(canvas, title, record) {
  const blob = await new Promise((resolve) => withTitle(canvas, title).toBlob(resolve, "image/png"));
  download(blob, `${fileName(`${record.name} ${title}`)}.png`);
}

// A file name without special characters.
export function fileName(text) {
  const name = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-+|-+$/g, "");
  return name.slice(0, 80) || "attention";
}

// Adds a background, margins and a title: on the page, the canvas is transparent.
function withTitle(canvas, title) {
  const ratio = window.devicePixelRatio || 1;
  const [margin, titleHeight] = [MARGIN * ratio, TITLE_HEIGHT * ratio];
  const result = document.createElement("canvas");
  const size = { width: canvas.width + 2 * margin, height: canvas.height + 2 * margin + titleHeight };
  Object.assign(result, size);
  const ctx = result.getContext("2d");
  const colours = themeColours();
  ctx.fillStyle = colours.surface;
  ctx.fillRect(0, 0, result.width, result.height);
  ctx.fillStyle = colours.text;
  ctx.font = font(14 * ratio, 600);
  ctx.textBaseline = "top";
  ctx.fillText(title, margin, margin, canvas.width);
  ctx.drawImage(canvas, margin, margin + titleHeight);
  return result;
}

function download(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = make("a", { href: url, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the URL after the click; it is kept for one minute.
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
