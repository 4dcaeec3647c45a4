// Elements in one line. Strings become text nodes, so that markup in a token stays text.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export function choice(label, options, chosen, onChange) {
  const select = make("select", { change: () => onChange(options[select.selectedIndex].value) });
  for (const { value, text } of options) select.append(make("option", { selected: value === chosen }, text));
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

let last = 0;

export function newId(name) {
  last += 1;
  return `${name}-${last}`;
}
