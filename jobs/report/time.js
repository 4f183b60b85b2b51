"use strict";
// The time that every drawing and list shows, and the zone that times are told in: both stand in the address.
const island = JSON.parse(document.getElementById("island").textContent);
const time = (function () {
  const spans = [[island.stretch.begin, island.stretch.end]];
  for (const matrix of island.matrices) spans.push([matrix.at[0], matrix.at[matrix.at.length - 1]]);
  for (const [,,,,,, cells] of island.fleet.brokers) for (const [place] of cells) spans.push([0, 1].map((n) => island.fleet.begin + (place + n) * island.fleet.step));
  const known = spans.filter(([from, to]) => from && to > from);
  const all = { from: Math.min(...known.map((s) => s[0])), to: Math.max(...known.map((s) => s[1])) };
  const given = new URLSearchParams(location.search), at = (name) => { const t = Date.parse(given.get(name) || ""); return isNaN(t) ? all[name] : t; };
  const asked = { from: at("from"), to: at("to") };
  return { all, told: [], local: given.get("zone") === "local", ...(asked.from < asked.to ? asked : all) };
})();

function inZone(text) {
  const utc = d3.utcFormat(text), local = d3.timeFormat(text);
  return (at) => (time.local ? local : utc)(at);
}

function timeScale(from, to) {
  return (time.local ? d3.scaleTime : d3.scaleUtc)([time.from, time.to], [from, to]);
}

// Show another time: as long as it was, or at least a hundredth of a second, within what is recorded.
function showTime(from, to) {
  const length = Math.min(Math.max(to - from, 10), time.all.to - time.all.from);
  time.from = Math.min(Math.max(from, time.all.from), time.all.to - length);
  time.to = time.from + length;
  clearTimeout(time.soon);
  time.soon = setTimeout(tellTime, 60);
}

function tellTime() {
  for (const tell of time.told) tell();
}

// Drag, or Ctrl and wheel, or two fingers, move and scale the time of a drawing.
function movable(node, from, to) {
  if (node.moves) { node.moves = [from, to]; return; }
  node.moves = [from, to];
  const share = (x) => Math.min(1, Math.max(0, (x - node.getBoundingClientRect().left - node.moves[0]) / (node.moves[1] - node.moves[0])));
  const scale = (x, factor) => { const at = time.from + share(x) * (time.to - time.from); showTime(at - (at - time.from) * factor, at + (time.to - at) * factor); };
  const fingers = new Map();
  node.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    scale(event.clientX, 1.002 ** event.deltaY);
  }, { passive: false });
  node.addEventListener("pointerdown", (event) => { if (!event.button) fingers.set(event.pointerId, event.clientX); });
  node.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) return;
    fingers.set(event.pointerId, event.clientX);
    if (fingers.size === 1 && event.pointerType === "mouse") {
      const by = (share(before) - share(event.clientX)) * (time.to - time.from);
      showTime(time.from + by, time.to + by);
    }
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      scale((other + event.clientX) / 2, Math.abs(other - before) / Math.max(1, Math.abs(other - event.clientX)));
    }
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) node.addEventListener(end, (event) => fingers.delete(event.pointerId));
}

(function () {
  const form = document.getElementById("time");
  if (!form || !(time.all.to > time.all.from)) { if (form) form.hidden = true; return; }
  const [from, to] = form.querySelectorAll("input"), left = document.getElementById("time-left"), isUtc = (zone) => zone === "utc";
  const shown = (at) => new Date(at - (time.local ? new Date(at).getTimezoneOffset() * 60000 : 0)).toISOString().slice(0, 19);
  const meant = (text) => Date.parse(text + (time.local ? "" : "Z"));
  const stamps = [...document.querySelectorAll("time")].map((node) => [node, Date.parse(node.textContent.replace(" ", "T") + "Z")]);
  const listed = [...document.querySelectorAll("section:not(#now):not(#quality) tbody tr, #incidents li[id], #fleet .incidents > li")]
    .map((node) => [node, stamps.filter(([stamp]) => node.contains(stamp)).map(([, at]) => at)]).filter(([, times]) => times.length);

  time.told.push(() => {
    const whole = time.from === time.all.from && time.to === time.all.to, address = new URL(location.href);
    for (const name of ["from", "to", "zone"]) address.searchParams.delete(name);
    if (!whole) for (const name of ["from", "to"]) address.searchParams.set(name, new Date(time[name]).toISOString());
    if (time.local) address.searchParams.set("zone", "local");
    if (address.href !== location.href) history.replaceState(null, "", address);
    from.value = shown(time.from);
    to.value = shown(time.to);
    for (const [node, at] of stamps) node.textContent = clock(at);
    let hidden = 0;
    for (const [node, times] of listed) {
      node.hidden = !whole && (Math.max(...times) < time.from || Math.min(...times) > time.to);
      hidden += node.hidden;
    }
    left.textContent = hidden ? hidden + " rows of lists are of another time, and hidden." : "";
    pressed(zones, zones.find((button) => isUtc(button.dataset.zone) !== time.local));
  });
  const zones = [...form.querySelectorAll("[data-zone]")];
  for (const button of zones) button.addEventListener("click", () => { time.local = !isUtc(button.dataset.zone); tellTime(); });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const half = (time.to - time.from) / 2, middle = time.from + half, way = button.dataset.zoom;
      if (way === "all") showTime(time.all.from, time.all.to); else showTime(middle - half * (way === "in" ? 0.5 : 2), middle + half * (way === "in" ? 0.5 : 2));
    });
  }
  for (const input of [from, to]) input.addEventListener("change", () => { if (meant(from.value) < meant(to.value)) showTime(meant(from.value), meant(to.value)); });
  form.addEventListener("submit", (event) => event.preventDefault());
})();
