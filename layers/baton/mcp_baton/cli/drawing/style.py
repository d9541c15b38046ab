"""The colours and fonts of a picture, in the light and in the dark."""

from typing import Final

_LIGHT: Final = {
    ".paper": "fill:#ffffff",
    ".title,.name,.argument text": "fill:#111827",
    ".said,.call,.input": "fill:#1f2937",
    ".note": "fill:#4b5563",
    ".box": "fill:#f9fafb;stroke:#6b7280",
    ".argument .box": "fill:#dbeafe;stroke:#2563eb",
    ".variable .box": "fill:#ede9fe;stroke:#7c3aed",
    ".badge": "fill:#374151",
    ".number": "fill:#ffffff",
    ".pause": "fill:#fef3c7",
    "text.pause": "fill:#78350f",
    ".bars": "stroke:#78350f",
    ".from-step .line": "stroke:#4b5563",
    ".from-step .head": "fill:#4b5563",
    ".from-argument .line": "stroke:#2563eb",
    ".from-argument .head": "fill:#2563eb",
    ".from-variable .line": "stroke:#7c3aed",
    ".from-variable .head": "fill:#7c3aed",
}
_DARK: Final = {
    ".paper": "fill:#0f172a",
    ".title,.name,.argument text": "fill:#f3f4f6",
    ".said,.call,.input": "fill:#e5e7eb",
    ".note": "fill:#b6c0cf",
    ".box": "fill:#1e293b;stroke:#94a3b8",
    ".argument .box": "fill:#1e3a5f;stroke:#60a5fa",
    ".variable .box": "fill:#3b2a63;stroke:#a78bfa",
    ".badge": "fill:#cbd5e1",
    ".number": "fill:#0f172a",
    ".pause": "fill:#4a3305",
    "text.pause": "fill:#fde68a",
    ".bars": "stroke:#fde68a",
    ".from-step .line": "stroke:#cbd5e1",
    ".from-step .head": "fill:#cbd5e1",
    ".from-argument .line": "stroke:#60a5fa",
    ".from-argument .head": "fill:#60a5fa",
    ".from-variable .line": "stroke:#a78bfa",
    ".from-variable .head": "fill:#a78bfa",
}
_SHAPES: Final = {
    "text": 'font-family:ui-sans-serif,system-ui,"Segoe UI",Helvetica,Arial,sans-serif',
    ".call,.input,text.argument": 'font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace',
    ".title": "font-size:20px;font-weight:600",
    ".said": "font-size:14px",
    ".note,text.pause,.call,.input": "font-size:12px",
    "text.argument": "font-size:13px",
    ".name": "font-size:15px;font-weight:600",
    ".number": "font-size:11px;font-weight:600;text-anchor:middle",
    ".box": "stroke-width:1.2",
    ".variable .box": "stroke-dasharray:5 3",
    ".line": "fill:none;stroke-width:1.4",
    ".dashed .line": "stroke-dasharray:4 4",
    ".bars": "fill:none;stroke-width:2.5",
}


def _rules(rules: dict[str, str]) -> str:
    """The rules for what is in a picture, and for nothing else on a page that holds it."""
    made = []
    for selectors, declarations in rules.items():
        within = ",".join(f".baton-graph {selector}" for selector in selectors.split(","))
        made.append(f"{within}{{{declarations}}}")
    return "".join(made)


STYLE: Final = f"{_rules(_SHAPES)}{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}"
