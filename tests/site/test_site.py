"""The contents of the site."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import mcp_baton
import mcp_baton.testing
from mcp_baton.settings import SETTINGS
from tests.once import once
from tests.site import settings_page
from tests.site.blocks import ROOT

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PYTHON = ROOT / "tests" / "site" / ".venv" / "bin" / "python"
# `mcp_baton.aws` has no `__all__`. These are the names in docs/deploying.md and docs/storage.md.
AWS = ("handler", "dynamodb_store", "LambdaContext")
PUBLIC = {
    *(f"mcp_baton.{name}" for name in mcp_baton.__all__),
    *(f"mcp_baton.testing.{name}" for name in mcp_baton.testing.__all__),
    *(f"mcp_baton.aws.{name}" for name in AWS),
}
EXTERNAL_LOAD = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preload|icon|preconnect|dns-prefetch)\b[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it. It is built once for all tests."""

    def build() -> str:
        folder = tmp_path_factory.mktemp("site")
        # With `--quiet`, `--strict` would notice no warning.
        command = [str(PYTHON), "-m", "mkdocs", "build", "--no-strict", "--site-dir", str(folder)]
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        process = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert process.returncode == 0, process.stderr
        assert [line for line in process.stderr.splitlines() if "WARNING" in line and "griffe" not in line] == []
        return str(folder)

    return Path(once(tmp_path_factory, "site", build))


def test_the_reference_and_its_table_have_exactly_the_public_names() -> None:
    pages = "".join(page.read_text() for page in REFERENCE.glob("*.md"))
    listed_names = re.findall(r"\(\w+\.md#(mcp_baton\.[\w.]+)\)", (REFERENCE / "index.md").read_text())

    assert sorted(re.findall(r"^::: (\S+)$", pages, re.MULTILINE)) == sorted(listed_names) == sorted(PUBLIC)


def test_every_public_name_is_described_on_the_site(site: Path) -> None:
    pages = {page.stem: page.read_text() for page in (site / "reference").glob("*.html")}
    entries = re.findall(r"\((\w+)\.md#(mcp_baton\.[\w.]+)\)", (REFERENCE / "index.md").read_text())
    undescribed = []
    for page, name in entries:
        match = re.search(
            rf'id="{re.escape(name)}" class="doc doc-heading".*?</h2>(.*?)(?:<h2|$)', pages[page], re.DOTALL
        )
        if match is None or not re.search(r"<p>\s*\S", match[1]):
            undescribed.append(name)

    assert undescribed == []


def test_the_site_loads_nothing_from_other_addresses(site: Path) -> None:
    files = [file for file in site.rglob("*") if file.suffix in {".html", ".css"}]
    loads = {str(file.relative_to(site)): EXTERNAL_LOAD.findall(file.read_text()) for file in files}

    assert len(files) > 20
    assert {name: addresses for name, addresses in loads.items() if addresses} == {}


def test_the_generated_page_is_up_to_date() -> None:
    assert settings_page.page() == settings_page.PAGE.read_text(), "run `make settings-page`"


def test_the_page_of_settings_has_every_parameter_of_the_template() -> None:
    rows = re.findall(r"^\| `([A-Z][A-Za-z]+)` \|", settings_page.PAGE.read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(settings_page.template()["Parameters"])


def test_every_variable_of_the_template_is_a_setting() -> None:
    assert set(re.findall(r"^ +(BATON_\w+):", settings_page.TEMPLATE, re.MULTILINE)) <= set(SETTINGS)
