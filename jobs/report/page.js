"use strict";
// What the drawings share. Every name reaches the page through .text(): as text, never as markup.
const island = JSON.parse(document.getElementById("island").textContent);
const clock = d3.utcFormat("%Y-%m-%d %H:%M:%S");
const FORMATS = [".%L", "%H:%M:%S", "%H:%M", "%b %d"].map((text) => d3.utcFormat(text));
const manyClusters = new Set(island.brokers.map((b) => b[0])).size > 1;

function length(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return d3.format(",.1f")(seconds / size) + " " + unit;
  }
  return d3.format(",.1f")(seconds) + " s";
}

// A tick says what differs from the tick before: milliseconds, seconds, minutes, or the day.
function tick(time) {
  const fits = [d3.utcSecond, d3.utcMinute, d3.utcDay].filter((unit) => unit(time) >= time);
  return FORMATS[fits.length](time);
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
  const tell = (event, d) => { output.textContent = words(d); };
  return marks.attr("tabindex", 0).attr("role", "img").attr("aria-label", words)
    .on("pointerenter", tell).on("click", tell).on("focus", tell);
}

// Draw anew when the width changes, and only then.
function onWidth(node, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(node.clientWidth);
    if (width && width !== last) { last = width; draw(width); }
  }).observe(node);
}

function pressed(buttons, chosen) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button === chosen));
}
