// The foot of the page: what it was made of, with what, and when.

function showOrigin() {
  const { origin } = figures;
  const facts = [
    ["model", origin.model || words.model], ["data", origin.data || "given in Python, without a name"],
    ["made on", origin.date], ["labelgap", origin.version],
  ];
  byId("origin").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", {}, make("bdi", { text: value }))]));
  const changed = origin.settings.filter((one) => one.changed).map((one) => `${one.name}=${one.value}`);
  byId("settings").textContent = `${words.model}(${changed.join(", ")})`;
  tableOnDemand("settings-table", () => [["setting", "value"], origin.settings.map((one) => [one.name, one.changed ? make("strong", { text: one.value }) : one.value])]);
}
