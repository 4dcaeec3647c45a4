// Colours that every kind of colour vision tells apart. A weight's scale begins near the colour of the page,
// so that what has no weight fades into it, and changes in luminance all the way.

const STOPS = {
  light: ["#eef4e0", "#cfe8b9", "#8fd0a0", "#4aaf9b", "#2a8a96", "#2a6289", "#2d3d75", "#24194f"],
  dark: ["#1f2539", "#2a3a68", "#2a6289", "#2a8a96", "#4aaf9b", "#8fd0a0", "#cfe87f", "#fbf7a6"],
};

// After Okabe and Ito (2008), with an olive for their yellow, which is lost on white.
const HEADS = ["#0f7fc4", "#e08a00", "#009e73", "#cc6fa4", "#56b4e9", "#d55e00", "#a39a00", "#8a8f98"];

const SIZE = 256;

export function scale(theme) {
  const stops = STOPS[theme].map(rgb);
  return Array.from({ length: SIZE }, (_, i) => {
    const place = (i / (SIZE - 1)) * (stops.length - 1);
    const first = Math.min(Math.floor(place), stops.length - 2);
    return stops[first].map((from, part) => from + (place - first) * (stops[first + 1][part] - from));
  });
}

// By the square root: a weight of a hundredth, which is much among many keys, is to be seen beside a weight of one.
export function shade(weight, largest) {
  if (!(weight > 0) || !(largest > 0)) return 0;
  return Math.round(Math.sqrt(Math.min(weight / largest, 1)) * (SIZE - 1));
}

export function css(colour, alpha = 1) {
  return `rgba(${colour.map(Math.round).join(", ")}, ${alpha})`;
}

export function headColour(head) {
  return HEADS[head % HEADS.length];
}

// Relative luminance as WCAG 2 defines it.
export function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// What can be read on a colour.
export function inkOn(colour) {
  return luminance(colour) > 0.2 ? "#10151c" : "#ffffff";
}

export function theme() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
