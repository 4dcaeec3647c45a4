// All maps at a glance, a row a layer, and one of them enlarged.
import { inWords, sortHeads } from "./badges.js";
import { BigMap, nameOf } from "./bigmap.js";
import { cells, legend, paint } from "./canvas.js";
import { ALL } from "./decode.js";
import { choice, make } from "./dom.js";
import { rove } from "./roving.js";

const SMALL = 128; // pixels of a small map, at most

const SORTS = [
  { value: "model", text: "as in the model" },
  { value: "focused", text: "most focused first" },
];

export function overview(host) {
  const big = new BigMap(() => grid.querySelector("[aria-pressed=true]")?.focus());
  const grid = make("div", { class: "grids" });
  rove(grid, ".small-map");
  const controls = make("div", { class: "controls" });
  const help = make("p", { class: "muted note" });
  help.append("One map a head: a row for who looks, a column for what is looked at. ");
  help.append("Entropy is 0 where a head looks at one token, 1 where it looks at all alike.");
  const node = make(
    "div",
    { class: "overview" },
    make("div", { class: "all" }, controls, grid, help),
    big.node,
  );

  function choose(map, head) {
    host.set({ map, head });
    mark();
    show();
    big.node.scrollIntoView({ block: "nearest" });
    big.stage.focus({ preventScroll: true });
  }

  function show() {
    const map = host.chosen();
    big.show(host.maps[map], host.head(map), host.largest);
  }

  function mark() {
    const map = host.chosen();
    const key = `${map}/${host.head(map)}`;
    const items = [...grid.querySelectorAll(".small-map")];
    const marked = items.find((item) => item.dataset.key === key);
    for (const item of items) {
      item.setAttribute("aria-pressed", String(item === marked));
      item.setAttribute("tabindex", item === (marked ?? items[0]) ? "0" : "-1");
    }
  }

  function fill() {
    const sort = choice("Order", SORTS, host.state.sort, (value) => {
      host.set({ sort: value });
      fill();
      sortSelect()?.focus();
    });
    const sortSelect = () => controls.querySelector("select");
    controls.replaceChildren(sort, legend(host.largest));
    grid.replaceChildren(...groups(host).map((group) => section(host, group, choose)));
    mark();
  }

  return {
    node,
    start: () => {
      fill();
      show();
    },
    redraw: () => big.draw(),
    recolour: () => {
      fill();
      big.repaint();
    },
    picture: () => big.canvas,
    title: () => big.title.textContent,
  };
}

// By part, in the order in which the parts come; each with its rows of heads.
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

function section(host, { part, isSorted, rows }, choose) {
  const node = make("section", { class: "part" }, make("h3", {}, part));
  for (const row of rows) {
    const line = make("div", { class: isSorted ? "heads wrapped" : "heads" });
    line.append(...row.map((one) => smallMap(host, one, isSorted, choose)));
    const label = isSorted ? [] : [make("span", { class: "layer" }, `layer ${row[0].weights.map.layer}`)];
    node.append(make("div", { class: "layer-row" }, ...label, line));
  }
  return node;
}

function smallMap(host, { weights, map, head, badges }, isSorted, choose) {
  const name = nameOf(weights, head);
  const canvas = paint(cells(weights, head, host.largest, SMALL));
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `small map: ${name}`);
  const label = head === ALL ? "mean" : isSorted ? `L${weights.map.layer} · H${head}` : `head ${head}`;
  const entropy = make(
    "span",
    { class: "entropy", title: "entropy: 0 focused, 1 even" },
    badges.entropy.toFixed(2),
  );
  const looks = badges.looks.map(({ name: look }) => make("span", { class: "badge" }, look));
  const attributes = { type: "button", class: "small-map", "data-key": `${map}/${head}`, title: name };
  attributes["aria-label"] = `${name}: ${inWords(badges)}; enlarge`;
  attributes.click = () => choose(map, head);
  const caption = make("span", { class: "caption" }, make("span", {}, label), entropy);
  return make("button", attributes, canvas, caption, make("span", { class: "badges" }, ...looks));
}
