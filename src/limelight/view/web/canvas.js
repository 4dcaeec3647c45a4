// Shared by all drawings: canvases for the screen resolution, the colours of the page, weights as pixels.
import { colourScale, css, scaleIndex, theme } from "./colours.js";

// Resizes a canvas to CSS pixels at the resolution of the screen, and returns its cleared context.
export function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const pixels = {
    width: Math.max(1, Math.round(width * ratio)),
    height: Math.max(1, Math.round(height * ratio)),
  };
  if (canvas.width !== pixels.width || canvas.height !== pixels.height) Object.assign(canvas, pixels);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  return ctx;
}

// The width of an element without its padding; a default for an element that is not in the page yet.
export function contentWidth(element) {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  const width = element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
  return width > 0 ? width : 300;
}

// The colours of the style sheet for the current theme.
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "muted", "line", "surface", "accent", "blank", "mark"];
  return Object.fromEntries(
    names.map((name) => [name, style.getPropertyValue(`--${name}`).trim() || "#808080"]),
  );
}

export function font(size, weight = 400) {
  return `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
}

// The weights of a head as a grid of cells. If a side has more than `maxCells` weights, each cell is the
// maximum of a block of weights, so that single large weights stay visible.
export function cellGrid(weights, head, largest, maxCells = Infinity) {
  const block = Math.max(1, Math.ceil(Math.max(weights.rows, weights.columns) / maxCells));
  const [columns, rows] = [Math.ceil(weights.columns / block), Math.ceil(weights.rows / block)];
  const values = new Float32Array(columns * rows);
  for (let row = 0; row < weights.rows; row += 1) {
    const start = Math.floor(row / block) * columns;
    const line = weights.row(head, row);
    for (let column = 0; column < line.length; column += 1) {
      const at = start + Math.floor(column / block);
      if (line[column] > values[at]) values[at] = line[column];
    }
  }
  return { columns, rows, values, largest };
}

// Paints a grid with one pixel per cell; cells of weight 0 (masked, or rounded to 0) stay transparent.
export function paint({ columns, rows, values, largest }, canvas = document.createElement("canvas")) {
  Object.assign(canvas, { width: columns, height: rows });
  const ctx = canvas.getContext("2d");
  const image = ctx.createImageData(columns, rows);
  const table = colourScale(theme());
  values.forEach((weight, at) => {
    if (weight === 0) return;
    const colour = table[scaleIndex(weight, largest)];
    for (let part = 0; part < 3; part += 1) image.data[4 * at + part] = colour[part];
    image.data[4 * at + 3] = 255;
  });
  ctx.putImageData(image, 0, 0);
  return canvas;
}

// The colour scale with labels. It grows with the square root of the weight, so its middle is a quarter of
// the largest weight.
export function legend(largest) {
  const canvas = document.createElement("canvas");
  canvas.className = "scale";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `colour scale: weights from 0 to ${largest.toFixed(2)}`);
  const ctx = prepare(canvas, 190, 30);
  const [table, colours] = [colourScale(theme()), themeColours()];
  table.forEach((colour, i) => {
    ctx.fillStyle = css(colour);
    ctx.fillRect(5 + (i * 180) / table.length, 2, 1.5, 9);
  });
  ctx.fillStyle = colours.muted;
  ctx.font = font(10.5);
  [
    ["left", 5, 0],
    ["center", 95, largest / 4],
    ["right", 185, largest],
  ].forEach(([align, x, weight]) => {
    ctx.textAlign = align;
    ctx.fillText(String(Number(weight.toFixed(2))), x, 25);
  });
  return canvas;
}
