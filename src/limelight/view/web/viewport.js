// The visible part of a map, { x, y, width, height } in cells. Pure functions.

const MIN_CELLS = 6; // a view contains at least so many rows and columns, if the map has as many

export function fullView(rows, columns) {
  return { x: 0, y: 0, width: columns, height: rows };
}

// Zooms so that the point, in cells, stays at the same place on the screen.
export function zoomAt(view, factor, point, rows, columns) {
  const width = clamp(view.width / factor, Math.min(MIN_CELLS, columns), columns);
  const height = clamp(view.height / factor, Math.min(MIN_CELLS, rows), rows);
  const x = point.x - ((point.x - view.x) * width) / view.width;
  const y = point.y - ((point.y - view.y) * height) / view.height;
  return inside({ x, y, width, height }, rows, columns);
}

export function pan(view, dx, dy, rows, columns) {
  return inside({ ...view, x: view.x + dx, y: view.y + dy }, rows, columns);
}

// Moves the view as little as possible so that a cell is completely visible.
export function reveal(view, cell, rows, columns) {
  const x = clamp(view.x, cell.column + 1 - view.width, cell.column);
  const y = clamp(view.y, cell.row + 1 - view.height, cell.row);
  return inside({ ...view, x, y }, rows, columns);
}

export function isFullView(view, rows, columns) {
  return view.width >= columns && view.height >= rows;
}

// The point on the map, in cells, of a pixel of the canvas; `box` is the position of the map on the canvas.
export function pointAt(view, box, pixel) {
  return {
    x: view.x + ((pixel.x - box.left) / box.width) * view.width,
    y: view.y + ((pixel.y - box.top) / box.height) * view.height,
  };
}

// The cell under a pixel of the canvas, or null outside the map.
export function cellAt(view, box, pixel, rows, columns) {
  const isInside = (at, start, length) => at >= start && at < start + length;
  if (!isInside(pixel.x, box.left, box.width) || !isInside(pixel.y, box.top, box.height)) return null;
  const point = pointAt(view, box, pixel);
  return {
    row: clamp(Math.floor(point.y), 0, rows - 1),
    column: clamp(Math.floor(point.x), 0, columns - 1),
  };
}

function inside(view, rows, columns) {
  return {
    ...view,
    x: clamp(view.x, 0, columns - view.width),
    y: clamp(view.y, 0, rows - view.height),
  };
}

export function clamp(value, min, max) {
  return Math.min(Math.max(value, min), max);
}
