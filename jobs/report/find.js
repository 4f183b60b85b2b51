"use strict";
// One search over all that stands on the page: what it finds are links to where it stands.
(function () {
  const box = document.getElementById("find"), list = document.getElementById("found");
  if (!box) return;
  const MOST = 12, all = [...island.find, ...island.producers.map((p) => ["producer", p[2], p[1], "producers"])];
  for (const link of document.querySelectorAll("#pages a")) all.push(["page of the " + link.dataset.kind, link.textContent, link.title, link.getAttribute("href")]);

  function rank([what, name], text) {
    const at = name.toLowerCase().indexOf(text);
    return at < 0 ? 2 : at === 0 ? 0 : 1;
  }

  // What an incident or a finding says, its evidence included.
  function shownAt(anchor) {
    const node = /^(incident|finding)-/.test(anchor) && document.getElementById(anchor);
    return node ? node.textContent : "";
  }

  function show() {
    const text = box.value.trim().toLowerCase();
    list.replaceChildren();
    if (!text) return;
    const hits = all.filter(([, name, words, anchor]) => [name, words, shownAt(anchor)].some((words) => words.toLowerCase().includes(text)))
      .sort((a, b) => rank(a, text) - rank(b, text));
    for (const [what, name, , anchor] of hits.slice(0, MOST)) {
      const item = document.createElement("li"), link = document.createElement("a"), kind = document.createElement("span");
      link.href = what.startsWith("page ") ? anchor : "#" + anchor;
      link.textContent = name;
      kind.textContent = " " + what;
      kind.className = "quiet";
      item.append(link, kind);
      list.append(item);
    }
    const rest = document.createElement("li");
    rest.className = "quiet";
    rest.textContent = !hits.length ? "Nothing on this page has that in its name or evidence." : hits.length > MOST ? hits.length - MOST + " more" : "";
    if (rest.textContent) list.append(rest);
  }

  // What is linked to is shown, whatever it is folded in.
  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (!target) return;
    target.hidden = false;
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
    target.scrollIntoView();
  }
  box.addEventListener("input", show);
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
})();
