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
    // The words say what a click does, not what the page looks like now.
    byId("theme-says").textContent = isDark() ? "Switch to light" : "Switch to dark";
    button.title = `Show this page in ${isDark() ? "light" : "dark"} colours`;
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
