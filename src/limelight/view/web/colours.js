// Colours that colour-blind readers can distinguish. The scale for weights starts near the background colour
// of the page, so that small weights fade into it, and its luminance is monotonic.

const STOPS = {
  light: ["#eef4e0", "#cfe8b9", "#8fd0a0", "#4aaf9b", "#2a8a96", "#2a6289", "#2d3d75", "#24194f"],
  dark: ["#1f2539", "#2a3a68", "#2a6289", "#2a8a96", "#4aaf9b", "#8fd0a0", "#cfe87f", "#fbf7a6"],
};

// The colours of Okabe and Ito (2008), with olive instead of yellow, which is hard to see on white.
const HEADS = ["#0f7fc4", "#e08a00", "#009e73", "#cc6fa4", "#56b4e9", "#d55e00", "#a39a00", "#8a8f98"];

const SIZE = 256;

// 256 colours as [red, green, blue] from weight 0 to the largest weight; theme is "light" or "dark".
export function colourScale(theme) {
  const stops = STOPS[theme].map(rgb);
  return Array.from({ length: SIZE }, (_, i) => {
    const position = (i / (SIZE - 1)) * (stops.length - 1);
    const first = Math.min(Math.floor(position), stops.length - 2);
    return stops[first].map((from, part) => from + (position - first) * (stops[first + 1][part] - from));
  });
}

// The index of a weight in the scale. It grows with the square root of the weight: among many keys a weight
// of 0.01 is large, and must be visible beside a weight of 1.
export function scaleIndex(weight, largest) {
  if (!(weight > 0) || !(largest > 0)) return 0;
  return Math.round(Math.sqrt(Math.min(weight / largest, 1)) * (SIZE - 1));
}

export function css(colour, alpha = 1) {
  return `rgba(${colour.map(Math.round).join(", ")}, ${alpha})`;
}

export function headColour(head) {
  return HEADS[head % HEADS.length];
}

// Relative luminance, as defined by WCAG 2.
export function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// A text colour with enough contrast on a background colour.
export function textColourOn(colour) {
  return luminance(colour) > 0.2 ? "#10151c" : "#ffffff";
}

export function theme() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
