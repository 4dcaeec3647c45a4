// Pictures and numbers, as files.
import { font, inks } from "./canvas.js";
import { make } from "./dom.js";

const DIGITS = 6;
const EDGE = 16; // pixels around a picture, and its title above it
const TITLE = 30;

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

export async function savePicture(canvas, title, record) {
  const blob = await new Promise((resolve) => framed(canvas, title).toBlob(resolve, "image/png"));
  download(blob, `${fileName(`${record.name} ${title}`)}.png`);
}

export function fileName(text) {
  const plain = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-+|-+$/g, "");
  return plain.slice(0, 80) || "attention";
}

// On the page a canvas lets its background through; a file needs one of its own.
function framed(canvas, title) {
  const ratio = window.devicePixelRatio || 1;
  const [edge, head] = [EDGE * ratio, TITLE * ratio];
  const whole = document.createElement("canvas");
  Object.assign(whole, { width: canvas.width + 2 * edge, height: canvas.height + 2 * edge + head });
  const pen = whole.getContext("2d");
  const ink = inks();
  pen.fillStyle = ink.surface;
  pen.fillRect(0, 0, whole.width, whole.height);
  pen.fillStyle = ink.text;
  pen.font = font(14 * ratio, 600);
  pen.textBaseline = "top";
  pen.fillText(title, edge, edge, canvas.width);
  pen.drawImage(canvas, edge, edge + head);
  return whole;
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the address after the click; a minute is enough for it.
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
