"""Checks of pages in a browser that are the same for all of them: contrast of texts, and size of their files."""

from typing import Any

LEAST_CONTRAST, LEAST_CONTRAST_LARGE = 4.5, 3.0
"""WCAG 2.2, level AA: least contrast of texts, and of texts from 24 px, or 18.7 px if they are bold."""

_CONTRASTS = """
const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
const light = ([red, green, blue]) => {
  const linear = [red, green, blue].map((each) => {
    const value = each / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const background = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = parse(getComputedStyle(each).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.99) return colour;
  }
  return [255, 255, 255];
};
const texts = [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility()
  && !each.closest(":disabled, .u-off, script, style, svg, video")
  && [...each.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim()));
return texts.map((each) => {
  const style = getComputedStyle(each);
  const [one, other] = [light(parse(style.color)), light(background(each))].sort((a, b) => b - a);
  const size = parseFloat(style.fontSize);
  return {text: each.textContent.trim().slice(0, 40), contrast: (one + 0.05) / (other + 0.05),
          large: size >= 24 || (size >= 18.7 && Number(style.fontWeight) >= 700)};
});
"""


def assert_readable(browser: Any) -> None:
    """Check the contrast of every text of the open page against what is behind it, in light and in dark colours."""
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        texts = browser.execute_script(_CONTRASTS)
        assert texts
        faint = [
            text for text in texts if text["contrast"] < (LEAST_CONTRAST_LARGE if text["large"] else LEAST_CONTRAST)
        ]
        assert not faint, (scheme, faint)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
