// Light or dark: as the system has it, until the reader chooses.

const themeWatchers = [];

function onTheme(paint) {
  themeWatchers.push(paint);
}

function showTheme() {
  const root = document.documentElement, button = byId("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const changed = () => {
    button.setAttribute("aria-pressed", String(isDark()));
    for (const paint of themeWatchers) paint();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    changed();
  });
  system.addEventListener("change", changed);
  // On paper the page is light; what is painted, and not styled, has to be painted anew.
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme };
    root.dataset.theme = "light";
    changed();
  });
  window.addEventListener("afterprint", () => {
    if (!before) return;
    if (before.theme) root.dataset.theme = before.theme;
    else delete root.dataset.theme;
    before = null;
    changed();
  });
  changed();
}
