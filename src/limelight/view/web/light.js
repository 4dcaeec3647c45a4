// A picture in the light of its weights.
import { inks } from "./canvas.js";
import { css, scale, shade, theme } from "./colours.js";

const DARK = 0.74; // of the shadow where nobody looks
const GLOW = 0.6; // of the light where everybody does
const LIME = [190, 240, 70];
const PALE_LIME = [230, 255, 120];

// Each picture has a scale of its own: its brightest patch is the one that is looked at most.
export function drawLit(pen, picture, lit, { rows, columns }, { width, height, light = "both" }) {
  pen.imageSmoothingEnabled = picture.naturalWidth > width;
  if (light !== "weights") pen.drawImage(picture, 0, 0, width, height);
  if (light === "picture") return;
  const table = scale(theme());
  const largest = lit.reduce((a, b) => Math.max(a, b), 0);
  const edge = (number, count, size) => Math.round((number * size) / count);
  lit.forEach((weight, patch) => {
    const [row, column] = [Math.floor(patch / columns), patch % columns];
    const [x, y] = [edge(column, columns, width), edge(row, rows, height)];
    const box = [x, y, edge(column + 1, columns, width) - x, edge(row + 1, rows, height) - y];
    if (light === "weights") fill(pen, css(table[shade(weight, largest)]), box);
    else illuminate(pen, weight / (largest || 1), box);
  });
}

// As on a stage: the rest lies in the dark, and what is lit is seen in a coloured light.
function illuminate(pen, share, box) {
  fill(pen, css([0, 0, 0], DARK * (1 - share)), box);
  pen.globalCompositeOperation = "screen"; // so that black is lit too
  fill(pen, css(LIME, GLOW * share), box);
  pen.globalCompositeOperation = "multiply"; // so that white is
  fill(pen, css(PALE_LIME, share), box);
  pen.globalCompositeOperation = "source-over";
}

function fill(pen, colour, box) {
  pen.fillStyle = colour;
  pen.fillRect(...box);
}

export function drawFrame(pen, patch, { rows, columns }, { width, height }) {
  const [across, down] = [width / columns, height / rows];
  const [x, y] = [(patch % columns) * across, Math.floor(patch / columns) * down];
  const ink = inks();
  for (const [colour, line] of [
    [ink.surface, 5],
    [ink.mark, 2.5],
  ]) {
    pen.strokeStyle = colour;
    pen.lineWidth = line;
    pen.strokeRect(x + 2, y + 2, across - 4, down - 4);
  }
}
