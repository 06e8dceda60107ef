"""Checks that every page has to pass in a browser: width, size and reach of its controls, contrast and bytes."""

import os
from pathlib import Path
from typing import Any

SIZES = [(360, 560), (375, 667), (390, 844), (844, 390), (1280, 800), (2560, 1440)]
"""Widths and heights of what phones, a laptop and a monitor show of a page [pixels]."""

FINGERTIP = 44
"""Least width and height of a control [pixels]."""

MOST_BYTES = 300_000
"""Most bytes of a page and its files, without pictures and videos."""

LEAST_CONTRAST, LEAST_CONTRAST_LARGE = 4.5, 3.0
"""WCAG 2.2, level AA: least contrast of texts, and of texts from 24 px, or 18.7 px if they are bold."""

_LAYOUT = """
const page = document.documentElement;
const selector = "a[href], button, select, input:not([type=hidden]), textarea, summary, video[controls], .pad";
const hasText = (parent) => [...parent.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
const isInText = (each) =>
  each.matches("a") && getComputedStyle(each).display === "inline" && hasText(each.parentElement);
const controls = [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility() && !isInText(each));
const measured = controls.map((each) => {
  const box = each.getBoundingClientRect();
  const name = each.dataset.pad ?? (each.textContent.trim().slice(0, 20) || each.id || each.name || each.tagName);
  return {name, left: box.left, right: box.right, top: box.top + scrollY, bottom: box.bottom + scrollY};
});
const size = {width: page.scrollWidth, height: page.scrollHeight};
const [left, top] = [scrollX, scrollY];
const dialog = document.querySelector("dialog:modal");  // what lies behind it cannot be reached, and need not be
controls.forEach((each, index) => {
  if (dialog && !dialog.contains(each)) return;
  each.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"});
  const box = each.getBoundingClientRect();
  const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
  if (!each.contains(hit)) measured[index].covered = hit ? hit.outerHTML.slice(0, 80) : "outside of the window";
});
scrollTo({left, top, behavior: "instant"});
return {...size, controls: measured};
"""
"""The size of the page, and the place of each visible control in it [pixels], ``covered`` by what cannot be scrolled
away. Links within a text are no controls (WCAG 2.5.8).
"""

_CONTRASTS = """
const brush = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
const parse = (text) => {  // in any notation of CSS
  brush.clearRect(0, 0, 1, 1);
  brush.fillStyle = text;
  brush.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, alpha / 255];
};
const over = ([red, green, blue, alpha], back) =>
  [...[red, green, blue].map((each, index) => alpha * each + (1 - alpha) * back[index]), 1];
const light = (colour) => {
  const linear = colour.slice(0, 3).map((each) => {
    const value = each / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const background = (element) => {
  const back = element.parentElement ? background(element.parentElement) : dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
  return over(parse(getComputedStyle(element).backgroundColor), back);
};
const opacity = (element) =>
  Number(getComputedStyle(element).opacity) * (element.parentElement ? opacity(element.parentElement) : 1);
const contrast = (element, text, style) => {
  const back = background(element);
  const [red, green, blue, alpha] = parse(style.color);
  const lights = [light(over([red, green, blue, alpha * opacity(element)], back)), light(back)].sort((a, b) => b - a);
  const size = parseFloat(style.fontSize);
  return {text: text.trim().slice(0, 40), contrast: (lights[0] + 0.05) / (lights[1] + 0.05),
          large: size >= 24 || (size >= 18.7 && Number(style.fontWeight) >= 700)};
};
const visible = [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility()
  && !each.closest(":disabled, .u-off, option, script, style, svg, video"));
return visible.flatMap((each) => {
  const texts = [...each.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
  const found = texts.length ? [contrast(each, texts[0].data, getComputedStyle(each))] : [];
  if (each.matches("input, select, textarea")) found.push(contrast(each, each.value, getComputedStyle(each)));
  if (each.placeholder) found.push(contrast(each, each.placeholder, getComputedStyle(each, "::placeholder")));
  return found;
});
"""

_BYTES = """
const loaded = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
const others = loaded.filter(({initiatorType}) => initiatorType !== "img" && initiatorType !== "video");
const embedded = [...document.querySelectorAll("[src^='data:'], [poster^='data:']")]
  .map((each) => (each.getAttribute("src") ?? "").length + (each.getAttribute("poster") ?? "").length);
return others.reduce((sum, each) => sum + (each.transferSize || each.encodedBodySize), 0)
  - embedded.reduce((sum, each) => sum + each, 0);
"""

_SETTLED = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))"


def resize(browser: Any, width: int, height: int) -> None:
    """Give the page the screen of a phone, if it is less than 1000 pixels wide, or of a computer."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 1000}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_async_script(_SETTLED)


def contrasts(browser: Any, scheme: str) -> list[dict[str, Any]]:
    """Return ``text``, ``contrast`` against what is behind it, and whether it is ``large``, of each visible text.

    Args:
        scheme: "light" or "dark" colours.
    """
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        browser.execute_async_script(_SETTLED)
        texts: list[dict[str, Any]] = browser.execute_script(_CONTRASTS)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert texts
    return texts


def assert_readable(browser: Any) -> None:
    """Check the contrast of every text of the open page, in light and in dark colours."""
    for scheme in ("light", "dark"):
        faint = [
            text
            for text in contrasts(browser, scheme)
            if text["contrast"] < (LEAST_CONTRAST_LARGE if text["large"] else LEAST_CONTRAST)
        ]
        assert not faint, (scheme, faint)


def layout_of(browser: Any) -> dict[str, Any]:
    """Return ``width`` and ``height`` of the open page, and the place of each of its ``controls`` [pixels]."""
    layout: dict[str, Any] = browser.execute_script(_LAYOUT)
    return layout


def bytes_of(browser: Any) -> int:
    """Return the number of bytes of the open page that were loaded, without pictures and videos."""
    return int(browser.execute_script(_BYTES))


def checked(browser: Any, size: tuple[int, int], name: str, folder: Path) -> dict[str, Any]:
    """Check the page on a screen of ``size``, and keep a picture; return the measurements of :func:`layout_of`."""
    resize(browser, *size)
    layout = layout_of(browser)
    pictures = Path(os.environ.get("ROBO_RL_SCREENSHOTS", folder))
    browser.save_screenshot(str(pictures / f"{name}_{size[0]}x{size[1]}.png"))
    assert layout["width"] <= size[0], "there is a horizontal scroll bar"
    assert layout["controls"]
    for control in layout["controls"]:
        assert control["left"] >= 0 and control["right"] <= size[0], control
        assert control["top"] >= 0 and control["bottom"] <= max(layout["height"], size[1]), control
        assert control["right"] - control["left"] >= FINGERTIP, control
        assert control["bottom"] - control["top"] >= FINGERTIP, control
        assert "covered" not in control, control
    assert_readable(browser)
    assert (loaded := bytes_of(browser)) < MOST_BYTES, f"{loaded} bytes before pictures"
    return layout
