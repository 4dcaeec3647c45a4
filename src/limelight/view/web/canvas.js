// What all drawings need: sharp canvases, the colours of the page, cells as pixels.
import { css, scale, shade, theme } from "./colours.js";

// Sized in the pixels of the page, drawn in those of the screen.
export function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== across || canvas.height !== down)
    Object.assign(canvas, { width: across, height: down });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// Of an element, without its padding; before it stands in the page, that of a small screen.
export function roomIn(element) {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  const room = element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
  return room > 0 ? room : 300;
}

export function inks() {
  const found = getComputedStyle(document.documentElement);
  const names = ["text", "muted", "line", "surface", "accent", "blank", "mark"];
  return Object.fromEntries(
    names.map((name) => [name, found.getPropertyValue(`--${name}`).trim() || "#808080"]),
  );
}

export function font(size, weight = 400) {
  return `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
}

// One pixel a weight; what rounds to zero stays transparent: it is masked, or as good as. Of more cells than
// `most` each pixel stands for several and shows the largest: a lone strong weight must not be lost.
export function cells(weights, head, largest, most = Infinity) {
  const block = Math.max(1, Math.ceil(Math.max(weights.rows, weights.columns) / most));
  const [across, down] = [Math.ceil(weights.columns / block), Math.ceil(weights.rows / block)];
  const peaks = new Float32Array(across * down);
  for (let row = 0; row < weights.rows; row += 1) {
    const start = Math.floor(row / block) * across;
    const line = weights.row(head, row);
    for (let column = 0; column < line.length; column += 1) {
      const at = start + Math.floor(column / block);
      if (line[column] > peaks[at]) peaks[at] = line[column];
    }
  }
  return { across, down, peaks, largest };
}

export function paint({ across, down, peaks, largest }, canvas = document.createElement("canvas")) {
  Object.assign(canvas, { width: across, height: down });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(across, down);
  const table = scale(theme());
  peaks.forEach((weight, at) => {
    if (weight === 0) return;
    const colour = table[shade(weight, largest)];
    for (let part = 0; part < 3; part += 1) image.data[4 * at + part] = colour[part];
    image.data[4 * at + 3] = 255;
  });
  pen.putImageData(image, 0, 0);
  return canvas;
}

// The scale with its ends: colours grow with the square root of a weight, so the middle is a quarter.
export function legend(largest) {
  const canvas = document.createElement("canvas");
  canvas.className = "scale";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `colours from weight 0 to ${largest.toFixed(2)}`);
  const pen = prepare(canvas, 190, 30);
  const [table, ink] = [scale(theme()), inks()];
  table.forEach((colour, i) => {
    pen.fillStyle = css(colour);
    pen.fillRect(5 + (i * 180) / table.length, 2, 1.5, 9);
  });
  pen.fillStyle = ink.muted;
  pen.font = font(10.5);
  [
    ["left", 5, 0],
    ["center", 95, largest / 4],
    ["right", 185, largest],
  ].forEach(([align, x, weight]) => {
    pen.textAlign = align;
    pen.fillText(String(Number(weight.toFixed(2))), x, 25);
  });
  return canvas;
}
