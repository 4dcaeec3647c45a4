// A row that scrolls sideways fades out at each side where there is more, so that hidden items are noticed.

// The class names of a row with this geometry; one pixel is tolerated, because widths are rounded.
export function scrollCues({ scrollLeft, clientWidth, scrollWidth }) {
  return { "more-before": scrollLeft > 1, "more-after": scrollLeft + clientWidth < scrollWidth - 1 };
}

export function addScrollCue(row) {
  const update = () => {
    for (const [name, isOn] of Object.entries(scrollCues(row))) row.classList.toggle(name, isOn);
  };
  row.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(row); // also when the row is added to the page
  return row;
}
