// Which part of a map is seen: cells x to x + across, y to y + down. Arithmetic only.

const FEWEST = 6; // cells that remain in sight, if there are as many

export function whole(rows, columns) {
  return { x: 0, y: 0, across: columns, down: rows };
}

// The cell under the pointer stays under it.
export function zoomAt(view, factor, point, rows, columns) {
  const across = clamp(view.across / factor, Math.min(FEWEST, columns), columns);
  const down = clamp(view.down / factor, Math.min(FEWEST, rows), rows);
  const x = point.x - ((point.x - view.x) * across) / view.across;
  const y = point.y - ((point.y - view.y) * down) / view.down;
  return inside({ x, y, across, down }, rows, columns);
}

export function pan(view, right, down, rows, columns) {
  return inside({ ...view, x: view.x + right, y: view.y + down }, rows, columns);
}

// Moved no further than is needed for a cell to be seen whole.
export function reveal(view, cell, rows, columns) {
  const x = clamp(view.x, cell.column + 1 - view.across, cell.column);
  const y = clamp(view.y, cell.row + 1 - view.down, cell.row);
  return inside({ ...view, x, y }, rows, columns);
}

export function isWhole(view, rows, columns) {
  return view.across >= columns && view.down >= rows;
}

// A pixel of the canvas -> the place on the map, in cells; `box` is where the map stands on the canvas.
export function placeAt(view, box, pixel) {
  return {
    x: view.x + ((pixel.x - box.left) / box.width) * view.across,
    y: view.y + ((pixel.y - box.top) / box.height) * view.down,
  };
}

export function cellAt(view, box, pixel, rows, columns) {
  const isOn = (at, start, length) => at >= start && at < start + length;
  if (!isOn(pixel.x, box.left, box.width) || !isOn(pixel.y, box.top, box.height)) return null;
  const place = placeAt(view, box, pixel);
  return {
    row: clamp(Math.floor(place.y), 0, rows - 1),
    column: clamp(Math.floor(place.x), 0, columns - 1),
  };
}

function inside(view, rows, columns) {
  return {
    ...view,
    x: clamp(view.x, 0, columns - view.across),
    y: clamp(view.y, 0, rows - view.down),
  };
}

export function clamp(value, least, most) {
  return Math.min(Math.max(value, least), most);
}
