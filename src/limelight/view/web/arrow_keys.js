// Keyboard navigation in a group of buttons (roving tabindex): Tab reaches one of them, arrow keys move on.

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
const ROWS = { ArrowUp: -1, ArrowDown: 1 };

export function handleArrowKeys(container, selector, onMove = () => {}) {
  container.addEventListener("keydown", (event) => {
    const items = [...container.querySelectorAll(selector)];
    const from = items.indexOf(event.target.closest(selector));
    if (from < 0) return;
    const boxes = items.map((item) => item.getBoundingClientRect());
    const to = targetIndex(event.key, from, boxes);
    if (to === null) return;
    event.preventDefault();
    items.forEach((item, i) => item.setAttribute("tabindex", i === to ? "0" : "-1"));
    items[to].focus();
    onMove(items[to]);
  });
}

// Returns the index of the item to move to, or null if the key is not handled.
export function targetIndex(key, from, boxes) {
  if (key === "Home") return 0;
  if (key === "End") return boxes.length - 1;
  if (key in STEPS) return (from + STEPS[key] + boxes.length) % boxes.length;
  return key in ROWS ? nextRow(ROWS[key], from, boxes) : null;
}

// The nearest item of the next row on the screen; direction is 1 for down, -1 for up.
function nextRow(direction, from, boxes) {
  const { left, top } = boxes[from];
  const candidates = boxes
    .map((box, i) => ({ i, dy: direction * (box.top - top), dx: Math.abs(box.left - left) }))
    .filter(({ dy }) => dy > 1)
    .sort((a, b) => a.dy - b.dy || a.dx - b.dx);
  return candidates.length ? candidates[0].i : from;
}
