// From tokens to the patches of a picture and back. Arithmetic only.

// Which maps look at the patches of a picture.
export function looksAtPatches(weights, image) {
  return weights.columns === image.first + image.rows * image.columns;
}

// The weights of the patches: of one query, or (null) of the class token; without one, the mean over all queries.
export function patchWeights(weights, head, query, image) {
  if (query !== null && query < weights.rows) return weights.row(head, query).slice(image.first);
  if (image.first > 0 || weights.rows === 1) return weights.row(head, 0).slice(image.first);
  const found = new Float32Array(weights.columns);
  for (let row = 0; row < weights.rows; row += 1) {
    weights.row(head, row).forEach((weight, column) => (found[column] += weight / weights.rows));
  }
  return found;
}

// x and y from 0 to 1 -> the number of the patch, row by row; null beside the picture
export function patchAt(x, y, { rows, columns }) {
  if (!(x >= 0 && x < 1 && y >= 0 && y < 1)) return null;
  return Math.floor(y * rows) * columns + Math.floor(x * columns);
}

// One step by an arrow key; stays at the border.
export function movePatch(patch, key, { rows, columns }) {
  const row = Math.floor(patch / columns) + ({ ArrowUp: -1, ArrowDown: 1 }[key] ?? 0);
  const column = (patch % columns) + ({ ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0);
  return Math.min(Math.max(row, 0), rows - 1) * columns + Math.min(Math.max(column, 0), columns - 1);
}
