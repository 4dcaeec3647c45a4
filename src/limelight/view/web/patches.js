// Maps between tokens and the patches of an image. Pure functions.
// image: { rows, columns, first }, the patch grid and the index of its first token.

// Whether the keys of a map are the patches of the image.
export function attendsToPatches(weights, image) {
  return weights.columns === image.first + image.rows * image.columns;
}

// The weights of the patches for one query. If query is null: for the class token, or without one, the mean
// over all queries.
export function patchWeights(weights, head, query, image) {
  if (query !== null && query < weights.rows) return weights.row(head, query).slice(image.first);
  if (image.first > 0 || weights.rows === 1) return weights.row(head, 0).slice(image.first);
  const mean = new Float32Array(weights.columns);
  for (let row = 0; row < weights.rows; row += 1) {
    weights.row(head, row).forEach((weight, column) => (mean[column] += weight / weights.rows));
  }
  return mean;
}

// The index of the patch at x, y (from 0 to 1), row by row; null outside the image.
export function patchAt(x, y, { rows, columns }) {
  if (!(x >= 0 && x < 1 && y >= 0 && y < 1)) return null;
  return Math.floor(y * rows) * columns + Math.floor(x * columns);
}

// The neighbouring patch in the direction of an arrow key, or the same patch at the border.
export function movePatch(patch, key, { rows, columns }) {
  const row = Math.floor(patch / columns) + ({ ArrowUp: -1, ArrowDown: 1 }[key] ?? 0);
  const column = (patch % columns) + ({ ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0);
  return Math.min(Math.max(row, 0), rows - 1) * columns + Math.min(Math.max(column, 0), columns - 1);
}
