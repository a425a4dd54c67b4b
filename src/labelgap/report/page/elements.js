// Elements are made, never parsed: names from the data are text whatever they hold.

const SVG = "http://www.w3.org/2000/svg";

function byId(id) {
  return document.getElementById(id);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function make(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function draw(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// A name from the data, in its own direction of writing.
function nameOf(text) {
  return text.trim() ? make("bdi", { text, title: text }) : make("bdi", { class: "nameless", text: "(no name)" });
}

function option(value, text) {
  return make("option", { value, text });
}

function table(element, headings, rows) {
  const head = make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", { scope: "col", text }))));
  const body = make("tbody", {}, ...rows.map((row) => {
    const cells = row.map((cell, at) => {
      const content = cell instanceof Node ? cell : document.createTextNode(cell);
      return make(at ? "td" : "th", at ? {} : { scope: "row" }, content);
    });
    return make("tr", {}, ...cells);
  }));
  element.replaceChildren(head, body);
  return body;
}

// A table behind a "details" element, made when it is opened.
function tableOnDemand(id, build) {
  const place = byId(id);
  const details = place.closest("details");
  const refresh = () => {
    if (!details.open) return;
    const [headings, rows] = build();
    const element = make("table");
    table(element, headings, rows);
    place.replaceChildren(element);
  };
  details.addEventListener("toggle", refresh);
  return refresh;
}

function show(id) {
  byId(id).hidden = false;
}
