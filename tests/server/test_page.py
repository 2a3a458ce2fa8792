"""How the files of the page are sent."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from frontdesk.server.page import add_page

SCRIPT = b"let a = 1;\n" * 100


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A page with a script that the build has compressed, and a picture that it has not."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text('<script src="./assets/a.js"></script>')
    (tmp_path / "assets" / "a.js").write_bytes(SCRIPT)
    (tmp_path / "assets" / "a.js.gz").write_bytes(gzip.compress(SCRIPT))
    (tmp_path / "assets" / "b.png").write_bytes(b"picture")
    (tmp_path.parent / "secret.txt").write_text("quokka")
    app = FastAPI()
    add_page(app, tmp_path)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://desk") as client:
        yield client


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br", "gzip"),
        ("br;q=1, gzip;q=0.5", "gzip"),
        ("GZIP", "gzip"),
        ("identity", None),
        ("gzip;q=0", None),
        ("gzip; q=0.0", None),
        ("", None),
    ],
)
async def test_a_script_is_sent_compressed_to_those_who_take_it(
    page: httpx.AsyncClient, accepted: str, coding: str | None
) -> None:
    response = await page.get("/assets/a.js", headers={"Accept-Encoding": accepted})
    assert response.headers.get("content-encoding") == coding
    assert (response.content, response.headers["vary"]) == (SCRIPT, "Accept-Encoding")
    assert response.headers["content-type"].startswith("text/javascript")
    assert (int(response.headers["content-length"]) < len(SCRIPT)) is (coding is not None)


async def test_other_files_and_addresses(page: httpx.AsyncClient) -> None:
    picture = await page.get("/assets/b.png", headers={"Accept-Encoding": "gzip"})
    assert (picture.content, picture.headers.get("content-encoding")) == (b"picture", None)
    assert (await page.get("/s/any/session")).text == '<script src="/assets/a.js"></script>'
    assert (await page.get("/assets/missing.js")).status_code == 404
    for outside in ("/../secret.txt", "/%2e%2e/secret.txt", "/assets/..%2f..%2fsecret.txt"):
        assert "quokka" not in (await page.get(outside)).text
