"""Looks at a page in Debian's Chromium: what the console said, its width, axe's findings, pictures.

`python -m tests.page.browser PAGE [FOLDER]` checks one page at each width and puts pictures into FOLDER.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WIDTHS = {"desktop": 1440, "phone": 390, "wall": 2560}
NO_CHROMIUM = "no Chromium was found on PATH; install one (Debian: apt-get install chromium)."
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def chromium() -> str | None:
    """The browser's path."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


_BROKEN = """() => [...document.querySelectorAll('.scroll td, .scroll th')].flatMap(cell => {
  const found = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}]{2,13}/gu)) {
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    const lines = new Set([...range.getClientRects()].map(part => Math.round(part.top)));
    if (lines.size > 1 && !/[a-z][A-Z]/.test(word[0])) found.push(word[0]);
  }
  return found;
})"""


def broken_words(tab) -> list[str]:
    """Words of tables that go on in another line: of those that a column of a sheet could hold."""
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    tab.wait_for_timeout(300)
    return tab.evaluate(_BROKEN)


@contextmanager
def started_browser() -> Iterator:
    """A browser of playwright's."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium())
        yield browser
        browser.close()


@contextmanager
def looked_at(
    browser, page: Path, width: int, query: str = "", scheme: str = "light", *, bare: bool = True
) -> Iterator[tuple]:
    """A page of playwright's that is loaded and drawn, without its policy if bare, and its complaints until now."""
    # axe is put into the page, which lets only its own scripts run
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=bare) as context:
        tab, said = context.new_page(), []
        tab.on(
            "console", lambda m: said.append(f"console {m.type}: {m.text}") if m.type in ("error", "warning") else None
        )
        tab.on("pageerror", lambda error: said.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else said.append(asked.url))
        tab.goto(page.resolve().as_uri() + query)
        tab.wait_for_selector("#drawings", state="detached")
        tab.wait_for_timeout(300)
        if (wide := tab.evaluate(_OVERFLOW)) > 0:
            said.append(f"the page is {wide} px wider than the window")
        yield tab, said


def violations(tab) -> list[str]:
    """What axe finds serious or critical, with all that is folded open."""
    from axe_playwright_python.sync_playwright import Axe

    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(tab).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in ("serious", "critical")
    ]


def main(page: str, pictures: str | None = None) -> int:
    """Check a page; 1: something is wrong, 3: it cannot be looked at."""
    if not Path(page).exists() or chromium() is None:
        print(
            NO_CHROMIUM if chromium() is None else f"there is no page at {page}; run `make demo` first.",
            file=sys.stderr,
        )
        return 3
    wrong = []
    with started_browser() as browser:
        for name, width in WIDTHS.items():
            for scheme in ("light", "dark"):
                with looked_at(browser, Path(page), width, scheme=scheme) as (tab, said):
                    if pictures:
                        Path(pictures).mkdir(parents=True, exist_ok=True)
                        tab.screenshot(path=Path(pictures, f"report-{name}-{scheme}.png"))
                    wrong += [f"{name}, {scheme}: {what}" for what in [*said, *violations(tab)]]
    print("\n".join(wrong or [f"{page}: nothing is wrong at {', '.join(map(str, WIDTHS.values()))} px."]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
