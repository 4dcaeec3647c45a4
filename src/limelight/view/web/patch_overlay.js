// Draws an image with the attention weights of its patches: large weights are bright, small weights dark.
import { themeColours } from "./canvas.js";
import { colourScale, css, scaleIndex, theme } from "./colours.js";

const SHADOW = 0.74; // opacity of black over a patch of weight 0
const LIGHT = 0.6; // opacity of lime over the patch with the largest weight
const LIME = [190, 240, 70];
const PALE_LIME = [230, 255, 120];

// Each image has its own scale: its brightest patch has the largest weight.
// mode: "both", "image" or "weights"
export function drawPatches(ctx, picture, values, { rows, columns }, { width, height, mode = "both" }) {
  ctx.imageSmoothingEnabled = picture.naturalWidth > width;
  if (mode !== "weights") ctx.drawImage(picture, 0, 0, width, height);
  if (mode === "image") return;
  const table = colourScale(theme());
  const largest = values.reduce((a, b) => Math.max(a, b), 0);
  const edge = (number, count, size) => Math.round((number * size) / count);
  values.forEach((weight, patch) => {
    const [row, column] = [Math.floor(patch / columns), patch % columns];
    const [x, y] = [edge(column, columns, width), edge(row, rows, height)];
    const box = [x, y, edge(column + 1, columns, width) - x, edge(row + 1, rows, height) - y];
    if (mode === "weights") fill(ctx, css(table[scaleIndex(weight, largest)]), box);
    else highlight(ctx, weight / (largest || 1), box);
  });
}

// share: the weight relative to the largest weight
function highlight(ctx, share, box) {
  fill(ctx, css([0, 0, 0], SHADOW * (1 - share)), box);
  ctx.globalCompositeOperation = "screen"; // brightens dark pixels
  fill(ctx, css(LIME, LIGHT * share), box);
  ctx.globalCompositeOperation = "multiply"; // tints bright pixels
  fill(ctx, css(PALE_LIME, share), box);
  ctx.globalCompositeOperation = "source-over";
}

function fill(ctx, colour, box) {
  ctx.fillStyle = colour;
  ctx.fillRect(...box);
}

export function drawPatchFrame(ctx, patch, { rows, columns }, { width, height }) {
  const [patchWidth, patchHeight] = [width / columns, height / rows];
  const [x, y] = [(patch % columns) * patchWidth, Math.floor(patch / columns) * patchHeight];
  const colours = themeColours();
  for (const [colour, line] of [
    [colours.surface, 5],
    [colours.mark, 2.5],
  ]) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = line;
    ctx.strokeRect(x + 2, y + 2, patchWidth - 4, patchHeight - 4);
  }
}
