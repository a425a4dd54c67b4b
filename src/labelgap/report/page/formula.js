// The choice of a metric: a named one, or coefficients that are typed.

const OWN = "own";

function showMetrics() {
  const select = byId("metric");
  const all = figures.metrics.map(makeMetric);
  const possible = (metric) => metric.average !== "instance" || canInstance;
  const titles = { micro: "all entries together (micro)", instance: `mean over ${words.row}s (instance)`, macro: `mean over ${words.label}s (macro)` };
  for (const [average, label] of Object.entries(titles)) {
    const group = make("optgroup", { label });
    all.forEach((metric, at) => {
      if (metric.average === average) {
        const item = option(String(at), metric.name);
        item.disabled = !possible(metric);
        group.append(item);
      }
    });
    select.append(group);
  }
  select.append(option(OWN, "own formula"));
  const form = makeForm((metric) => {
    select.value = OWN;
    setMetric(metric);
  });
  select.addEventListener("change", () => {
    if (select.value === OWN) {
      byId("formula").closest("details").open = true;
      form.apply();
      return;
    }
    form.load(figures.metrics[Number(select.value)]);
    setMetric(all[Number(select.value)]);
  });
  const first = Math.max(all.findIndex(possible), 0);
  select.value = String(first);
  form.load(figures.metrics[first]);
  setMetric(all[first]);
}

function makeForm(changed) {
  const form = byId("formula");
  const field = (part, key) => make("input", { type: "text", inputmode: "decimal", id: `own-${part}-${key}`, "aria-label": `${part}: coefficient of ${key}`, autocomplete: "off" });
  const inputs = { numerator: {}, denominator: {} };
  const grid = make("div", { class: "own" }, make("span"), ...KEYS.map((key) => make("span", { class: "head", text: key === "const" ? "constant" : key.toUpperCase() })));
  for (const part of ["numerator", "denominator"]) {
    grid.append(make("span", { text: part }));
    for (const key of KEYS) grid.append((inputs[part][key] = field(part, key)));
  }
  const average = make("select", { id: "own-average" }, option("micro", "all entries together (micro)"), option("instance", `mean over ${words.row}s (instance)`), option("macro", `mean over ${words.label}s (macro)`));
  average.options[1].disabled = !canInstance;
  const zero = make("input", { type: "text", inputmode: "decimal", id: "own-zero", autocomplete: "off" });
  const balanced = make("input", { type: "checkbox", id: "own-balanced" });
  const error = make("p", { class: "error", role: "alert", id: "own-error" });
  form.append(grid, make("div", { class: "chart-head" },
    make("label", {}, "Average ", average), make("label", {}, "Value of 0/0 ", zero), make("label", {}, balanced, " both classes count alike (balanced)")), error);
  const read = (input) => (input.value.trim() === "" ? 0 : Number(input.value.replace("−", "-")));
  const apply = () => {
    try {
      const given = {
        name: "own formula", average: average.value, balanced: balanced.checked, zero_division: read(zero),
        numerator: KEYS.map((key) => read(inputs.numerator[key])), denominator: KEYS.map((key) => read(inputs.denominator[key])),
      };
      const metric = makeMetric(given);
      error.textContent = "";
      changed(metric);
    } catch (problem) {
      error.textContent = problem.message;
    }
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  const load = (metric) => {
    for (const part of ["numerator", "denominator"]) KEYS.forEach((key, at) => { inputs[part][key].value = String(metric[part][at]); });
    average.value = metric.average;
    zero.value = String(metric.zero_division);
    balanced.checked = metric.balanced;
    error.textContent = "";
  };
  return { apply, load };
}
