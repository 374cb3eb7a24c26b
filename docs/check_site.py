"""Opens every page of the built site in headless Chromium, and searches it.

    python docs/check_site.py [target/site]

Exit status 2 if there is no Chromium.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "target/site").resolve()
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for path in map(shutil.which, names) if path), None)
    if program is None:
        print("there is no Chromium")
        return 2
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base, wrong = f"http://127.0.0.1:{server.server_port}", []
    pages = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html") if p.name != "404.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.on("console", lambda m: wrong.append(f"{tab.url}: {m.text}") if m.type == "error" else None)
        tab.on("pageerror", lambda e: wrong.append(f"{tab.url}: {e}"))
        # A page needs nothing from elsewhere.
        tab.on("request", lambda r: None if r.url.startswith((base, "data:")) else wrong.append(f"asks for {r.url}"))
        tab.on("response", lambda r: None if r.ok or r.status == 304 else wrong.append(f"{r.status}: {r.url}"))
        for page in pages:
            tab.goto(f"{base}/{page}", wait_until="load")
            if not tab.locator("article h1").first.inner_text().strip():
                wrong.append(f"{page}: has no heading")
            broken = "() => [...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
            wrong += [f"{page}: {source} shows nothing" for source in tab.evaluate(broken)]
        tab.goto(f"{base}/index.html")
        tab.keyboard.press("/")
        tab.keyboard.type("retain_grad")
        link = tab.locator("a.md-search-result__link[href*='api/tensor.html'][href$='#retain_grad']").first
        link.wait_for(timeout=20_000, state="attached")
        tab.goto(str(link.evaluate("link => link.href")))
        if not tab.locator("#retain_grad").is_visible():
            wrong.append("the search leads to no retain_grad")
        browser.close()
    print("\n".join(wrong) or f"{len(pages)} pages open; the search finds retain_grad")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
