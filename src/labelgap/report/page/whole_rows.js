// A table that scrolls in its box ends between two rows, never within one.

function wholeRows(box, tallest = 430) {
  const fit = () => {
    const head = box.querySelector("thead"), rows = box.querySelectorAll("tbody tr");
    if (!head || !rows.length || !box.clientWidth) return;
    const top = head.getBoundingClientRect().height;
    // What the frame and a horizontal scroll bar take.
    const around = box.offsetHeight - box.clientHeight;
    // A box for the sake of a row or two would hide more than it saves.
    const all = box.querySelector("table").getBoundingClientRect().height <= 1.25 * tallest;
    let height = top, shown = 0;
    for (const row of rows) {
      const next = row.getBoundingClientRect().height;
      if (shown && !all && height + next > tallest) break;
      height += next;
      shown++;
    }
    box.style.maxHeight = shown < rows.length ? `${height + around}px` : "none";
    box.style.scrollPaddingTop = `${top}px`;
    below();
  };
  const below = () => box.classList.toggle("below", box.scrollTop + box.clientHeight < box.scrollHeight - 2);
  box.addEventListener("scroll", below, { passive: true });
  new ResizeObserver(fit).observe(box);
  fit();
  return fit;
}
