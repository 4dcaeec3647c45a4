// The answers that the model would give after each layer, as a table: rows are layers, columns are tokens.
import { make } from "./dom.js";
import { displayToken, displayTokens, percent } from "./format.js";
import { isStepped, isTranslation } from "./steps.js";

export function hasLens({ record }) {
  return Boolean(record.lens?.length);
}

// { columns, rows }: the names of the columns, and per layer one cell per column, from the first layer on.
export function lensTable(record) {
  const stepped = isStepped(record);
  const tokens = stepped ? record.sides[record.stepped] : ["prediction"];
  const last = record.lens.length - 1;
  const rows = record.lens.map((answers, layer) => {
    const texts = answers.map(({ text }) => text);
    const shown = isTranslation(record) ? displayTokens(texts, tokens) : texts;
    const cells = answers.map(({ probability }, i) => ({
      text: shown[i],
      probability,
      isFinal: texts[i] === record.lens[last][i].text,
    }));
    return { layer, cells };
  });
  return { columns: stepped ? displayTokens(tokens) : tokens, rows };
}

export function lens({ record }) {
  const { columns, rows } = lensTable(record);
  const node = make("div", { class: "lens" });
  const help = "What the output layer would predict if the model ended after each layer. The stronger the colour, the more likely; ";
  node.append(make("p", { class: "muted note" }, `${help}answers in bold are those of the whole model.`));
  const header = make("tr", {}, make("th", { scope: "col" }, "layer"));
  header.append(...columns.map((token) => make("th", { scope: "col" }, displayToken(token, 16))));
  const body = rows.map(({ layer, cells }) => {
    const line = make("tr", {}, make("th", { scope: "row" }, String(layer)));
    line.append(...cells.map(cell));
    return line;
  });
  const table = make("table", { class: "lens-table" }, make("thead", {}, header), make("tbody", {}, ...body));
  node.append(make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "answers after each layer" }, table));
  return { node, start: () => {}, redraw: () => {}, recolour: () => {}, canvas: null, title: () => "layers" };
}

function cell({ text, probability, isFinal }) {
  const content = isFinal ? make("strong", {}, displayToken(text, 16)) : displayToken(text, 16);
  const node = make("td", { title: `${text}: ${percent(probability)}` }, content);
  node.style.setProperty("--share", `${Math.round(100 * probability)}%`);
  return node;
}
