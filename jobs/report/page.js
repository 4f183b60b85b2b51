"use strict";
// What the drawings share. Every name reaches the page through .text(): as text, never as markup.
const clock = inZone("%Y-%m-%d %H:%M:%S");
const FORMATS = [".%L", "%H:%M:%S", "%H:%M", "%b %d"].map(inZone);
const manyClusters = new Set(island.brokers.map((b) => b[0])).size > 1;

function length(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return d3.format(",.1f")(seconds / size) + " " + unit;
  }
  return d3.format(",.1f")(seconds) + " s";
}

// A tick says what differs from the tick before: milliseconds, seconds, minutes, or the day.
function tick(at) {
  const units = time.local ? [d3.timeSecond, d3.timeMinute, d3.timeDay] : [d3.utcSecond, d3.utcMinute, d3.utcDay];
  return FORMATS[units.filter((unit) => unit(at) >= at).length](at);
}

function inCluster(cluster, name) {
  return manyClusters ? name + " (" + cluster + ")" : name;
}

// Text cut to what fits: about 6.6 px a character at 12 px.
function fitted(text, pixels) {
  const most = Math.floor(pixels / 6.6);
  if (text.length <= most) return text;
  return most < 3 ? "" : text.slice(0, most - 1) + "…";
}

// Text, if all of it fits.
function whole(text, pixels) {
  return text.length * 6.6 <= pixels ? text : "";
}

// A mark says what it stands for when it is pointed at, chosen or reached with the keyboard.
function telling(marks, output, words) {
  const tell = (event, d) => {
    output.textContent = words(d);
    event.currentTarget.setAttribute("role", "img");
    event.currentTarget.setAttribute("aria-label", words(d));
  };
  return marks.attr("tabindex", -1).on("pointerenter", tell).on("click", tell).on("focus", tell);
}

// One stop of the tabulator for a whole drawing: arrows go on from there, to the nearest in the row above or below.
function roving(holder) {
  const first = holder.querySelector("[tabindex]");
  if (first) first.setAttribute("tabindex", 0);
  if (holder.roves) return;
  holder.roves = true;
  const place = (node, way) => { const box = node.getBoundingClientRect(); return way ? box.left : box.top + box.height / 2; };
  holder.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key], here = event.target;
    if (!way || !here.hasAttribute("tabindex")) return;
    event.preventDefault();
    const across = way[1] !== 0, sign = way[0] + way[1], x = place(here, 1), y = place(here, 0);
    let best = null, least = Infinity;
    for (const node of holder.querySelectorAll("[tabindex]")) {
      const right = place(node, 1) - x, below = place(node, 0) - y, along = (across ? right : below) * sign, beside = Math.abs(across ? below : right);
      if (node === here || along < 1 || (across && beside > 8)) continue;
      const far = across ? along : along * 1000 + beside;
      if (far < least) { least = far; best = node; }
    }
    if (!best) return;
    here.setAttribute("tabindex", -1);
    best.setAttribute("tabindex", 0);
    best.focus();
  });
}

// Draw anew when the width or the time changes, and only then; for paper as wide as a sheet, and what is wider shrinks.
function onChange(node, drawn) {
  let last = 0;
  const sheet = 678;
  function draw(width) {
    drawn(width);
    for (const svg of node.querySelectorAll("svg")) svg.setAttribute("viewBox", "0 0 " + svg.getAttribute("width") + " " + svg.getAttribute("height"));
  }
  addEventListener("beforeprint", () => { if (last) draw(sheet); });
  addEventListener("afterprint", () => { if (last) { draw(last); roving(node); } });
  new ResizeObserver(() => {
    const width = Math.floor(node.clientWidth);
    if (width && width !== last) { last = width; draw(width); roving(node); }
  }).observe(node);
  time.told.push(() => { if (last) { draw(last); roving(node); } });
}

function pressed(buttons, chosen) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button === chosen));
}

// Cells name their columns on a phone, and figures stand right: both as the heads say.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.querySelectorAll("thead th")];
  for (const row of table.querySelectorAll("tbody tr")) {
    heads.forEach((head, n) => { const cell = row.cells[n]; if (cell) { cell.dataset.label = head.textContent; cell.className = head.className; } });
  }
}
