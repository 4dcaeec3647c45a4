// The overview: one small map per head, one row per layer, and the selected map enlarged.
import { handleArrowKeys } from "./arrow_keys.js";
import { describeBadges, sortHeads } from "./badges.js";
import { cellGrid, legend, paint } from "./canvas.js";
import { ALL } from "./decode.js";
import { labelledSelect, make } from "./dom.js";
import { LargeMap, nameOf } from "./large_map.js";
import { addScrollCue } from "./scroll_cue.js";

const THUMBNAIL = 128; // maximum size of a small map in pixels

const BLOCK_HINT = "Click a cell to block it. Keys: x switches the head, b blocks the cell of the crosshair.";
const SAVED_HINT = "A saved page shows one head off at a time; `limelight serve` combines changes. Key: x.";

const SORTS = [
  { value: "model", text: "model order" },
  { value: "focused", text: "lowest entropy first" },
];

export function overview(host) {
  const large = new LargeMap({
    onEscape: () => grid.querySelector("[aria-pressed=true]")?.focus(),
    memory: host.memory,
    onCell: host.canBlock ? ({ row, column }) => change({ query: row, key: column }) : null,
  });
  const grid = make("div", { class: "grids" });
  handleArrowKeys(grid, ".small-map");
  const controls = make("div", { class: "controls" });
  const help = make("p", { class: "muted note" });
  help.append("One map per head; rows are queries, columns are keys. The number is the normalised entropy: ");
  help.append("0 if a head attends to a single token, 1 if it attends to all tokens equally. ");
  help.append("A badge names the position with most of the weight.");
  const off = make("button", { type: "button", class: "small", "data-keep": "off", click: () => change() });
  if (host.change) large.addActions(off, host.canBlock ? BLOCK_HINT : SAVED_HINT);
  large.node.addEventListener("keydown", (event) => {
    if (!host.change || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "x" && !off.hidden) change();
    else if (event.key === "b" && host.canBlock && large.crosshair) {
      change({ query: large.crosshair.row, key: large.crosshair.column });
    }
  });
  const node = make(
    "div",
    { class: "overview" },
    make("div", { class: "all" }, controls, grid, help),
    large.node,
  );

  function select(map, head) {
    host.set({ map, head });
    mark();
    show();
    large.node.scrollIntoView({ block: "nearest" });
    large.stage.focus({ preventScroll: true });
  }

  function show() {
    const map = host.selectedMap();
    const head = host.selectedHead(map);
    large.show(host.maps[map], head, host.largest, host.base?.maps[map]);
    if (!host.change) return;
    const name = head === ALL ? "all heads" : "this head";
    off.textContent = host.isOff(map, head) ? `Switch ${name} on` : `Switch ${name} off`;
    off.setAttribute("aria-pressed", String(host.isOff(map, head)));
    off.hidden = !host.canBlock && head === ALL; // a saved page has results for single heads
  }

  // Changes the selected head, or one of its cells.
  function change(cell = {}) {
    const map = host.selectedMap();
    host.change({ map, head: host.selectedHead(map), ...cell });
  }

  function mark() {
    const map = host.selectedMap();
    const key = `${map}/${host.selectedHead(map)}`;
    const items = [...grid.querySelectorAll(".small-map")];
    const marked = items.find((item) => item.dataset.key === key);
    for (const item of items) {
      item.setAttribute("aria-pressed", String(item === marked));
      item.setAttribute("tabindex", item === (marked ?? items[0]) ? "0" : "-1");
    }
  }

  function fill() {
    const sort = labelledSelect("Order", SORTS, host.state.sort, (value) => {
      host.set({ sort: value });
      fill();
      sortSelect()?.focus();
    });
    const sortSelect = () => controls.querySelector("select");
    controls.replaceChildren(sort, legend(host.largest));
    grid.replaceChildren(...groups(host).map((group) => section(host, group, select)));
    mark();
  }

  return {
    node,
    start: () => {
      fill();
      show();
    },
    redraw: () => large.draw(),
    recolour: () => {
      fill();
      large.repaint();
    },
    canvas: () => large.canvas,
    title: () => large.title.textContent,
  };
}

// The maps grouped by part of the model (encoder, decoder, …), each with its rows of heads.
export function groups({ maps, state, badges }) {
  const parts = [...new Set(maps.map(({ map }) => map.part))];
  return parts.map((part) => {
    const layers = maps
      .map((weights, map) => ({ weights, map }))
      .filter(({ weights }) => weights.map.part === part);
    const rows = layers.map(({ weights, map }) => headsOf(weights, map, badges));
    const isSorted = state.sort === "focused";
    return { part, isSorted, rows: isSorted ? [sortHeads(rows.flat(), state.sort)] : rows };
  });
}

function headsOf(weights, map, badges) {
  const heads = weights.heads > 1 ? [ALL] : [];
  for (let head = 0; head < weights.heads; head += 1) heads.push(head);
  return heads.map((head) => ({ weights, map, head, badges: badges(map, head) }));
}

function section(host, { part, isSorted, rows }, select) {
  const node = make("section", { class: "part" }, make("h3", {}, part));
  for (const row of rows) {
    const line = addScrollCue(make("div", { class: isSorted ? "heads wrapped" : "heads" }));
    line.append(...row.map((one) => smallMap(host, one, isSorted, select)));
    const label = isSorted ? [] : [make("span", { class: "layer" }, `layer ${row[0].weights.map.layer}`)];
    node.append(make("div", { class: "layer-row" }, ...label, line));
  }
  return node;
}

function smallMap(host, { weights, map, head, badges }, isSorted, select) {
  const name = nameOf(weights, head);
  const canvas = paint(cellGrid(weights, head, host.largest, THUMBNAIL));
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `small map: ${name}`);
  const label = head === ALL ? "mean" : isSorted ? `L${weights.map.layer} · H${head}` : `head ${head}`;
  const entropy = make(
    "span",
    { class: "entropy", title: "normalised entropy: 0 = one token, 1 = all tokens equally" },
    badges.entropy.toFixed(2),
  );
  const patterns = badges.patterns.map((pattern) => make("span", { class: "badge" }, pattern.name));
  const moved = host.moved(map, head);
  if (host.isOff(map, head)) patterns.push(make("span", { class: "badge off" }, "off"));
  else if (moved !== null && moved >= 0.005) {
    const title = "share of the weight that moved to other keys because of the changes";
    patterns.push(make("span", { class: "badge moved", title }, `moved ${Math.round(100 * moved)} %`));
  }
  const attributes = { type: "button", class: "small-map", "data-key": `${map}/${head}`, title: name };
  attributes["aria-label"] = `${name}: ${describeBadges(badges)}; enlarge`;
  attributes.click = () => select(map, head);
  const caption = make("span", { class: "caption" }, make("span", {}, label), entropy);
  const button = make("button", attributes, canvas, caption, make("span", { class: "badges" }, ...patterns));
  return host.change && head !== ALL ? make("div", { class: "head-map" }, button, toggle(host, map, head, name)) : button;
}

// Switches a head off and on again, without enlarging it.
function toggle(host, map, head, name) {
  const isOff = host.isOff(map, head);
  const label = `${isOff ? "Switch on" : "Switch off"}: ${name}`;
  const attributes = { type: "button", class: "head-switch", "aria-label": label, title: label, tabindex: "-1" };
  attributes["data-keep"] = `toggle-${map}-${head}`;
  attributes.click = () => host.change({ map, head });
  return make("button", attributes, isOff ? "on" : "off");
}
