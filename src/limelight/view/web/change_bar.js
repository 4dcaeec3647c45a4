// The list of changes of the attention, and how they changed the answer.
import { describeChange, toggle } from "./changes.js";
import { make } from "./dom.js";
import { percent } from "./format.js";

const SHOWN = "The maps below show the changed attention.";

// `onChange` receives the new list of changes. Without changes, the bar is empty. A record that was computed with
// changes has no `base` if it could not be computed without them.
export function changeBar(host, { onChange, isComputing }) {
  const { changes } = host.state;
  const node = make("div", { class: "changes", role: "group", "aria-label": "changes of the attention" });
  if (!changes.length) return node;
  const record = host.base?.record ?? host.record;
  const items = changes.map((change) => {
    const text = describeChange(change, record);
    const attributes = { type: "button", class: "change", "aria-label": `${text}: take back`, title: "take back" };
    return make("button", { ...attributes, click: () => onChange(toggle(changes, change)) }, `${text} ×`);
  });
  const button = (text, click) => make("button", { type: "button", class: "small", click }, text);
  node.append(...items, button("Undo", () => onChange(changes.slice(0, -1))));
  if (changes.length > 1) node.append(button("Clear all", () => onChange([])));
  const text = isComputing ? "computing …" : host.base ? effect(host) : SHOWN;
  node.append(make("p", { class: "muted note", role: "status" }, text));
  return node;
}

// The answer before and after, and its probability.
export function effect({ base, record }) {
  const { answer: before, probability: sure } = base.record;
  const { answer: after, probability } = record;
  if (!before && !after) return SHOWN;
  const same = before === after;
  const change = same ? `The prediction is still “${after}”` : `The prediction changed from “${before}” to “${after}”`;
  if (probability === null || sure === null) return `${change}.`;
  return same
    ? `${change}: ${percent(sure)} before, ${percent(probability)} now.`
    : `${change}: ${percent(sure)} before, now ${percent(probability)}.`;
}
