"""Shared code for tests of pages: their tags, and an accessibility check."""

from __future__ import annotations

from html.parser import HTMLParser


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the unclosed ones."""

    EMPTY = ("meta", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.found, self.stack = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


def assert_accessible(browser, page, axe, picture, scheme, width):
    """Check a page with axe-core: on a screen and a phone, light and dark, with all details open."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    browser.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found["violations"]] == []
    assert len(found["passes"]) > 10
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    browser.save_screenshot(str(picture))
    assert picture.stat().st_size > 10_000
