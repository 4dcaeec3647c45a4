// Arrow keys among many buttons of which the tab key reaches one.

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
const ROWS = { ArrowUp: -1, ArrowDown: 1 };

export function rove(container, selector, onMove = () => {}) {
  container.addEventListener("keydown", (event) => {
    const items = [...container.querySelectorAll(selector)];
    const from = items.indexOf(event.target.closest(selector));
    if (from < 0) return;
    const places = items.map((item) => item.getBoundingClientRect());
    const to = target(event.key, from, places);
    if (to === null) return;
    event.preventDefault();
    items.forEach((item, i) => item.setAttribute("tabindex", i === to ? "0" : "-1"));
    items[to].focus();
    onMove(items[to]);
  });
}

export function target(key, from, places) {
  if (key === "Home") return 0;
  if (key === "End") return places.length - 1;
  if (key in STEPS) return (from + STEPS[key] + places.length) % places.length;
  return key in ROWS ? nextRow(ROWS[key], from, places) : null;
}

// The nearest one of the next row, as it is on the screen.
function nextRow(way, from, places) {
  const { left, top } = places[from];
  const beyond = places.map((place, i) => ({
    i,
    down: way * (place.top - top),
    aside: Math.abs(place.left - left),
  }));
  const next = beyond.filter(({ down }) => down > 1).sort((a, b) => a.down - b.down || a.aside - b.aside);
  return next.length ? next[0].i : from;
}
