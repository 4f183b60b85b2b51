"use strict";
// Windows in time. A parent row shows how many isolate at once; opened, it shows a lane for each of them.
(function () {
  const holder = document.getElementById("timeline");
  if (!holder || !island.brokers.length) return;
  const told = document.getElementById("timeline-told");
  const { begin, end, step } = island.stretch;
  const PARENTS = 40, LANES = 40, HEIGHT = 24, AXIS = 26;
  // A window: broker, producer, from, to (-1: not known), state, why it ended, what opened it, certainty.
  const windows = island.windows.map(([broker, producer, from, to, kind, latency]) => {
    const [state, end, opened, certainty] = island.kinds[kind];
    return [broker, producer, from, to, state, end, opened + " at " + latency + " ms", certainty];
  });
  const byBroker = d3.group(windows, (w) => w[0]), byProducer = d3.group(windows, (w) => w[1]);
  const view = { rows: "broker", filter: "", parents: PARENTS, lanes: new Map(), open: new Set() };
  let width = 0;

  const producerName = (p) => p[2] + ", " + p[1];
  const openByItself = (parents) => {
    let lanes = 0;
    for (const parent of parents) if ((lanes += parent.children().length) > LANES) return;
    for (const parent of parents) view.open.add(parent.key);
  };

  // How many windows of a list hold at each time: [from, to, how many], from the list itself.
  function overlap(windows) {
    const edges = [];
    const brokers = new Map();
    for (const w of windows) edges.push([w[2], 1, w[0]], [w[3] < 0 ? w[2] + 1 : w[3], -1, w[0]]);
    edges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const found = [];
    let at = null;
    for (const [time, change, broker] of edges) {
      if (brokers.size && time > at) found.push([at, time, brokers.size]);
      const held = (brokers.get(broker) || 0) + change;
      if (held) brokers.set(broker, held); else brokers.delete(broker);
      at = time;
    }
    return found;
  }

  // The counted buckets of a broker, equal neighbours joined: [from, to, how many producers].
  function strip(number) {
    const found = [];
    for (const [bucket, n] of island.strips[number] || []) {
      const last = found[found.length - 1];
      if (last && last[1] === bucket * step && last[2] === n) last[1] += step;
      else found.push([bucket * step, (bucket + 1) * step, n]);
    }
    return found;
  }

  function parents() {
    if (view.rows === "broker") {
      return island.brokers.map(([cluster, name, windows, producers, seconds], n) => ({
        key: "b" + n, label: inCluster(cluster, name), sub: windows + " windows, " + length(seconds || 0),
        all: windows, of: island.replayed[cluster] || producers, what: "producers isolate it",
        segments: () => strip(n),
        children: () => d3.groups(byBroker.get(n) || [], (w) => w[1]).map(([p, own]) =>
          ({ key: "b" + n + "p" + p, label: producerName(island.producers[p]), windows: own })),
        matches: (text) => name.includes(text),
      }));
    }
    const brokersOf = d3.rollup(island.brokers, (b) => b.length, (b) => b[0]);
    return island.producers.map((p, n) => [p, n]).filter(([p]) => p[5]).map(([p, n]) => ({
      key: "p" + n, label: inCluster(p[0], p[2]), sub: p[5] + " windows",
      all: p[5], of: brokersOf.get(p[0]) || 1, what: "brokers are isolated",
      segments: () => overlap(byProducer.get(n) || []),
      children: () => d3.groups(byProducer.get(n) || [], (w) => w[0]).map(([b, own]) =>
        ({ key: "p" + n + "b" + b, label: island.brokers[b][1], windows: own })),
      matches: (text) => p[2].includes(text) || p[1].includes(text),
    }));
  }

  // The rows to draw: parents that match, under each open one its lanes, and a row that offers what is not drawn.
  function rows() {
    const text = view.filter.trim();
    const laneMatches = (lane) => lane.label.includes(text);
    let found = parents();
    if (text) found = found.filter((p) => p.matches(text) || p.children().some(laneMatches));
    const drawn = [];
    for (const parent of found.slice(0, view.parents)) {
      drawn.push({ ...parent, kind: "parent" });
      if (!view.open.has(parent.key)) continue;
      const most = view.lanes.get(parent.key) || LANES;
      const all = parent.children(), some = text && !parent.matches(text) ? all.filter(laneMatches) : all;
      for (const lane of some.slice(0, most)) drawn.push({ ...lane, kind: "lane" });
      if (some.length > most) {
        drawn.push({ key: parent.key + "+", kind: "more", label: "Show more: " + most + " of " + some.length + " lanes are drawn",
          act: () => view.lanes.set(parent.key, most + LANES) });
      }
      const held = d3.sum(all, (lane) => lane.windows.length);
      if (held < parent.all) drawn.push({ key: parent.key + "-", kind: "more", label: held + " of its " + parent.all + " windows are on this page, the longest" });
    }
    if (found.length > view.parents) {
      drawn.push({ key: "+", kind: "more", label: "Show more: " + view.parents + " of " + found.length + " rows are drawn",
        act: () => { view.parents += PARENTS; } });
    }
    if (!found.length) drawn.push({ key: "none", kind: "more", label: "Nothing on this page matches" });
    return drawn;
  }

  const share = (n, of) => (n >= of / 2 ? "most" : n <= of / 10 ? "few" : "some");
  const barEnd = (w) => (w[3] < 0 ? end - begin : w[3]);

  function windowWords(w) {
    const p = island.producers[w[1]], b = island.brokers[w[0]];
    const until = w[3] < 0 ? "end not known" : clock(begin + w[3]) + ", " + length((w[3] - w[2]) / 1000);
    return "Broker " + b[1] + " was " + w[4] + " to producer " + p[2] + " (group " + p[1] + ", release " + (p[3] || "not recorded") + ")\n"
      + clock(begin + w[2]) + " to " + until + ". Opened by " + w[6] + "; " + w[5].replaceAll("_", " ") + (w[5] === "open" ? ": the record ends inside it" : "") + "; " + w[7] + ".";
  }

  function draw() {
    const narrow = width < 640, gutter = narrow ? 0 : 300, top = narrow ? 18 : 0, laneHeight = HEIGHT + top;
    const list = rows(), height = AXIS + list.length * (laneHeight + 4) + 4;
    const x = timeScale(gutter, width - 1), [from, to] = [time.from - begin, time.to - begin];
    d3.select(holder).selectAll("*").remove();
    const svg = d3.select(holder).append("svg").attr("width", width).attr("height", height).attr("role", "group")
      .attr("aria-label", "Isolation over time");
    const defs = svg.append("defs");
    defs.append("clipPath").attr("id", "plot").append("rect").attr("x", gutter).attr("width", width - gutter).attr("height", height);
    for (const [id, colour] of [["unavailable", "#d55e00"], ["unreachable", "#0072b2"]]) {
      const hatch = defs.append("pattern").attr("id", "unsure-" + id).attr("width", 6).attr("height", 6)
        .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
      hatch.append("rect").attr("width", 6).attr("height", 6).attr("fill", "#fff");
      hatch.append("rect").attr("width", 3).attr("height", 6).attr("fill", colour);
    }
    const axis = svg.append("g").attr("class", "axis").attr("transform", "translate(0," + (AXIS - 4) + ")");
    const row = svg.selectAll("g.row").data(list, (d) => d.key).join("g").attr("class", (d) => "row" + (d.kind === "lane" || (d.kind === "more" && !d.act) ? "" : " row-open"))
      .attr("transform", (d, i) => "translate(0," + (AXIS + i * (laneHeight + 4)) + ")");
    row.filter((d) => d.kind !== "more").append("rect").attr("class", "lane").attr("x", gutter).attr("y", top).attr("width", width - gutter).attr("height", HEIGHT);
    const indent = (d) => (d.kind === "lane" ? 18 : 0);
    row.append("text").attr("x", (d) => (d.kind === "more" ? gutter + 6 : indent(d))).attr("y", (d) => (narrow && d.kind !== "more" ? 13 : HEIGHT / 2 + 4))
      .text((d) => fitted((d.kind === "parent" ? (view.open.has(d.key) ? "▾ " : "▸ ") : "") + d.label, d.kind === "more" || narrow ? width - 20 : (d.kind === "parent" ? gutter - 24 - 6 * d.sub.length : gutter - 26)))
      .attr("class", (d) => (d.kind === "parent" ? "strong" : null)).append("title").text((d) => d.label);
    if (!narrow) row.filter((d) => d.kind === "parent").append("text").attr("class", "sub").attr("x", gutter - 8).attr("text-anchor", "end").attr("y", HEIGHT / 2 + 4).text((d) => d.sub);
    row.filter((d) => d.kind === "parent" || d.act).attr("tabindex", -1).attr("role", "button").attr("aria-label", (d) => d.label).attr("aria-expanded", (d) => (d.kind === "parent" ? view.open.has(d.key) : null))
      .on("click keydown", (event, d) => {
        if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
        if (event.type === "keydown") event.preventDefault();
        if (d.act) d.act(); else if (!view.open.delete(d.key)) view.open.add(d.key);
        draw();
        roving(holder);
        const again = [...holder.querySelectorAll("g.row")][list.findIndex((row) => row.key === d.key)];
        if (event.type === "keydown" && again && again.hasAttribute("tabindex")) again.focus();
      });
    const plot = row.append("g").attr("clip-path", "url(#plot)").append("g").attr("transform", "translate(0," + top + ")");
    axis.call(d3.axisTop(x).ticks(Math.max(2, (width - gutter) / 110)).tickSizeOuter(0).tickFormat(tick));
    plot.each(function (d) {
      if (d.kind === "parent") segments(d3.select(this), d.segments().filter((s) => s[1] > from && s[0] < to), d, x);
      if (d.kind === "lane") bars(d3.select(this), d.windows.filter((w) => barEnd(w) >= from && w[2] <= to), x);
    });
    movable(holder, gutter, width);
  }

  const at = (x, offset) => x(begin + offset);
  function segments(g, list, parent, x) {
    const mark = g.selectAll("g").data(list).join((enter) => { const m = enter.append("g"); m.append("rect"); m.append("text"); return m; });
    const wide = (s) => Math.max(1.5, at(x, s[1]) - at(x, s[0]));
    mark.select("rect").attr("class", (s) => share(s[2], parent.of)).attr("x", (s) => at(x, s[0])).attr("width", wide).attr("height", HEIGHT);
    mark.select("text").attr("class", (s) => "on-" + share(s[2], parent.of)).attr("y", HEIGHT / 2 + 4)
      .attr("x", (s) => (Math.max(at(x, s[0]), x.range()[0]) + Math.min(at(x, s[1]), x.range()[1])) / 2).attr("text-anchor", "middle")
      .text((s) => (wide(s) < 16 ? "" : s[2]));
    mark.attr("class", "mark").on("pointerenter", (event, s) => {
      told.textContent = parent.label + ": " + s[2] + " of " + parent.of + " " + parent.what + "\n" + clock(begin + s[0]) + " to " + clock(begin + s[1]);
    });
  }

  function bars(g, list, x) {
    const mark = g.selectAll("g").data(list).join((enter) => { const m = enter.append("g"); m.append("rect"); m.append("path"); m.append("text"); return m; });
    const wide = (w) => Math.max(2, at(x, barEnd(w)) - at(x, w[2]));
    const sure = (w) => w[7] === "certain";
    mark.select("rect").attr("x", (w) => at(x, w[2])).attr("y", (w) => (w[4] === "unreachable" ? HEIGHT / 2 : 2)).attr("rx", 2)
      .attr("height", (w) => (w[4] === "unreachable" ? HEIGHT / 2 - 2 : HEIGHT - 4)).attr("width", wide)
      .attr("class", (w) => (sure(w) ? w[4] : "")).attr("fill", (w) => "url(#unsure-" + w[4] + ")")
      .attr("stroke", (w) => (sure(w) ? null : w[4] === "unreachable" ? "#0072b2" : "#d55e00"));
    mark.select("path").attr("fill", "none").attr("stroke", "#1b2430").attr("stroke-width", 1.5).attr("stroke-dasharray", "3 2")
      .attr("d", (w) => (w[5] === "open" || w[3] < 0 ? "M" + (at(x, barEnd(w)) - 1) + ",0V" + HEIGHT : null));
    mark.select("text").attr("class", (w) => (sure(w) ? "on-" + w[4] : "")).attr("y", (w) => (w[4] === "unreachable" ? HEIGHT - 4 : HEIGHT / 2 + 4))
      .attr("x", (w) => Math.max(at(x, w[2]), x.range()[0]) + 5)
      .text((w) => (sure(w) && w[4] === "unavailable" ? whole(length((barEnd(w) - w[2]) / 1000) + (w[5] === "open" ? ", open" : ""), wide(w) - 8) : ""));
    telling(mark.attr("class", "mark"), told, windowWords);
  }

  const section = document.getElementById("isolation");
  const switches = [...section.querySelectorAll("[data-rows]")];
  for (const button of switches) {
    button.addEventListener("click", () => {
      view.rows = button.dataset.rows; view.parents = PARENTS; pressed(switches, button); openByItself(parents()); draw();
    });
  }
  document.getElementById("isolation-filter").addEventListener("input", (event) => { view.filter = event.target.value; view.parents = PARENTS; draw(); });
  openByItself(parents());
  onChange(holder, (now) => { width = now; draw(); });
})();
